"""Java's own key stores (JKS), as far as TLS needs them: certificates, and private keys with their chains.

The form has been the same since 1998, and Java writes it no more unless asked to, so it is read here rather than by a
package: the packages for it bring ciphers of others along that nobody keeps. Numbers are big-endian.

    FEEDFEED | version | count | entries | SHA-1 of (password, a salt, all before)
    an entry: 1 | alias | time | protected key | count | certificates       or: 2 | alias | time | certificate

A private key is XORed with a stream of SHA-1 sums of the password and a salt: that protects little, which is why such a
file is to be readable by its user alone.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field

MAGIC = b"\xfe\xed\xfe\xed"
_SALT = b"Mighty Aphrodite"
_SUM = 20
_PRIVATE_KEY, _CERTIFICATE = 1, 2
_SEQUENCE, _OCTETS = 0x30, 0x04


class KeyStoreError(ValueError):
    """The file is no key store, is damaged, or its password is another one."""


@dataclass(frozen=True, slots=True)
class Key:
    """A private key (PKCS#8, DER) and the certificates for it, its own one first."""

    der: bytes = field(repr=False)
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class JavaKeyStore:
    """Certificates are DER."""

    keys: tuple[Key, ...]
    certificates: tuple[bytes, ...]


def read(content: bytes, password: str | None, *, with_keys: bool) -> JavaKeyStore:
    """What the ``content`` of a store's file holds; of private keys only the chains unless ``with_keys``, which needs
    the ``password``. Without one (as with Java) nobody checks whether the file is as it was written. Raises
    KeyStoreError."""
    secret = None if password is None else password.encode("utf-16-be")
    if secret is not None:
        expected = hashlib.sha1(secret + _SALT + content[:-_SUM], usedforsecurity=False).digest()
        if not hmac.compare_digest(expected, content[-_SUM:]):
            raise KeyStoreError("its password is another one, or the file is damaged")
    try:
        return _entries(_Bytes(content), secret if with_keys else None)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise KeyStoreError("the file is damaged") from error


class _Bytes:
    """Bytes that are read one after the other."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._content, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def take(self, count: int) -> bytes:
        if count > len(self._content) - self._at:
            raise KeyStoreError("the file is damaged: it ends too early")
        self._at += count
        return self._content[self._at - count : self._at]


def _entries(data: _Bytes, secret: bytes | None) -> JavaKeyStore:
    if data.take(4) != MAGIC:
        raise KeyStoreError("it is no store of the type JKS")
    version = data.number(">I")
    keys, certificates = [], []
    for _ in range(data.number(">I")):
        kind = data.number(">I")
        data.take(data.number(">H"))  # the alias
        data.take(8)  # the time
        if kind == _PRIVATE_KEY:
            protected = data.take(data.number(">I"))
            chain = tuple(_certificate(data, version) for _ in range(data.number(">I")))
            keys.append(Key(b"" if secret is None else _unprotected(protected, secret), chain))
        elif kind == _CERTIFICATE:
            certificates.append(_certificate(data, version))
        else:
            raise KeyStoreError(f"it has an entry of an unknown kind ({kind})")
    return JavaKeyStore(tuple(keys), tuple(certificates))


def _certificate(data: _Bytes, version: int) -> bytes:
    if version > 1:
        data.take(data.number(">H"))  # the kind, which is X.509 always
    return data.take(data.number(">I"))


def _unprotected(protected: bytes, secret: bytes) -> bytes:
    """The key in an EncryptedPrivateKeyInfo of Sun's own algorithm: salt, the key XORed, a sum to check it."""
    whole, _ = _der(protected, 0, _SEQUENCE)
    _, behind = _der(whole, 0, _SEQUENCE)  # the algorithm: a store of this type knows no other
    content, _ = _der(whole, behind, _OCTETS)
    salt, hidden, expected = content[:_SUM], content[_SUM:-_SUM], content[-_SUM:]
    stream, block = b"", salt
    while len(stream) < len(hidden):
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        stream += block
    plain = bytes(a ^ b for a, b in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain, usedforsecurity=False).digest(), expected):
        raise KeyStoreError("the password of its private key is not that of the store")
    return plain


def _der(data: bytes, at: int, tag: int) -> tuple[bytes, int]:
    """The content of the DER value at a place, which has to be of that ``tag``, and the place behind it."""
    if data[at] != tag:
        raise KeyStoreError("its private key is in a form that is not known")
    length, start = data[at + 1], at + 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[at + 2 : start])
    return data[start : start + length], start + length
