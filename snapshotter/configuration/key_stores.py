"""``mongodb.ssl.keystore`` and ``mongodb.ssl.truststore`` as the driver of MongoDB takes them: PEM.

PKCS12 or JKS is seen by a file's content, as Java does it too, whatever ``….type`` says: Java's tool has written PKCS12
under names that end in ``.jks`` since Java 9.

A store is read when somebody is about to connect, and everything that can be said of it is said then, with the option:
it can't be read, its password is wrong, there is no key in it or more than one, its certificate has expired.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from snapshotter.configuration import java_key_store
from snapshotter.configuration.java_key_store import KeyStoreError
from snapshotter.errors import ConfigurationError

_PEM = serialization.Encoding.PEM


@dataclass(frozen=True, slots=True)
class Store:
    """A store as the ``option`` names it: its ``path``, and its password, if it has one."""

    option: str
    path: str
    password: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Content:
    """A private key (PEM) with its chain, and the other certificates."""

    key: str | None = field(repr=False)
    chain: tuple[x509.Certificate, ...]
    others: tuple[x509.Certificate, ...]


def identity(store: Store) -> str:
    """The private key and the certificates for it, its own one first. Raises ConfigurationError."""
    content = _content(store, with_key=True)
    if content.key is None or not content.chain:
        raise _problem(store, "has no private key with a certificate: give the store of the client's own key")
    _refuse_expired(store, content.chain[0])
    return content.key + _pem(content.chain)


def authorities(store: Store) -> str:
    """Every certificate in the store. Raises ConfigurationError."""
    content = _content(store, with_key=False)
    certificates = (*content.others, *content.chain)
    if not certificates:
        raise _problem(
            store, "has no certificate in it: import the one of the authority that signs the servers'"
        )
    return _pem(dict.fromkeys(certificates))


def _content(store: Store, *, with_key: bool) -> _Content:
    try:
        data = Path(store.path).expanduser().read_bytes()
    except OSError as error:
        raise _problem(store, f"cannot be read: {error.strerror or error}") from error
    read = _java if data.startswith(java_key_store.MAGIC) else _pkcs12
    try:
        return read(data, store.password, with_key)
    except KeyStoreError as error:
        raise _problem(store, f"{error} ({store.option}.password)") from error


def _java(data: bytes, password: str | None, with_key: bool) -> _Content:
    if with_key and password is None:
        raise KeyStoreError("its private key has a password, which is not set")
    found = java_key_store.read(data, password, with_keys=with_key)
    if with_key and len(found.keys) > 1:
        raise KeyStoreError(
            f"it has {len(found.keys)} private keys, and nothing says which one to use: keep one"
        )
    chains = [tuple(map(_certificate, key.chain)) for key in found.keys]
    others = tuple(map(_certificate, found.certificates))
    if not with_key:
        return _Content(None, (), (*others, *(one for chain in chains for one in chain)))
    key = _key_pem(serialization.load_der_private_key(found.keys[0].der, None)) if found.keys else None
    return _Content(key, chains[0] if chains else (), others)


def _pkcs12(data: bytes, password: str | None, with_key: bool) -> _Content:
    try:
        found = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        raise KeyStoreError(
            "its password is another one, or it is no store of the type PKCS12 or JKS"
            if password is not None
            else "its password is not set, or it is no store of the type PKCS12 or JKS"
        ) from error
    own = () if found.cert is None else (found.cert.certificate,)
    others = tuple(one.certificate for one in found.additional_certs)
    if not with_key or found.key is None:
        return _Content(None, (), (*own, *others))
    return _Content(_key_pem(found.key), (*own, *others), ())


def _key_pem(key: object) -> str:
    assert hasattr(key, "private_bytes"), "a private key can be written down"
    text: bytes = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return text.decode()


def _certificate(der: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError as error:
        raise KeyStoreError(f"it has a certificate that cannot be read: {error}") from error


def _pem(certificates: Iterable[x509.Certificate]) -> str:
    return "".join(one.public_bytes(_PEM).decode() for one in certificates)


def _refuse_expired(store: Store, certificate: x509.Certificate) -> None:
    until = certificate.not_valid_after_utc
    if until < datetime.now(UTC):
        name = certificate.subject.rfc4514_string()
        raise _problem(store, f"its certificate ({name}) has expired on {until:%Y-%m-%d}: renew it")


def _problem(store: Store, why: str) -> ConfigurationError:
    return ConfigurationError(f"{store.option} = {store.path}: {why}")
