"""BSON as Extended JSON text, written from the raw bytes.

No decoder stands between, so nothing is merged or lost that it would: dates of any year, symbols, undefined, a name
that occurs twice (twice in the text, too), a decimal's exponent. What is no UTF-8 has U+FFFD in its place.

| form | |
|---|---|
| strict | version 1: `{"$date": 1}`, `{"$binary": "…", "$type": "00"}`, `{"$regex": …}`; int32 and doubles bare |
| canonical | version 2: every type told apart |
| relaxed | version 2: numbers bare, dates of the years 1970 to 9999 in ISO 8601 |

Under strict NaN and the infinities are bare, too (`NaN`), as the peer writes them: not every JSON reader takes that.
Items are separated by a comma (and a space, where that is asked for), a name is followed by a colon and a space: to the
letter what MongoDB's Java driver writes, but for how digits of a double are written.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
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
    MalformedBson,
    elements,
    length_at,
    value_end,
)


class Form(StrEnum):
    """Which Extended JSON."""

    STRICT = "strict"
    CANONICAL = "canonical"
    RELAXED = "relaxed"


_INT32 = Packed("<i")
_INT64 = Packed("<q")
_DOUBLE = Packed("<d")
_TIMESTAMP = Packed("<II")
_DECIMAL = Packed("<QQ")
_ONES, _PLACES, _HIGH_DIGITS = 6176, 6, (1 << 49) - 1
_OLD_BINARY = 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_10000 = 253_402_300_800_000
"""In milliseconds since 1970."""
_LABELS_MAX, _NAME_MAX = 10_000, 64
"""So many names are remembered at most, and none of more bytes: there are documents whose names are data."""

Render = Callable[[bytes, int], str]
"""The value at a byte of a buffer, as text."""


@cache
def writer(form: Form, comma: str = ",") -> Writer:
    """The one writer of this ``form``, with this ``comma`` between items."""
    return Writer(form, comma)


class _Labels(dict[bytes, str]):
    """Names of fields as they stand before their values. A collection has few of them, again and again."""

    def __missing__(self, name: bytes) -> str:
        label = f"{json_string(name.decode(errors='replace'))}: "
        if len(name) <= _NAME_MAX:
            if len(self) >= _LABELS_MAX:
                self.clear()
            self[name] = label
        return label


class Writer:
    """Writes values in one form. Safe to share: it remembers nothing but how names are written."""

    def __init__(self, form: Form, comma: str) -> None:
        self._comma = comma
        self._render = _renderers(self, form, comma)
        self._labels = _Labels()

    def document(self, raw: bytes, at: int = 0) -> str:
        """The document that starts at byte ``at``. Raises MalformedBson where the bytes are damaged."""
        render, labels = self._render, self._labels
        fields = [labels[name] + render[tag](raw, start) for tag, name, start, _ in elements(raw, at)]
        return "{" + self._comma.join(fields) + "}"

    def array(self, raw: bytes, at: int) -> str:
        """The array that starts at byte ``at``; the names of its elements do not count."""
        render = self._render
        return "[" + self._comma.join([render[t](raw, start) for t, _, start, _ in elements(raw, at)]) + "]"

    def value(self, tag: int, raw: bytes, at: int) -> str:
        """The value of BSON type ``tag`` at byte ``at`` of ``raw``."""
        return self._render[tag](raw, at)


def id_text(document: bytes, form: Form = Form.CANONICAL) -> str | None:
    """The ``_id`` of a raw document; None where it has none, or its bytes are damaged. A server takes ids that the
    driver does not read: old binary data whose second length is wrong, say."""
    try:
        for tag, name, start, _ in elements(document, 0):
            if name == b"_id":
                return writer(form, ", ").value(tag, document, start)
    except MalformedBson:
        return None
    return None


def _renderers(of: Writer, form: Form, comma: str) -> dict[int, Render]:
    common: dict[int, Render] = {
        STRING: _string,
        DOCUMENT: of.document,
        ARRAY: of.array,
        UNDEFINED: _constant('{"$undefined": true}'),
        OBJECT_ID: lambda raw, at: f'{{"$oid": "{raw[at : at + 12].hex()}"}}',
        BOOL: lambda raw, at: "true" if raw[at] else "false",
        NULL: _constant("null"),
        CODE: lambda raw, at: f'{{"$code": {_string(raw, at)}}}',
        SYMBOL: lambda raw, at: f'{{"$symbol": {_string(raw, at)}}}',
        SCOPED_CODE: lambda raw, at: _scoped_code(of, comma, raw, at),
        TIMESTAMP: lambda raw, at: _timestamp(comma, raw, at),
        DECIMAL: lambda raw, at: f'{{"$numberDecimal": "{_decimal(raw, at)}"}}',
        MIN_KEY: _constant('{"$minKey": 1}'),
        MAX_KEY: _constant('{"$maxKey": 1}'),
    }
    texts = _VERSION_1 if form is Form.STRICT else _VERSION_2
    of_version = {tag: _of_two(_PARTS[tag], text, comma) for tag, text in texts.items()}
    numbers = {
        Form.STRICT: _STRICT_NUMBERS,
        Form.CANONICAL: _CANONICAL_NUMBERS,
        Form.RELAXED: _RELAXED_NUMBERS,
    }
    return {**common, **of_version, **numbers[form]}


def _of_two(parts: Callable[[bytes, int], tuple[str, str]], text: str, comma: str) -> Render:
    """A value that has two parts, in a ``text`` with places for the first, the comma and the second."""

    def render(raw: bytes, at: int) -> str:
        first, second = parts(raw, at)
        return text % (first, comma, second)

    return render


def _decimal(raw: bytes, at: int) -> str:
    """The Decimal128 at byte ``at`` of ``raw``, as the driver writes it. An exponent from -6 to 0 is read here, and a
    coefficient of at most 64 bits (IEEE 754, BID): that is what prices have."""
    low, high = _DECIMAL.unpack_from(raw, at)
    places = _ONES - (high >> 49 & 0x3FFF)
    if not 0 <= places <= _PLACES or high & _HIGH_DIGITS:
        return str(Decimal128.from_bid(raw[at : at + 16]))
    digits = str(low).zfill(places + 1)
    sign = "-" if high >> 63 else ""
    return f"{sign}{digits[:-places]}.{digits[-places:]}" if places else f"{sign}{digits}"


def _constant(text: str) -> Render:
    return lambda _raw, _at: text


def _text(raw: bytes, at: int) -> bytes:
    return raw[at + 4 : at + 3 + _INT32.unpack_from(raw, at)[0]]


def _string(raw: bytes, at: int) -> str:
    return json_string(str(raw[at + 4 : at + 3 + _INT32.unpack_from(raw, at)[0]], "utf-8", "replace"))


def _binary(raw: bytes, at: int) -> tuple[str, str]:
    """In base64, and its subtype in hexadecimal. Old binary data has a second length within, where it is sound."""
    data, subtype = raw[at + 5 : at + 5 + length_at(raw, at)], raw[at + 4]
    if subtype == _OLD_BINARY and len(data) >= 4 and length_at(data, 0) == len(data) - 4:
        data = data[4:]
    return b64encode(data).decode("ascii"), f"{subtype:02x}"


def _regex(raw: bytes, at: int) -> tuple[str, str]:
    pattern, options, _ = raw[at : value_end(REGEX, raw, at)].split(b"\0")
    return json_string(pattern.decode(errors="replace")), json_string(options.decode(errors="replace"))


def _db_pointer(raw: bytes, at: int) -> tuple[str, str]:
    name = _text(raw, at)
    return json_string(name.decode(errors="replace")), raw[at + 5 + len(name) : at + 17 + len(name)].hex()


def _scoped_code(of: Writer, comma: str, raw: bytes, at: int) -> str:
    scope = at + 8 + length_at(raw, at + 4)
    return f'{{"$code": {_string(raw, at + 4)}{comma}"$scope": {of.document(raw, scope)}}}'


def _timestamp(comma: str, raw: bytes, at: int) -> str:
    increment, seconds = _TIMESTAMP.unpack_from(raw, at)
    return f'{{"$timestamp": {{"t": {seconds}{comma}"i": {increment}}}}}'


def _int32(raw: bytes, at: int) -> str:
    return str(_INT32.unpack_from(raw, at)[0])


def _int64(raw: bytes, at: int) -> str:
    return str(_INT64.unpack_from(raw, at)[0])


def _long_wrapped(raw: bytes, at: int) -> str:
    return f'{{"$numberLong": "{_int64(raw, at)}"}}'


def _double(raw: bytes, at: int) -> str:
    value = _DOUBLE.unpack_from(raw, at)[0]
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _double_relaxed(raw: bytes, at: int) -> str:
    text = _double(raw, at)
    return f'{{"$numberDouble": "{text}"}}' if text[-1] in "Ny" else text


def _date_relaxed(raw: bytes, at: int) -> str:
    millis = _INT64.unpack_from(raw, at)[0]
    if not 0 <= millis < _YEAR_10000:
        return f'{{"$date": {_long_wrapped(raw, at)}}}'
    instant = _EPOCH + timedelta(milliseconds=millis)
    text = instant.isoformat(timespec="milliseconds" if millis % 1_000 else "seconds")
    return f'{{"$date": "{text.removesuffix("+00:00")}Z"}}'


_PARTS = {BINARY: _binary, REGEX: _regex, DB_POINTER: _db_pointer}
_VERSION_1 = {
    BINARY: '{"$binary": "%s"%s"$type": "%s"}',
    REGEX: '{"$regex": %s%s"$options": %s}',
    DB_POINTER: '{"$ref": %s%s"$id": {"$oid": "%s"}}',
}
_VERSION_2 = {
    BINARY: '{"$binary": {"base64": "%s"%s"subType": "%s"}}',
    REGEX: '{"$regularExpression": {"pattern": %s%s"options": %s}}',
    DB_POINTER: '{"$dbPointer": {"$ref": %s%s"$id": {"$oid": "%s"}}}',
}
_STRICT_NUMBERS: dict[int, Render] = {
    INT32: _int32,
    INT64: _long_wrapped,
    DOUBLE: _double,
    DATE: lambda raw, at: f'{{"$date": {_int64(raw, at)}}}',
}
_CANONICAL_NUMBERS: dict[int, Render] = {
    INT32: lambda raw, at: f'{{"$numberInt": "{_int32(raw, at)}"}}',
    INT64: _long_wrapped,
    DOUBLE: lambda raw, at: f'{{"$numberDouble": "{_double(raw, at)}"}}',
    DATE: lambda raw, at: f'{{"$date": {_long_wrapped(raw, at)}}}',
}
_RELAXED_NUMBERS: dict[int, Render] = {
    INT32: _int32,
    INT64: _int64,
    DOUBLE: _double_relaxed,
    DATE: _date_relaxed,
}
