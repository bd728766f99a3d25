"""Where TLS is why no server answers: which of its ways to fail it is, and which option is about it.

The driver tries a server again and again until its time is up, and keeps no more of the last error than its text. So
each server that it did not reach is tried once more here, by a handshake without credentials, and by a question without
TLS: what is said was seen.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

_ASK_SECONDS = 2.0
_QUIET_SECONDS = 1.0
"""A server that has nothing against our certificate waits for us to speak."""
_ENABLED = "mongodb.ssl.enabled"
_TRUST = (
    "set mongodb.ssl.truststore to a store with the certificate of the authority that has signed it, or tlsCAFile in "
    "mongodb.connection.string (PEM)"
)
_IDENTITY = (
    "set mongodb.ssl.keystore to a store with a certificate that it accepts, and its key, or tlsCertificateKeyFile in "
    "mongodb.connection.string (PEM)"
)
# OpenSSL's codes of what is wrong with a chain of certificates.
_UNKNOWN_AUTHORITY = (2, 7, 18, 19, 20, 21)  # 7: one of the same name, with another key
_NOT_YET_VALID, _EXPIRED, _REVOKED = 9, 10, 23
_OTHER_NAME = (62, 64)
# Parts of the names by which OpenSSL calls an alert that a server sends about our certificate.
_ALERTS = {
    "UNKNOWN_CA": "the server does not know the authority that has signed our certificate",
    "CERTIFICATE_EXPIRED": "the server says that our certificate has expired",
    "CERTIFICATE_REVOKED": "the server says that our certificate has been revoked",
    "CERTIFICATE_REQUIRED": "the server wants a client certificate, and we have none",
    "BAD_CERTIFICATE": "the server refuses our certificate",
    "UNSUPPORTED_CERTIFICATE": "the server refuses our certificate (for its purpose, or its kind of key)",
    "CERTIFICATE_UNKNOWN": "the server refuses our certificate",
    "DECRYPT_ERROR": "the server refuses our certificate",
}
_VERSIONS = ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_SHARED_CIPHER", "HANDSHAKE_FAILURE")


class _HungUp(ConnectionError):
    """The server closed the connection after the handshake, and sent no alert."""


def found_by(client: MongoClient[Any]) -> str | None:
    """What is wrong with TLS at one of the servers that the ``client`` could not reach, and what to do about it; None
    where it is not TLS."""
    options = client.options
    context: Any = options.pool_options._ssl_context
    identified = bool(options._options.get("tlscertificatekeyfile"))
    for (host, port), server in sorted(client.topology_description.server_descriptions().items()):
        if server.error is None or port is None:
            continue
        if context is None:
            why = _without_tls(host, port)
        elif isinstance(context, ssl.SSLContext):  # PyOpenSSL's own one tells nothing that could be read here
            why = _with_tls(host, port, context, identified)
        else:
            continue
        if why is not None:
            return f"{host}:{port}: {why}"
    return None


def _without_tls(host: str, port: int) -> str | None:
    """For a client without TLS: whether the server wants it."""
    if _answers(host, port):
        return None
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    error = _handshake(host, port, anybody)
    if error is None:
        return f"the server takes connections by TLS only: set {_ENABLED} = true"
    if isinstance(error, _HungUp) or _of_alert(error):
        return f"the server takes connections by TLS, with a client certificate: set {_ENABLED} = true, and {_IDENTITY}"
    return None


def _with_tls(host: str, port: int, context: ssl.SSLContext, identified: bool) -> str | None:
    """For a client with TLS, which has a certificate where it is ``identified``."""
    error = _handshake(host, port, context)
    if error is None:
        return None
    if isinstance(error, ssl.SSLCertVerificationError):
        return _of_certificate(error)
    if why := _of_alert(error):
        return why
    if isinstance(error, _HungUp):
        if identified:
            return f"the server closes the connection when it has seen our certificate (its log says why): {_IDENTITY}"
        return f"the server wants a client certificate, and we have none: {_IDENTITY}"
    if _answers(host, port):
        return f"the server does not speak TLS: leave {_ENABLED} out, and tls in mongodb.connection.string"
    return None


def _of_certificate(error: ssl.SSLCertVerificationError) -> str:
    code = error.verify_code
    if code in _UNKNOWN_AUTHORITY:
        return f"the authority that has signed the server's certificate is not known here: {_TRUST}"
    if code in _OTHER_NAME:
        return (
            f"the server's certificate is for another host ({error.verify_message}): use a name that it has in "
            "mongodb.connection.string and in the replica set's configuration, or set "
            "mongodb.ssl.invalid.hostname.allowed = true"
        )
    if code in (_EXPIRED, _NOT_YET_VALID):
        when = "has expired" if code == _EXPIRED else "is not valid yet (or the clock here is wrong)"
        return (
            f"the server's certificate {when}: renew it there; no option of the engine accepts it "
            "(tlsAllowInvalidCertificates=true in mongodb.connection.string accepts any certificate, and so protects "
            "from nobody)"
        )
    if code == _REVOKED:
        return "the server's certificate has been revoked: renew it there"
    return f"the server's certificate is refused ({error.verify_message}): {_TRUST}"


def _of_alert(error: OSError) -> str | None:
    if not isinstance(error, ssl.SSLError):
        return None
    reason = str(error.reason or "").upper()
    for part, meaning in _ALERTS.items():
        if part in reason:
            return f"{meaning}: {_IDENTITY}"
    if any(part in reason for part in _VERSIONS):
        return f"the server and this machine's OpenSSL share no version of TLS or no cipher ({reason})"
    return None


def _handshake(host: str, port: int, context: ssl.SSLContext) -> OSError | None:
    """What comes of a handshake. None: the server waits for what we have to say."""
    try:
        with (
            socket.create_connection((host, port), _ASK_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            secured.settimeout(_QUIET_SECONDS)
            return _HungUp() if secured.recv(1) == b"" else None
    except TimeoutError as error:
        return None if "handshake" not in str(error) else error
    except OSError as error:
        return error


def _answers(host: str, port: int) -> bool:
    """Whether the server answers without TLS."""
    wait = int(_ASK_SECONDS * 1_000)
    waits: dict[str, Any] = {"serverSelectionTimeoutMS": wait, "connectTimeoutMS": wait}
    with MongoClient[dict[str, Any]](host, port, directConnection=True, **waits) as client:
        try:
            client.admin.command("hello")
        except PyMongoError:  # whatever it is: it is no answer
            return False
    return True
