"""Two canonical documents side by side: the paths at which they differ, for people to read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, Inexact
from struct import Struct as Packed
from typing import Any

_INT32 = Packed("<i").unpack_from
_INT64 = Packed("<q").unpack_from
_TIMESTAMP = Packed("<II").unpack_from
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN_MAX = 120
_DIGITS = 40

_CONSTANTS = {b"0": "null", b"t": "true", b"f": "false", b"u": "undefined", b"<": "MinKey", b">": "MaxKey"}


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A path (JSON Pointer) and what either side has there, as text; None where the field is missing."""

    path: str
    source: str | None
    table: str | None

    def __str__(self) -> str:
        return f"{self.path or '/'}: collection {self.source or 'missing'}, table {self.table or 'missing'}"


def differences(source: bytes, table: bytes) -> list[FieldDifference]:
    """Where two canonical documents differ, in the order of the paths; [] when they are equal."""
    left, right = dict(_leaves(_parsed(source), "")), dict(_leaves(_parsed(table), ""))
    paths = sorted(path for path in left.keys() | right.keys() if left.get(path) != right.get(path))
    return [FieldDifference(path, _shown(left.get(path)), _shown(right.get(path))) for path in paths]


def _shown(text: str | None) -> str | None:
    if text is None or len(text) <= _SHOWN_MAX:
        return text
    return f"{text[:_SHOWN_MAX]}… ({len(text)} characters)"


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
        return
    yield path, "{…}" if isinstance(value, dict) else "[…]"
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _leaves(item, f"{path}/{str(name).replace('~', '~0').replace('/', '~1')}")


def _parsed(canonical: bytes) -> Any:
    value, end = _value(canonical, 0)
    if end != len(canonical):
        raise ValueError(f"{len(canonical) - end} bytes are left behind a canonical value")
    return value


def _value(data: bytes, at: int) -> tuple[Any, int]:
    """Documents as dicts, arrays as lists, everything else as text."""
    letter, at = data[at : at + 1], at + 1
    if letter in _CONSTANTS:
        return _CONSTANTS[letter], at
    if letter == b"{":
        return _fields(data, at)
    if letter == b"[":
        items = []
        while data[at : at + 1] != b"]":
            item, at = _value(data, at)
            items.append(item)
        return items, at + 1
    if letter in (b"n", b"D"):
        end = data.index(b";", at)
        return (_number(data[at:end].decode()) if letter == b"n" else f"{data[at:end].decode()} µs"), end + 1
    return _sized(letter, data, at)


def _fields(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    fields: dict[str, Any] = {}
    while data[at : at + 1] == b",":
        end = data.index(0, at)
        name = data[at + 1 : end].decode("utf-8", "backslashreplace")
        while name in fields:
            name += " (again)"
        fields[name], at = _value(data, end + 1)
    return fields, at + 1


def _number(text: str) -> str:
    if text.lstrip("-") in ("NaN", "inf", "0"):
        return text
    above, _, below = text.partition("/")
    number, divisor = int(above, 16), int(below or "1", 16)
    if divisor == 1:
        return hex(number) if abs(number) >= 10**_DIGITS else str(number)
    context = Context(prec=_DIGITS, Emin=-9999, Emax=9999)
    shown = context.divide(Decimal(number), Decimal(divisor))
    return f"{shown}{'…' if context.flags[Inexact] else ''}"


def _string(data: bytes, at: int) -> tuple[str, int]:
    end = at + 3 + _INT32(data, at)[0]
    return json.dumps(data[at + 4 : end].decode("utf-8", "backslashreplace"), ensure_ascii=False), end


def _sized(letter: bytes, data: bytes, at: int) -> tuple[str, int]:
    match letter:
        case b"s":
            return _string(data, at)
        case b"o":
            return f"ObjectId({data[at : at + 12].hex()})", at + 12
        case b"d":
            return _date(_INT64(data, at)[0]), at + 8
        case b"T":
            increment, seconds = _TIMESTAMP(data, at)
            return f"Timestamp({seconds}, {increment})", at + 8
        case b"b":
            end = at + 5 + _INT32(data, at + 1)[0]
            return f"binary({data[at]}, {data[at + 5 : end].hex()})", end
        case b"c" | b"y" | b"O":
            text, end = _string(data, at)
            return f"{ {b'c': 'code', b'y': 'symbol', b'O': 'no ObjectId'}[letter] } {text}", end
        case b"r":
            pattern, middle = _string(data, at)
            options, end = _string(data, middle)
            return f"regex {pattern} {options}", end
        case b"p":
            text, end = _string(data, at)
            return f"DBPointer({text}, {data[end : end + 12].hex()})", end + 12
        case b"w":
            text, middle = _string(data, at)
            scope, end = _value(data, middle)
            return f"code {text} with scope {scope}", end
    raise ValueError(f"no canonical value starts with {letter!r}")


def _date(millis: int) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=millis)).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"date({millis} ms)"
