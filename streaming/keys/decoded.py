"""`_key` of ids that pymongo has already decoded: the same text as `streaming.keys.keys`, faster.

It runs once for each document and event, so the common ids have a path of their own, and a batch of one type
is done together. Everything else is encoded to BSON again and keyed from the bytes, so there is one
definition.

Decoding loses what a few odd ids need: a field that occurs twice in an embedded document, the legacy
subtype of a UUID, DBPointers, strings that are no UTF-8. Where the bytes are at hand use `streaming.keys.keys`;
decode embedded ids as `RawBSONDocument`, which is accepted here.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import bson
from bson.binary import Binary, UuidRepresentation
from bson.codec_options import CodecOptions
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId

from streaming.keys.keys import TAGS, UnkeyableId, key_of_document
from streaming.keys.numbers import number_of_decimal128, number_of_double
from streaming.keys.text import ORDERED, guarded, ordered_base64, ordered_length

__all__ = ["UnkeyableId", "key_of", "keys_of"]

_OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(uuid_representation=UuidRepresentation.STANDARD)

_POSITIVE = ("", *(TAGS[0x12] + chr(0x60 + digits) for digits in range(1, 20)))
_NEGATIVE = ("", *(TAGS[0x12] + chr(0x59 - digits) for digits in range(1, 20)))
_COMPLEMENT = str.maketrans("0123456789", "9876543210")
_OLD_BINARY = 2
_UUID_SUBTYPE = b"\x04"
_UUID_TAG = TAGS[0x05] + ordered_length(16)
_EPOCH_AWARE = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH = _EPOCH_AWARE.replace(tzinfo=None)  # pymongo's naive datetimes are UTC
_MILLISECOND = timedelta(milliseconds=1)
_DATE_SHIFT = 1 << 63


def key_of(value: Any) -> str:
    """The key of one decoded id; raises UnkeyableId (or what `bson.encode` raises) for what is no id."""
    path = _PATHS.get(type(value))
    return path(value) if path is not None else _of_any(value)


def keys_of(values: Sequence[Any]) -> list[str]:
    """The keys of many ids, in their order; fastest when all are of one type."""
    kinds = set(map(type, values))
    if len(kinds) == 1:
        kind = kinds.pop()
        together = _BATCHES.get(kind)
        if together is not None:
            return together(values)
        path = _PATHS.get(kind, _of_any)
        return [path(value) for value in values]
    return [key_of(value) for value in values]


def _of_any(value: Any) -> str:
    return key_of_document(bson.encode({"_id": value}, codec_options=_OPTIONS))


def _of_object_id(value: ObjectId) -> str:
    return "i" + b2a_base64(value.binary, newline=False).translate(ORDERED).decode("ascii")


def _of_object_ids(values: Sequence[ObjectId]) -> list[str]:
    # 12 bytes are 16 characters exactly, so one encoding serves all.
    joined = b2a_base64(b"".join([value.binary for value in values]), newline=False)
    text = joined.translate(ORDERED).decode("ascii")
    return ["i" + text[at : at + 16] for at in range(0, len(text), 16)]


def _of_text(value: str) -> str:
    if value.isascii():
        return "S" + value
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UnkeyableId(
            f"this id is no Unicode text (a lone surrogate), decode it as raw BSON: {value!r}"
        ) from error
    return "S" + guarded(value)


def _of_texts(values: Sequence[str]) -> list[str]:
    if "".join(values).isascii():
        return ["S" + value for value in values]
    return [_of_text(value) for value in values]


def _of_int(value: int) -> str:
    digits = str(value)
    if value > 0 and len(digits) < 20:
        return _POSITIVE[len(digits)] + digits
    if value < 0 and len(digits) < 21:
        return _NEGATIVE[len(digits) - 1] + digits[1:].translate(_COMPLEMENT) + "~"
    return _of_any(value)


def _of_float(value: float) -> str:
    return "N" + number_of_double(value)


def _of_decimal(value: Decimal128) -> str:
    return "N" + number_of_decimal128(value.bid)


def _of_uuid(value: UUID) -> str:
    return _UUID_TAG + ordered_base64(_UUID_SUBTYPE + value.bytes)


def _of_bytes(value: bytes) -> str:
    return "b" + ordered_length(len(value)) + ordered_base64(b"\0" + value)


def _of_binary(value: Binary) -> str:
    if value.subtype == _OLD_BINARY:
        return _of_any(value)
    return "b" + ordered_length(len(value)) + ordered_base64(bytes((value.subtype,)) + value)


def _of_datetime(value: datetime) -> str:
    since = value - (_EPOCH if value.tzinfo is None else _EPOCH_AWARE)
    return "m" + ordered_base64((since // _MILLISECOND + _DATE_SHIFT).to_bytes(8, "big"))


_PATHS: dict[type, Callable[[Any], str]] = {
    ObjectId: _of_object_id,
    str: _of_text,
    int: _of_int,
    Int64: _of_int,
    float: _of_float,
    Decimal128: _of_decimal,
    UUID: _of_uuid,
    bytes: _of_bytes,
    Binary: _of_binary,
    datetime: _of_datetime,
}

_BATCHES: dict[type, Callable[[Sequence[Any]], list[str]]] = {ObjectId: _of_object_ids, str: _of_texts}
