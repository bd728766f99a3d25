"""Strings and bytes inside keys, so that the order of the key text (as UTF-8 bytes) is the order of what it
stands for.

Strings stand for themselves: MongoDB compares them by their UTF-8 bytes, and so do Spark and Delta. Two
things need care.

- *Invalid UTF-8.* The server does not check what it stores, but a key is a `str`. A byte sequence R that
  begins no character sorts right after all strings that begin with some character p, the last whose UTF-8
  is below R. So R is written as p, U+10FFFF, "~", and R in hexadecimal; U+10FFFF itself, a noncharacter, is
  written with a "!" behind it to keep the two apart. No id is lost, and order and identity hold for any
  bytes.
- *An end inside composites.* There a string must end before what follows it, and the shorter must come
  first. "!" ends it, and the characters up to "#" are written as "#" and a printable one ("#@" is NUL, "#`"
  is a space).

Bytes are base64 over an alphabet in ASCII order, without padding: for equal lengths its order is the bytes'
order.

Pure: standard library only.
"""

from __future__ import annotations

from binascii import b2a_base64
from bisect import bisect_left
from functools import lru_cache

_LAST = "\U0010ffff"
_ALPHABET = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
ORDERED = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", _ALPHABET)
"""The table from standard base64 to the ordered alphabet (64 printable characters, ascending in ASCII)."""

_LOW = {low: "#" + chr(0x40 + low) for low in range(0x24)}
_SURROGATES = range(0xD800, 0xE000)


def ordered_base64(data: bytes) -> str:
    """12 bytes -> 16 characters; the order among inputs of one length is kept."""
    return b2a_base64(data, newline=False).translate(ORDERED, b"=").decode("ascii")


@lru_cache(maxsize=256)
def ordered_length(length: int) -> str:
    """A length, shorter first: the count of its base-64 digits, and the digits: 16 -> ``"0F"``."""
    digits = bytearray()
    while length:
        digits.append(_ALPHABET[length & 63])
        length >>= 6
    return chr(_ALPHABET[len(digits)]) + digits[::-1].decode("ascii")


def text_of(data: bytes) -> str:
    """Any bytes of a BSON string as key text: valid UTF-8 without U+10FFFF is the text itself."""
    try:
        text = data.decode()
    except UnicodeDecodeError as damage:
        valid, rest = data[: damage.start].decode(), data[damage.start :]
        return guarded(valid + _predecessor(rest)) + f"{_LAST}~{rest.hex().upper()}"
    return guarded(text)


def guarded(text: str) -> str:
    """Valid text as key text: U+10FFFF gets its mark, everything else stands for itself."""
    return text.replace(_LAST, _LAST + "!") if _LAST in text else text


def ended(text: str) -> str:
    """Key text that ends by itself, for use inside composites."""
    return text.translate(_LOW) + "!"


def _predecessor(rest: bytes) -> str:
    """The last character below `rest`, which begins no character itself, hence with a byte above 0x7F."""
    after = bisect_left(range(0x110000), rest, key=lambda point: chr(point).encode(errors="surrogatepass"))
    return chr(after - 1 if after - 1 not in _SURROGATES else _SURROGATES.start - 1)
