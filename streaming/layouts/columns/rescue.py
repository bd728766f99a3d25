"""``_rescued_data``: what fits no column, as one JSON object from JSON Pointer (RFC 6901) to the value.

Values are canonical Extended JSON, rendered from the raw bytes, so that no decoder stands between:
undefined, symbols, DBPointers, dates of any year, decimals with their exponent all keep their type.
Extended JSON cannot say everything. Where it cannot, the value is written as ``{"$bson": base64}``, a BSON
document whose one field, with the empty name, is the value. That is so for

- a document with a field name like ``$oid`` or ``$date``, which would read as a wrapped value,
- a document in which a name occurs twice, or is no UTF-8,
- a code, symbol, regular expression or DBPointer that is no UTF-8, and damaged legacy binary data.

A string that is no UTF-8 is ``{"$invalidUtf8": base64}`` of its bytes. The pointer "" is the whole
document: no pointer could name its fields by its own names. A NaN's payload is lost, as everywhere in Extended
JSON.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring as json_string
from struct import Struct as Packed

from bson.decimal128 import Decimal128

from streaming.bson.elements import (
    ARRAY,
    BINARY,
    BOOL,
    CODE,
    DATE,
    DB_POINTER,
    DECIMAL,
    DOCUMENT,
    DOUBLE,
    INT32,
    INT64,
    MAX_KEY,
    MIN_KEY,
    NULL,
    OBJECT_ID,
    REGEX,
    SCOPED_CODE,
    STRING,
    SYMBOL,
    TIMESTAMP,
    UNDEFINED,
    elements,
    length_at,
    value_end,
)

WRAPPERS = frozenset(
    b"$oid $symbol $numberInt $numberLong $numberDouble $numberDecimal $binary $code $scope $timestamp "
    b"$regularExpression $dbPointer $date $minKey $maxKey $undefined $uuid $bson $invalidUtf8".split()
)
"""Field names that would make a document read as a wrapped value."""

_INT32 = Packed("<i")
_INT64 = Packed("<q")
_DOUBLE = Packed("<d")
_TIMESTAMP = Packed("<II")
_OLD_BINARY = 2


class _Unrenderable(Exception):
    """Extended JSON cannot say this value."""


def pointer(parts: Iterable[str]) -> str:
    """``("items", "0", "a/b")`` -> ``"/items/0/a~1b"``."""
    return "".join(["/" + part.replace("~", "~0").replace("/", "~1") for part in parts])


def entry(path: str, rendered: str) -> str:
    """One entry of the object: a JSON Pointer, and the value as ``render`` gave it."""
    return f"{json_string(path)}:{rendered}"


def rescued_data(entries: Iterable[str]) -> str:
    """The JSON object of these entries, ordered by path, so that equal documents have equal text."""
    return "{" + ",".join(sorted(entries)) + "}"


def render(tag: int, raw: bytes, at: int) -> str:
    """The value of BSON type ``tag`` at byte ``at`` of ``raw``, as JSON text. Never fails on what MongoDB can store."""
    if tag == NULL:
        return "null"
    try:
        return _RENDERERS[tag](raw, at)
    except (_Unrenderable, UnicodeDecodeError):
        return _escaped(tag, raw, at)


def _escaped(tag: int, raw: bytes, at: int) -> str:
    value = raw[at : value_end(tag, raw, at)]
    document = _INT32.pack(len(value) + 7) + bytes((tag, 0)) + value + b"\0"
    return f'{{"$bson":"{_base64(document)}"}}'


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _text(raw: bytes, at: int) -> bytes:
    return raw[at + 4 : at + 3 + length_at(raw, at)]


def _string(raw: bytes, at: int) -> str:
    data = _text(raw, at)
    try:
        return json_string(data.decode())
    except UnicodeDecodeError:
        return f'{{"$invalidUtf8":"{_base64(data)}"}}'


def _document(raw: bytes, at: int) -> str:
    fields: dict[bytes, str] = {}
    for tag, name, start, _ in elements(raw, at):
        if name in fields or name in WRAPPERS:
            raise _Unrenderable
        fields[name] = f"{json_string(name.decode())}:{render(tag, raw, start)}"
    return "{" + ",".join(fields.values()) + "}"


def _array(raw: bytes, at: int) -> str:
    return "[" + ",".join([render(tag, raw, start) for tag, _, start, _ in elements(raw, at)]) + "]"


def _binary(raw: bytes, at: int) -> str:
    data, subtype = raw[at + 5 : at + 5 + length_at(raw, at)], raw[at + 4]
    if subtype == _OLD_BINARY:
        if len(data) < 4 or length_at(data, 0) != len(data) - 4:
            raise _Unrenderable
        data = data[4:]
    return f'{{"$binary":{{"base64":"{_base64(data)}","subType":"{subtype:02x}"}}}}'


def _double(raw: bytes, at: int) -> str:
    value = _DOUBLE.unpack_from(raw, at)[0]
    text = repr(value)
    if not math.isfinite(value):
        text = {"inf": "Infinity", "-inf": "-Infinity"}.get(text, "NaN")
    return f'{{"$numberDouble":"{text}"}}'


def _regex(raw: bytes, at: int) -> str:
    pattern, options, _ = raw[at : value_end(REGEX, raw, at)].split(b"\0")
    inner = f'"pattern":{json_string(pattern.decode())},"options":{json_string(options.decode())}'
    return f'{{"$regularExpression":{{{inner}}}}}'


def _db_pointer(raw: bytes, at: int) -> str:
    name = _text(raw, at)
    identity = raw[at + 5 + len(name) : at + 17 + len(name)].hex()
    return f'{{"$dbPointer":{{"$ref":{json_string(name.decode())},"$id":{{"$oid":"{identity}"}}}}}}'


def _scoped_code(raw: bytes, at: int) -> str:
    code = _text(raw, at + 4)
    scope = at + 9 + len(code)
    return f'{{"$code":{json_string(code.decode())},"$scope":{_document(raw, scope)}}}'


def _timestamp(raw: bytes, at: int) -> str:
    increment, seconds = _TIMESTAMP.unpack_from(raw, at)
    return f'{{"$timestamp":{{"t":{seconds},"i":{increment}}}}}'


def _constant(text: str) -> Callable[[bytes, int], str]:
    return lambda _raw, _at: text


_RENDERERS: dict[int, Callable[[bytes, int], str]] = {
    DOUBLE: _double,
    STRING: _string,
    DOCUMENT: _document,
    ARRAY: _array,
    BINARY: _binary,
    UNDEFINED: _constant('{"$undefined":true}'),
    OBJECT_ID: lambda raw, at: f'{{"$oid":"{raw[at : at + 12].hex()}"}}',
    BOOL: lambda raw, at: "true" if raw[at] else "false",
    DATE: lambda raw, at: f'{{"$date":{{"$numberLong":"{_INT64.unpack_from(raw, at)[0]}"}}}}',
    REGEX: _regex,
    DB_POINTER: _db_pointer,
    CODE: lambda raw, at: f'{{"$code":{json_string(_text(raw, at).decode())}}}',
    SYMBOL: lambda raw, at: f'{{"$symbol":{json_string(_text(raw, at).decode())}}}',
    SCOPED_CODE: _scoped_code,
    INT32: lambda raw, at: f'{{"$numberInt":"{_INT32.unpack_from(raw, at)[0]}"}}',
    TIMESTAMP: _timestamp,
    INT64: lambda raw, at: f'{{"$numberLong":"{_INT64.unpack_from(raw, at)[0]}"}}',
    DECIMAL: lambda raw, at: f'{{"$numberDecimal":"{Decimal128.from_bid(raw[at : at + 16])}"}}',
    MIN_KEY: _constant('{"$minKey":1}'),
    MAX_KEY: _constant('{"$maxKey":1}'),
}
