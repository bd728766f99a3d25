"""What types the fields of documents have: the plan that would take them, from raw BSON.

Where documents disagree the commonest type gets the column (the earliest of two as common). Integers and
doubles in one field make it a double, for a field of prices that is sometimes whole is a field of doubles. Decimals get
the scale that those need which are seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import Context

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
    OBJECT_ID,
    STRING,
    elements,
    starts_of,
)
from streaming.column_names import Path, can_be_column, can_be_nested, fold
from streaming.layouts.columns.decimals import SCALES, kind_for
from streaming.layouts.columns.plan import Array, Column, ColumnType, Scalar, Struct, TablePlan, plan_of

KINDS = {
    INT32: "long",
    INT64: "long",
    DOUBLE: "double",
    DECIMAL: "decimal",
    STRING: "string",
    BOOL: "bool",
    DATE: "date",
    OBJECT_ID: "objectId",
    BINARY: "binary",
}
"""BSON tag -> scalar kind, for the types that have columns (of binary data only subtype 0)."""

_DEPTH_MAX = 12
_STRUCT, _ARRAY = "struct", "array"
_WIDE = Context(prec=40, Emin=-9999, Emax=9999)


class Observation:
    """What has been seen at one place: counts of types, and what was seen inside documents and arrays."""

    __slots__ = ("_digits", "_element", "_fields", "_kinds")

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()
        self._digits = 0
        self._fields: dict[str, Observation] = {}
        self._element: Observation | None = None

    def field(self, name: str) -> Observation:
        """The place of a field of the documents here."""
        place = self._fields.get(name)
        if place is None:
            place = self._fields[name] = Observation()
        return place

    @property
    def breadth(self) -> int:
        """How many fields the documents here have had."""
        return len(self._fields)

    def knows(self, name: str) -> bool:
        """Whether a field has been seen here before."""
        return name in self._fields

    def element(self) -> Observation:
        """The place of the elements of the arrays here."""
        if self._element is None:
            self._element = Observation()
        return self._element

    def count(self, kind: str, times: int = 1) -> None:
        """A scalar of this kind was seen."""
        self._kinds[kind] += times

    def see(self, tag: int, raw: bytes, at: int, depth: int = 1) -> None:
        """A value of BSON type ``tag`` was seen at byte ``at`` of ``raw``; documents and arrays are looked into.

        ``depth``: the level that it is at, counted from 1. What lies deeper than `_DEPTH_MAX` gets no column.
        """
        if depth > _DEPTH_MAX:
            return
        if tag == DOCUMENT:
            self._kinds[_STRUCT] += 1
            for inner, name, start, _ in elements(raw, at):
                if inner in KINDS or inner in (DOCUMENT, ARRAY):
                    self.field(name.decode("utf-8", "surrogateescape")).see(inner, raw, start, depth + 1)
        elif tag == ARRAY:
            self._kinds[_ARRAY] += 1
            for inner, _, start, _ in elements(raw, at):
                self.element().see(inner, raw, start, depth + 1)
        elif tag in KINDS and (tag != BINARY or raw[at + 4] == 0):
            self._kinds[KINDS[tag]] += 1
            if tag == DECIMAL:
                digits = _digits_behind_point(raw[at : at + 16])
                if digits <= SCALES[-1]:  # else no column takes it
                    self._digits = max(self._digits, digits)

    def type(self) -> ColumnType | None:
        """The type of a column for this place; None when nothing seen here can have one."""
        kinds = Counter(self._kinds)
        if kinds["double"] and kinds["long"]:
            kinds["double"] += kinds.pop("long")
        element = None if self._element is None else self._element.type()
        fields = self._columns(top=False)
        if not fields:
            del kinds[_STRUCT]
        elif not kinds:
            kinds[_STRUCT] = 1
        if element is None:
            del kinds[_ARRAY]
        elif not kinds:
            kinds[_ARRAY] = 1
        kind = max(kinds, key=lambda name: kinds[name], default=None)
        if kind is None or not kinds[kind]:
            return None
        if kind == _ARRAY and element is not None:
            return Array(element)
        if kind == KINDS[DECIMAL]:
            kind = kind_for(self._digits, kinds[kind])
        return Struct(fields) if kind == _STRUCT else Scalar(kind)

    def plan(self, without: Iterable[Path] = ()) -> TablePlan:
        """The plan for the documents seen at this place, their top level; ``without`` these fields."""
        return plan_of(self._columns(top=True), without)

    def _columns(self, top: bool) -> tuple[Column, ...]:
        columns: dict[str, Column] = {}
        allowed = can_be_column if top else can_be_nested
        for name, place in self._fields.items():
            type_ = place.type() if allowed(name) and fold(name) not in columns else None
            if type_ is not None:
                columns[fold(name)] = Column(name, type_)
        return tuple(columns.values())


def _digits_behind_point(data: bytes) -> int:
    """How many digits behind the point a Decimal128 needs; its trailing zeros need none, nor does what is no number."""
    number = Decimal128.from_bid(data).to_decimal()
    if not number or not number.is_finite():
        return 0
    exponent = number.normalize(_WIDE).as_tuple().exponent
    return max(0, -int(exponent))


def observe(documents: bytes | Iterable[bytes]) -> TablePlan:
    """The plan that takes these documents: concatenated raw BSON, or one document an item.

    About 20 µs a document; a sample of a thousand is plenty, for a plan grows with what later batches show.
    """
    seen = Observation()
    for raw in (documents,) if isinstance(documents, bytes) else documents:
        for start in starts_of(raw):
            seen.see(DOCUMENT, raw, start)
    return seen.plan()
