"""`_key`: the identity and the order of a document, as text.

Delta prunes and clusters by strings, and compares strings by their UTF-8 bytes. So every `_id` is written
as a string such that

- two strings are equal exactly when MongoDB takes the ids for equal (1, NumberLong(1) and 1.0 are one id;
  ObjectId("5f...") and the string of the same hex are two), and
- the order of the strings is BSON's order of the ids, across all types. (A collation of the collection
  orders ids otherwise; keys do not follow it.)

It is dense, because Delta keeps 32 characters for its statistics, and printable outside of strings:

    -  MinKey       N  number     [  array      m  date, 11 characters        v  DBPointer
    .  undefined    S  string     b  binary     t  timestamp, 11 characters   w  code
    0  null         V  object     i  ObjectId   u  regular expression         x  code with scope
                                  l  bool                                     z  MaxKey

    42 -> "Nb42"    "abc" -> "Sabc"    ObjectId -> "i" and 16 characters    UUID -> "b0F" and 23 characters

A tag comes first. At the top, a number or a string runs to the end; inside a composite "!" ends it. An
object is its fields, each by tag, name, value (the order in which the server compares them), then "!", so
the shorter comes first. The numbers are `streaming.keys.numbers`, strings and bytes `streaming.keys.text`.

Where `_id` alone does not identify a document (it is unique on each shard, not over all of them, unless it is
the shard key) the fields of the shard key follow:

    "|"  the tagged `_id`, with its end   " "  of each field that is there, by name: the name, the tagged value
    {_id: 5, region: "eu"}, sharded by region -> "|Nb5! region!Seu!"

The `_id` comes first, so that these keys are in the order of the ids as well, and the keys of one `_id` are
neighbours: they lie between `start_of_id` and `end_of_id`, with those of no other. Fields are named, because a
document may lack one, and sorted, so that a shard key is a set of names. `sharded_key` reads a documentKey as it
reads the document, and so gives an event the key of its READ. No character of a key but that one is a space.

Pure: standard library only.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable

from streaming.bson.raw_fields import Element, UnkeyableId, elements, string_bytes, value_size
from streaming.keys.numbers import number_of_decimal128, number_of_double, number_of_int
from streaming.keys.text import ended, ordered_base64, ordered_length, text_of

__all__ = [
    "DEPTH_MAX",
    "TAGS",
    "UnkeyableId",
    "end_of_id",
    "event_key",
    "id_of",
    "is_sharded",
    "key_of_document",
    "key_of_value",
    "sharded_key",
    "start_of",
    "start_of_id",
    "whole_id",
]

DEPTH_MAX = 200
"""Levels of nesting; MongoDB refuses documents of more than 180 or so."""

TAGS = {
    0xFF: "-",  # MinKey
    0x06: ".",  # undefined
    0x0A: "0",  # null
    0x01: "N",  # double
    0x10: "N",  # int32
    0x12: "N",  # int64
    0x13: "N",  # decimal128
    0x02: "S",  # string
    0x0E: "S",  # symbol: equal to the string
    0x03: "V",  # object
    0x04: "[",  # array
    0x05: "b",  # binary
    0x07: "i",  # ObjectId
    0x08: "l",  # bool
    0x09: "m",  # date
    0x11: "t",  # timestamp
    0x0B: "u",  # regular expression
    0x0C: "v",  # DBPointer
    0x0D: "w",  # code
    0x0F: "x",  # code with scope
    0x7F: "z",  # MaxKey
}
"""BSON type -> the first character of its keys, ascending in the order of comparison."""

SHARDED = "|"
ID_END = " "
ID_ALL = "~"

_ID = b"_id"
_END = "!"
_DOUBLE = struct.Struct("<d")
_INT32 = struct.Struct("<i")
_DATE_SHIFT = 1 << 63


def key_of_document(document: bytes) -> str:
    """The key of a raw BSON document that holds an id.

    `document` is ``{"_id": value}``, or a documentKey of several fields (see `event_key`). Raises UnkeyableId
    for anything else.
    """
    if document[5:9] == b"_id\0" and _INT32.unpack_from(document)[0] == len(document) and not document[-1]:
        kind = document[4]
        if 9 + value_size(kind, document, 9) == len(document) - 1:
            return TAGS[kind] + _body(kind, document[9:-1], 0)
    return event_key(document)


def event_key(document_key: bytes) -> str:
    """The key of an event in a collection that is sharded by more than `_id`: a documentKey names the fields that the
    document has. Raises UnkeyableId."""
    return sharded_key(document_key, [name for _, name, _ in elements(document_key) if name != _ID])


def sharded_key(document: bytes, shard_key: Iterable[bytes]) -> str:
    """The key of a document, or of its documentKey, in a collection whose shard key has these fields besides `_id`
    (paths with dots; in any order). Raises UnkeyableId where the document has no `_id`."""
    parts = [start_of_id(document), ID_END]
    for path in sorted(shard_key):
        found = _at(document, path)
        if found is not None:
            parts.append(ended(text_of(path)) + _tagged(found.kind, found.payload, 1))
    return "".join(parts)


def start_of_id(document: bytes) -> str:
    """Just below all keys of this document's `_id`, and above those of smaller ids, in a sharded collection."""
    found = id_of(document)
    return SHARDED + _tagged(found.kind, found.payload, 1)


