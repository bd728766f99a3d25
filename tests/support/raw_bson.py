"""BSON values written by hand: every type an id can have, also those that no driver writes any more."""

from __future__ import annotations

import struct

from bson.raw_bson import RawBSONDocument

Value = tuple[int, bytes]
"""BSON type and the bytes of the value."""

MIN_KEY, NULL, MAX_KEY = (0xFF, b""), (0x0A, b""), (0x7F, b"")
UNDEFINED = (0x06, b"")


def document_bytes(*fields: tuple[str, Value]) -> bytes:
    body = b"".join(bytes((kind,)) + name.encode() + b"\0" + payload for name, (kind, payload) in fields)
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def id_document(value: Value) -> bytes:
    """``{"_id": value}``, the form in which bounds carry ids."""
    return document_bytes(("_id", value))


def raw(*fields: tuple[str, Value]) -> RawBSONDocument:
    return RawBSONDocument(document_bytes(*fields))


def int32(value: int) -> Value:
    return 0x10, struct.pack("<i", value)


def int64(value: int) -> Value:
    return 0x12, struct.pack("<q", value)


def double(value: float) -> Value:
    return 0x01, struct.pack("<d", value)


def string(value: str | bytes) -> Value:
    return 0x02, counted(value)


def symbol(value: str | bytes) -> Value:
    return 0x0E, counted(value)


def code(value: str | bytes) -> Value:
    return 0x0D, counted(value)


def code_with_scope(value: str | bytes, *scope: tuple[str, Value]) -> Value:
    content = counted(value) + document_bytes(*scope)
    return 0x0F, struct.pack("<i", len(content) + 4) + content


def counted(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<i", len(data) + 1) + data + b"\0"


def embedded(*fields: tuple[str, Value]) -> Value:
    return 0x03, document_bytes(*fields)


def array(*items: Value) -> Value:
    return 0x04, document_bytes(*((str(place), item) for place, item in enumerate(items)))


def binary(data: bytes, subtype: int = 0) -> Value:
    return 0x05, struct.pack("<iB", len(data), subtype) + data


def object_id(data: bytes) -> Value:
    return 0x07, data


def boolean(value: bool) -> Value:
    return 0x08, bytes((value,))


def date(milliseconds: int) -> Value:
    return 0x09, struct.pack("<q", milliseconds)


def timestamp(seconds: int, increment: int) -> Value:
    return 0x11, struct.pack("<II", increment, seconds)


def regex(pattern: str, flags: str = "") -> Value:
    return 0x0B, pattern.encode() + b"\0" + flags.encode() + b"\0"


def db_pointer(namespace: str, oid: bytes) -> Value:
    return 0x0C, counted(namespace) + oid


def decimal128(coefficient: int, exponent: int = 0) -> Value:
    """``coefficient * 10**exponent``, in that very representation (cohorts of equal values stay apart)."""
    bits = (exponent + 6176) << 113 | abs(coefficient) | (1 << 127 if coefficient < 0 else 0)
    return 0x13, bits.to_bytes(16, "little")


def decimal128_special(top: int, rest: int = 0) -> Value:
    """From its first byte: 0x7C NaN, 0x78 Infinity, 0xF8 -Infinity, 0x80 with rest 0 is a negative zero."""
    return 0x13, (top << 120 | rest).to_bytes(16, "little")
