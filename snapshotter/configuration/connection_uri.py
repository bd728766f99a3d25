"""One address out of the ``mongodb.*`` options.

Everything that connects (the driver here, the readers on executors, the stream's own processes) gets a single
connection string, so that no option can be honoured in one place and forgotten in another. What the user's own
connection string says wins over the options, as in Debezium. Certificates out of key stores are part of the address
(`streaming.mongo.certificates`).
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, unquote

from snapshotter.configuration.mongodb_options import MongodbOptions
from streaming.mongo.certificates import with_certificates

KEYSTORE, TRUSTSTORE = "mongodb.ssl.keystore", "mongodb.ssl.truststore"
_X509 = "MONGODB-X509"
_EXTERNAL = "$external"
_CA_FILE, _KEY_FILE = "tlscafile", "tlscertificatekeyfile"


def connection_uri(mongodb: MongodbOptions) -> str:
    """The connection string with credentials, TLS and timeouts of the other options. It holds secrets. Raises
    ConfigurationError where a key store cannot be used."""
    scheme, _, rest = mongodb.connection_string.partition("://")
    address, _, query = rest.partition("?")
    hosts, slash, database = address.rpartition("@")[2].partition("/")
    credentials = address.rpartition("@")[0]
    given = given_options(mongodb)
    extra: dict[str, str] = {}
    if mongodb.user and not credentials:
        credentials = quote(mongodb.user, safe="")
        if mongodb.password is not None:
            credentials += ":" + quote(mongodb.password, safe="")
        extra["authSource"] = _EXTERNAL if proves_by_certificate(given) else mongodb.authsource
    if mongodb.ssl_enabled and "ssl" not in given:
        extra["tls"] = "true"
    if uses_tls(mongodb) and mongodb.ssl_invalid_hostname_allowed and "tlsinsecure" not in given:
        extra["tlsAllowInvalidHostnames"] = "true"
    extra["connectTimeoutMS"] = str(mongodb.connect_timeout_ms)
    extra["serverSelectionTimeoutMS"] = str(mongodb.server_selection_timeout_ms)
    extra["heartbeatFrequencyMS"] = str(mongodb.heartbeat_frequency_ms)
    if mongodb.socket_timeout_ms:
        extra["socketTimeoutMS"] = str(mongodb.socket_timeout_ms)
    added = [f"{name}={quote(value, safe='')}" for name, value in extra.items() if name.lower() not in given]
    parts = "&".join([part for part in query.split("&") if part] + added)
    user = f"{credentials}@" if credentials else ""
    return _with_stores(f"{scheme}://{user}{hosts}{slash or '/'}{database}?{parts}", mongodb)


def given_options(mongodb: MongodbOptions) -> Mapping[str, str]:
    """What the user's own connection string says, by names in small letters."""
    query = mongodb.connection_string.partition("?")[2]
    parts = (part.partition("=") for part in query.split("&") if part)
    return {name.lower(): unquote(value) for name, _, value in parts}


def uses_tls(mongodb: MongodbOptions) -> bool:
    """Whether one connects with TLS: as the connection string says; where it does not, as the option does, or its
    scheme, or because it names certificates."""
    given = given_options(mongodb)
    said = given.get("tls", given.get("ssl"))
    if said is not None:
        return said.lower() == "true"
    by_scheme = mongodb.connection_string.startswith("mongodb+srv:")
    return mongodb.ssl_enabled or by_scheme or _CA_FILE in given or _KEY_FILE in given


def proves_by_certificate(given: Mapping[str, str]) -> bool:
    """Whether the client's certificate says who connects (X.509), so that there is no password."""
    return given.get("authmechanism", "").upper() == _X509


def overruled(mongodb: MongodbOptions, option: str) -> str | None:
    """Why the key store of this ``option`` is not used; None where it is."""
    name = "tlsCAFile" if option == TRUSTSTORE else "tlsCertificateKeyFile"
    if not uses_tls(mongodb):
        return "mongodb.ssl.enabled is not true"
    if name.lower() in given_options(mongodb):
        return f"mongodb.connection.string names another file ({name})"
    return None


def _with_stores(uri: str, mongodb: MongodbOptions) -> str:
    trusted, own = mongodb.ssl_truststore, mongodb.ssl_keystore
    trusted = None if overruled(mongodb, TRUSTSTORE) else trusted
    own = None if overruled(mongodb, KEYSTORE) else own
    if trusted is None and own is None:
        return uri
    # Its package takes a tenth of a second to load, and few need it.
    from snapshotter.configuration.key_stores import Store, authorities, identity

    known = trusted and authorities(Store(TRUSTSTORE, trusted, mongodb.ssl_truststore_password))
    ours = own and identity(Store(KEYSTORE, own, mongodb.ssl_keystore_password))
    return with_certificates(uri, authorities=known, identity=ours)
