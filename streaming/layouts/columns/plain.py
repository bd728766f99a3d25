"""One document at a time, in plain Python: the meaning of decoding, which the fast path is held against.

It also does the documents that the fast path leaves out. `convert` says for a single value whether a column
takes it; both paths ask it about everything unusual, and a property test holds the usual against it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import partial
from struct import Struct as Packed
from typing import Any

from bson.decimal128 import Decimal128

from streaming.bson.elements import (
    ARRAY,
    BINARY,
    BOOL,
    DATE,
    DECIMAL,
    DOCUMENT,
    DOUBLE,
    INT32,
    INT64,
    NULL,
    OBJECT_ID,
    STRING,
    Element,
    elements,
    length_at,
)
from streaming.layouts.columns.decimals import DECIMALS, PRECISION
from streaming.layouts.columns.plan import Array, Column, ColumnType, Scalar, Struct, TablePlan
from streaming.layouts.columns.rescue import entry, pointer, render

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
DATE_MIN = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MILLISECOND
DATE_MAX = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MILLISECOND
"""The dates that a column takes, in milliseconds since the epoch."""

_LONG_MIN, _LONG_END = -(1 << 63), 1 << 63
_UNSCALED_MAX = 10**PRECISION
_EXACT = Context(prec=200, Emin=-9999, Emax=9999, traps=[InvalidOperation, Inexact])
_NUMBERS: dict[int, Callable[[bytes, int], Any]] = {
    DOUBLE: lambda raw, at: Packed("<d").unpack_from(raw, at)[0],
    INT32: lambda raw, at: Packed("<i").unpack_from(raw, at)[0],
    INT64: lambda raw, at: Packed("<q").unpack_from(raw, at)[0],
    DECIMAL: lambda raw, at: Decimal128.from_bid(raw[at : at + 16]).to_decimal(),
}

MISFIT = object()
"""What `convert` answers when the column does not take the value."""


@dataclass(slots=True)
class PlainRow:
    """A decoded document: a value for each column (None is null), and its entries of ``_rescued_data``."""

    values: list[Any]
    entries: list[str] = field(default_factory=list)


def convert(kind: str, tag: int, raw: bytes, at: int) -> Any:
    """The value of BSON type ``tag`` at byte ``at`` of ``raw``, as a scalar column of this kind takes it, or
    ``MISFIT``.

    long: int; double: float; decimal: the unscaled int (times 10**scale); string, objectId: str; bool; binary:
    bytes; date: int, microseconds since the epoch.
    """
    number = _NUMBERS.get(tag)
    if number is not None:
        into = _INTO.get(kind)
        return MISFIT if into is None else into(number(raw, at))
    if (kind, tag) == ("string", STRING):
        try:
            return raw[at + 4 : at + 3 + length_at(raw, at)].decode()
        except UnicodeDecodeError:
            return MISFIT
    if (kind, tag) == ("date", DATE):
        millis = Packed("<q").unpack_from(raw, at)[0]
        return millis * 1000 if DATE_MIN <= millis <= DATE_MAX else MISFIT
    if (kind, tag) == ("objectId", OBJECT_ID):
        return raw[at : at + 12].hex()
    if (kind, tag) == ("bool", BOOL):
        return raw[at] != 0
    if (kind, tag) == ("binary", BINARY) and raw[at + 4] == 0:
        return raw[at + 5 : at + 5 + length_at(raw, at)]
    return MISFIT


def decode_plain(plan: TablePlan, raw: bytes, at: int) -> PlainRow:
    """The document that starts at byte ``at`` of ``raw``, column by column of ``plan``.

    Where a name at its top level occurs twice or is no UTF-8, all columns are null, and one entry holds all of it.
    """
    row = PlainRow([None] * len(plan.columns))
    values = _fields(plan.columns, raw, at, (), row.entries)
    if values is None:
        row.entries.append(entry("", render(DOCUMENT, raw, at)))
    else:
        row.values = list(values.values())
    return row


def _fields(
    columns: Sequence[Column], raw: bytes, at: int, path: tuple[str, ...], entries: list[str]
) -> dict[str, Any] | None:
    """The document's values by column; None when its field names cannot be told apart, or are no UTF-8."""
    found = _by_name(raw, at)
    if found is None:
        return None
    values: dict[str, Any] = {}
    for column in columns:
        item = found.pop(column.name, None)
        values[column.name] = (
            None if item is None else _value(column.type, raw, item, (*path, column.name), entries)
        )
    for name, (tag, _, start, _) in found.items():
        entries.append(entry(pointer((*path, name)), render(tag, raw, start)))
    return values


def _by_name(raw: bytes, at: int) -> dict[str, Element] | None:
    found: dict[str, Element] = {}
    for item in elements(raw, at):
        try:
            name = item[1].decode()
        except UnicodeDecodeError:
            return None
        if name in found:
            return None
        found[name] = item
    return found


def _value(type_: ColumnType, raw: bytes, item: Element, path: tuple[str, ...], entries: list[str]) -> Any:
    tag, _, at, _ = item
    value: Any = MISFIT
    match type_:
        case Scalar(kind):
            value = convert(kind, tag, raw, at)
        case Struct(fields) if tag == DOCUMENT:
            inner = _fields(fields, raw, at, path, entries)
            value = MISFIT if inner is None else inner
        case Array(element) if tag == ARRAY:
            value = [
                None if inner[0] == NULL else _value(element, raw, inner, (*path, str(index)), entries)
                for index, inner in enumerate(elements(raw, at))
            ]
        case _:
            pass
    if value is MISFIT:
        entries.append(entry(pointer(path), render(tag, raw, at)))
        return None
    return value


def _is_negative_zero(number: Any) -> bool:
    if isinstance(number, Decimal):
        return number.is_zero() and number.is_signed()
    return number == 0 and isinstance(number, float) and math.copysign(1, number) < 0


def _finite(number: Any) -> bool:
    return number.is_finite() if isinstance(number, Decimal) else math.isfinite(number)


def _long(number: Any) -> Any:
    if not _finite(number) or _is_negative_zero(number) or not _LONG_MIN <= number < _LONG_END:
        return MISFIT
    return int(number) if number == int(number) else MISFIT


def _double(number: Any) -> Any:
    if isinstance(number, float):
        return number
    if not _finite(number) or _is_negative_zero(number):
        return MISFIT
    try:
        nearest = float(number)
    except OverflowError:
        return MISFIT
    return nearest if nearest == number else MISFIT


def _decimal(scale: int, number: Any) -> Any:
    if not _finite(number) or _is_negative_zero(number):
        return MISFIT
    try:
        unscaled = _EXACT.scaleb(_EXACT.create_decimal(number), scale)
    except (Inexact, InvalidOperation):
        return MISFIT
    if unscaled.copy_abs() >= _UNSCALED_MAX or unscaled != unscaled.to_integral_value():
        return MISFIT
    return int(unscaled)


_INTO: dict[str, Callable[[Any], Any]] = {
    "long": _long,
    "double": _double,
    **{kind: partial(_decimal, scale) for kind, scale in DECIMALS.items()},
}