def end_of_id(document: bytes) -> str:
    """Just above all keys of this document's `_id`, and below those of larger ids, in a sharded collection."""
    return start_of_id(document) + ID_ALL


def is_sharded(key: str) -> bool:
    """Whether a key, or the end of an id, is of a collection that is sharded by more than `_id`."""
    return key.startswith(SHARDED)


def whole_id(key: str) -> str:
    """The `end_of_id` of the id that such a key belongs to."""
    return key.partition(ID_END)[0] + ID_ALL


def start_of(key: str) -> str:
    """Where the keys begin that a bound means: the `start_of_id` of an `end_of_id`, else the key itself."""
    return key.removesuffix(ID_ALL) if is_sharded(key) else key


def id_of(document: bytes) -> Element:
    """The `_id` of a document or a documentKey. Raises UnkeyableId where there is none."""
    found = _at(document, _ID)
    if found is None:
        raise UnkeyableId.of("there is no _id, and nothing else identifies a document", document)
    return found


def _at(document: bytes, path: bytes) -> Element | None:
    """The field at a path, as the server looks for a shard key's: by the whole name first (as a documentKey has it),
    then by its first part."""
    fields = list(elements(document))
    found = next((field for field in fields if field.name == path), None)
    head, dot, rest = path.partition(b".")
    if found is not None or not dot:
        return found
    inner = next((field for field in fields if field.name == head), None)
    return _at(inner.payload, rest) if inner is not None and inner.kind in (0x03, 0x04) else None


def key_of_value(bson_type: int, payload: bytes) -> str:
    """The key of one id, given as its BSON type (0x01...0x13, 0x7F, 0xFF) and the value's bytes alone."""
    size = value_size(bson_type, payload, 0)
    if size != len(payload):
        raise UnkeyableId.of(f"a value of type 0x{bson_type:02x} takes {size} bytes", payload)
    return TAGS[bson_type] + _body(bson_type, payload, 0)


def _tagged(kind: int, payload: bytes, depth: int) -> str:
    return TAGS[kind] + _body(kind, payload, depth)


def _body(kind: int, payload: bytes, depth: int) -> str:
    """What follows the tag; at depth 0 it need not show where it ends."""
    closed = _CLOSED.get(kind)
    if closed is not None:
        return closed(payload)
    number = _NUMBERS.get(kind)
    if number is not None:
        return number(payload) + _END if depth else number(payload)
    if kind in _TEXTS:
        text = text_of(string_bytes(payload))
        return ended(text) if depth else text
    if depth >= DEPTH_MAX:
        raise UnkeyableId.of(f"nested more than {DEPTH_MAX} levels deep", payload)
    if kind == 0x03:
        return _fields(payload, depth + 1)
    if kind == 0x04:
        # Names of array elements do not count: the server's index leaves them out.
        return "".join([_tagged(item, value, depth + 1) for item, _, value in elements(payload)]) + _END
    code = string_bytes(payload, 4)
    return ended(text_of(code)) + _fields(payload[9 + len(code) :], depth + 1)


def _fields(document: bytes, depth: int) -> str:
    fields = [
        TAGS[kind] + ended(text_of(name)) + _body(kind, value, depth)
        for kind, name, value in elements(document)
    ]
    return "".join(fields) + _END


def _binary(payload: bytes) -> str:
    return ordered_length(len(payload) - 5) + ordered_base64(payload[4:])


def _date(payload: bytes) -> str:
    shifted = int.from_bytes(payload, "little", signed=True) + _DATE_SHIFT
    return ordered_base64(shifted.to_bytes(8, "big"))


def _regex(payload: bytes) -> str:
    pattern, flags, _ = payload.split(b"\0")
    return ended(text_of(pattern)) + ended(text_of(flags))


def _db_pointer(payload: bytes) -> str:
    namespace = string_bytes(payload)
    return ordered_length(len(namespace)) + ordered_base64(namespace + payload[-12:])


_CLOSED: dict[int, Callable[[bytes], str]] = {
    0xFF: lambda _: "",
    0x06: lambda _: "",
    0x0A: lambda _: "",
    0x7F: lambda _: "",
    0x05: _binary,
    0x07: ordered_base64,
    0x08: lambda payload: "1" if payload[0] else "0",
    0x09: _date,
    0x11: lambda payload: ordered_base64(payload[::-1]),
    0x0B: _regex,
    0x0C: _db_pointer,
}
"""Bodies that show by themselves where they end."""

_NUMBERS: dict[int, Callable[[bytes], str]] = {
    0x01: lambda payload: number_of_double(_DOUBLE.unpack(payload)[0]),
    0x10: lambda payload: number_of_int(int.from_bytes(payload, "little", signed=True)),
    0x12: lambda payload: number_of_int(int.from_bytes(payload, "little", signed=True)),
    0x13: number_of_decimal128,
}

_TEXTS = frozenset((0x02, 0x0D, 0x0E))
