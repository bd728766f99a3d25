"""The plan of a table: which fields of a collection's documents have a typed column.

A ``TablePlan`` is a value: the ordered columns of the documents' fields, with nested structs and arrays. It
only ever grows: ``merge`` adds columns and nested fields at the end, and never changes, moves or removes one.
So rows of an older plan land in a table of a newer one. What fits no column goes to ``_rescued_data``; every
decision here is about comfort, never about losing something.

A field that the table could not be given is *refused*: the plan says so, and no later ``merge`` brings it back.
No row was written with it. Names are held against each other where fields are added. An older plan may hold
two that would clash today: its table has both columns, so it stays as it is.

Scalar kinds, their Spark types, and what they hold:

- ``long`` BIGINT: int32, int64, and doubles and decimals that are integers in range.
- ``double`` DOUBLE: doubles, and integers that a double holds exactly.
- ``decimal(38,s)`` DECIMAL(38,s), and ``decimal``, which has 18 digits after the point: decimals and integers that fit
  exactly. The scale s is chosen when the column is made (`decimals`). NaN and infinities are rescued.
- ``string`` STRING: valid UTF-8 strings.
- ``bool`` BOOLEAN.
- ``date`` TIMESTAMP: dates of the years 1 to 9999, which Python and Spark can both show.
- ``objectId`` STRING: 24 hex digits. A string is a misfit there, even one of 24 hex digits.
- ``binary`` BINARY: binary data of subtype 0.

Numbers are equal as MongoDB compares them: a column keeps a number's exact value, not its BSON type. The sign
of a zero survives too: -0.0 fits a double column only, and is rescued elsewhere.

Pure: standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from streaming.column_names import (
    Path,
    can_be_addressed,
    can_be_column,
    can_be_nested,
    fold,
    is_taken,
    quoted,
)
from streaming.layouts.columns.decimals import DECIMALS, PRECISION, finer

SPARK_TYPES: Mapping[str, str] = {
    "long": "BIGINT",
    "double": "DOUBLE",
    **{kind: f"DECIMAL({PRECISION},{scale})" for kind, scale in DECIMALS.items()},
    "string": "STRING",
    "bool": "BOOLEAN",
    "date": "TIMESTAMP",
    "objectId": "STRING",
    "binary": "BINARY",
}
"""Scalar kind -> Spark SQL type."""

_MEANT = {
    "long": "whole numbers",
    "double": "numbers",
    "string": "strings",
    "bool": "booleans",
    "date": "dates",
    "objectId": "ObjectIds, in hexadecimal digits",
    "binary": "binary data of subtype 0",
}

LEAVES_MAX = 500
"""A plan has no more scalar columns and nested scalar fields than this; further fields stay in
``_rescued_data``.
"""

DEPTH_MAX = 10
"""How deep structs and arrays nest in a plan; a top-level scalar has depth 1. Deeper values are rescued
whole.
"""

ELEMENT = "element"
"""What a path calls the elements of an array."""

_FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value; ``kind`` is a key of ``SPARK_TYPES``."""

    kind: str

    def __post_init__(self) -> None:
        if self.kind not in SPARK_TYPES:
            raise ValueError(f"unknown scalar kind {self.kind!r}; expected one of {', '.join(SPARK_TYPES)}")


@dataclass(frozen=True, slots=True)
class Struct:
    """A nested document: at least one field, no name twice."""

    fields: tuple[Column, ...]

    def __post_init__(self) -> None:
        if not self.fields:
            raise ValueError("a struct needs at least one field (Delta stores no empty struct)")
        _check_names(self.fields, "struct")


@dataclass(frozen=True, slots=True)
class Array:
    """A list whose elements share one type."""

    element: ColumnType


ColumnType = Scalar | Struct | Array


@dataclass(frozen=True, slots=True)
class Column:
    """A field's name and type, at the top level or in a struct."""

    name: str
    type: ColumnType

    @property
    def ddl(self) -> str:
        """`` `name` TYPE``, as in a column list of CREATE TABLE."""
        return f"{quoted(self.name)} {spark_type(self.type)}"


@dataclass(frozen=True, slots=True)
class Addition:
    """A field that a newer plan has and an older one lacks.

    ``path`` leads to it.
    """

    path: Path
    type: ColumnType

    @property
    def ddl(self) -> str:
        """`` `items`.element.`sku` STRING``: an entry of ALTER TABLE … ADD COLUMNS (…)."""
        return f"{'.'.join(quoted(part) for part in self.path)} {spark_type(self.type)}"


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The columns of a table that come from documents, in table order. ``TablePlan()`` rescues everything.

    ``refused``: fields that the table could not be given.
    """

    columns: tuple[Column, ...] = ()
    refused: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        _check_names(self.columns, "plan")
        for column in self.columns:
            if is_taken(column.name):
                raise ValueError(f"a field called {column.name!r} cannot be a column, it is rescued")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def leaves(self) -> int:
        """How many scalars the plan has, nested ones included."""
        return sum(leaves_of(column.type) for column in self.columns)

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached, so that no further field can get a column."""
        return self.leaves >= LEAVES_MAX

    def merge(self, observed: TablePlan) -> TablePlan:
        """This plan with what ``observed`` adds, within the limits; ``self`` when that is nothing.

        Where both have a field of different types, this plan's type stays (the other values are rescued). What
        either has refused is not added.
        """
        return self._grown(observed, of_a_table=True)

    def joined(self, observed: TablePlan) -> TablePlan:
        """As `merge`, of two plans that were observed: where both have a decimal it gets the finer scale of the two."""
        return self._grown(observed, of_a_table=False)

    def _grown(self, observed: TablePlan, *, of_a_table: bool) -> TablePlan:
        refused = (*self.refused, *(path for path in observed.refused if path not in self.refused))
        growth = _Growth(LEAVES_MAX - self.leaves, frozenset(refused), of_a_table)
        columns = _merge_fields(self.columns, observed.columns, growth, ())
        return self if (columns, refused) == (self.columns, self.refused) else TablePlan(columns, refused)

    def refuse(self, paths: Iterable[Path]) -> TablePlan:
        """This plan without these fields, now and after any merge. The table must not have them."""
        plan = self
        for path in paths:
            if path not in plan.refused:
                plan = TablePlan(_without(plan.columns, path), (*plan.refused, path))
        return plan

    def to_json(self) -> str:
        """One line of JSON; equal plans give equal text."""
        value: dict[str, Any] = {"version": _FORMAT_VERSION}
        value["columns"] = [_column_to_json(c) for c in self.columns]
        if self.refused:
            value["refused"] = self.refused
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> TablePlan:
        """The plan that ``to_json`` wrote. Raises ValueError for anything else, with the part that is
        wrong.
        """
        value = json.loads(text)
        if not isinstance(value, dict) or value.get("version") != _FORMAT_VERSION:
            raise ValueError(f"not a table plan of version {_FORMAT_VERSION}: {text[:200]!r}")
        refused = tuple(_path_from_json(path) for path in value.get("refused", ()))
        return cls(tuple(_column_from_json(column) for column in value["columns"]), refused)


def plan_of(columns: Iterable[Column], without: Iterable[Path] = ()) -> TablePlan:
    """A plan of those of ``columns`` that the rules on top-level names, depth and number allow. Fields that it is to be
    ``without`` take none of the room."""
    return TablePlan(_merge_fields((), tuple(columns), _Growth(LEAVES_MAX, frozenset(without)), ()))


def additions(old: TablePlan, new: TablePlan) -> tuple[Addition, ...]:
    """The fields to add to a table of plan ``old`` so that it takes rows of ``new`` (which grew from
    ``old``).

    Raises ValueError when ``new`` lacks or changes something that ``old`` has.
    """
    return tuple(_additions(old.columns, new.columns, ()))


def spark_type(type_: ColumnType) -> str:
    """The type in Spark SQL: ``BIGINT``, ``ARRAY<STRUCT<`sku`: STRING>>``."""
    match type_:
        case Scalar(kind):
            return SPARK_TYPES[kind]
        case Struct(fields):
            return f"STRUCT<{', '.join(f'{quoted(f.name)}: {spark_type(f.type)}' for f in fields)}>"
        case Array(element):
            return f"ARRAY<{spark_type(element)}>"


def comment_of(type_: ColumnType) -> str:
    """What a column of this type holds, for people."""
    match type_:
        case Scalar(kind) if kind in DECIMALS:
            return f"MongoDB: decimals of up to {DECIMALS[kind]} digits behind the point"
        case Scalar(kind):
            return f"MongoDB: {_MEANT[kind]}"
        case Struct():
            return "MongoDB: documents"
        case Array():
            return "MongoDB: arrays"


def leaves_of(type_: ColumnType) -> int:
    """How many scalars the type holds, an array counting as its element."""
    match type_:
        case Scalar():
            return 1
        case Struct(fields):
            return sum(leaves_of(f.type) for f in fields)
        case Array(element):
            return leaves_of(element)


@dataclass(slots=True)
class _Growth:
    """What a merge may add: so many leaves, and none of the refused fields; and whether it is a table that grows, so
    that no type may change."""

    leaves: int
    refused: frozenset[Path]
    of_a_table: bool = True


def _check_names(fields: tuple[Column, ...], where: str) -> None:
    seen: set[str] = set()
    for field in fields:
        if not can_be_addressed(field.name):
            raise ValueError(f"a {where} cannot have a field called {field.name!r}; it is rescued")
        if field.name in seen:
            raise ValueError(f"a {where} cannot have {field.name!r} twice")
        seen.add(field.name)


def _merge_fields(
    ours: tuple[Column, ...], theirs: tuple[Column, ...], growth: _Growth, path: Path
) -> tuple[Column, ...]:
    allowed = can_be_nested if path else can_be_column
    merged = {field.name: field for field in ours}
    folded = {fold(name) for name in merged}
    for field in theirs:
        known, here = merged.get(field.name), (*path, field.name)
        if known is not None:
            merged[field.name] = Column(field.name, _merge_types(known.type, field.type, growth, here))
        elif allowed(field.name) and fold(field.name) not in folded and here not in growth.refused:
            type_ = _within_limits(field.type, growth, here)
            if type_ is not None:
                merged[field.name] = Column(field.name, type_)
                folded.add(fold(field.name))
    return tuple(merged.values())


def _merge_types(ours: ColumnType, theirs: ColumnType, growth: _Growth, path: Path) -> ColumnType:
    match ours, theirs:
        case Struct(known), Struct(others):
            return Struct(_merge_fields(known, others, growth, path))
        case Array(known_element), Array(other_element):
            return Array(_merge_types(known_element, other_element, growth, (*path, ELEMENT)))
        case Scalar(one), Scalar(other) if not growth.of_a_table and {one, other} <= DECIMALS.keys():
            return Scalar(finer(one, other))
        case _:
            return ours


def _within_limits(type_: ColumnType, growth: _Growth, path: Path) -> ColumnType | None:
    """As much of a new type as names, depth, the leaves left and refusals allow; None when that is nothing."""
    if len(path) > DEPTH_MAX or growth.leaves <= 0:
        return None
    match type_:
        case Scalar():
            growth.leaves -= 1
            return type_
        case Struct(fields):
            allowed = _merge_fields((), fields, growth, path)
            return Struct(allowed) if allowed else None
        case Array(element):
            inner = _within_limits(element, growth, (*path, ELEMENT))
            return None if inner is None else Array(inner)


def _without(fields: tuple[Column, ...], path: Path) -> tuple[Column, ...]:
    """The fields but for the one at ``path``; what is empty without it goes with it."""
    kept = []
    for field in fields:
        type_ = field.type if field.name != path[0] else _type_without(field.type, path[1:])
        if type_ is not None:
            kept.append(Column(field.name, type_))
    return tuple(kept)


def _type_without(type_: ColumnType, path: Path) -> ColumnType | None:
    if not path:
        return None
    match type_:
        case Struct(fields):
            left = _without(fields, path)
            return Struct(left) if left else None
        case Array(element):
            inner = _type_without(element, path[1:])
            return None if inner is None else Array(inner)
        case Scalar():
            return type_


def _additions(old: tuple[Column, ...], new: tuple[Column, ...], path: Path) -> Iterator[Addition]:
    if tuple(f.name for f in new[: len(old)]) != tuple(f.name for f in old):
        where = ".".join(path) or "the top"
        raise ValueError(f"at {where}, {[f.name for f in new]} does not start with {[f.name for f in old]}")
    for before, after in zip(old, new, strict=False):
        yield from _type_additions(before.type, after.type, (*path, after.name))
    for field in new[len(old) :]:
        yield Addition((*path, field.name), field.type)


def _type_additions(old: ColumnType, new: ColumnType, path: Path) -> Iterator[Addition]:
    match old, new:
        case Struct(before), Struct(after):
            yield from _additions(before, after, path)
        case Array(before_element), Array(after_element):
            yield from _type_additions(before_element, after_element, (*path, ELEMENT))
        case _ if old != new:
            changed = f"{'.'.join(path)} changed from {spark_type(old)} to {spark_type(new)}"
            raise ValueError(f"{changed}; a plan only grows")


def _column_to_json(column: Column) -> dict[str, Any]:
    return {"name": column.name, "type": _type_to_json(column.type)}


def _type_to_json(type_: ColumnType) -> Any:
    match type_:
        case Scalar(kind):
            return kind
        case Struct(fields):
            return {"struct": [_column_to_json(f) for f in fields]}
        case Array(element):
            return {"array": _type_to_json(element)}


def _column_from_json(value: Any) -> Column:
    match value:
        case {"name": str(name), "type": type_}:
            return Column(name, _type_from_json(type_))
        case _:
            raise ValueError(f"not a column of a table plan: {value!r}")


def _type_from_json(value: Any) -> ColumnType:
    match value:
        case str():
            return Scalar(value)
        case {"struct": [*fields]}:
            return Struct(tuple(_column_from_json(f) for f in fields))
        case {"array": element}:
            return Array(_type_from_json(element))
        case _:
            raise ValueError(f"not a type of a table plan: {value!r}")


def _path_from_json(value: Any) -> Path:
    match value:
        case [str(), *rest] if all(isinstance(part, str) for part in rest):
            return tuple(value)
        case _:
            raise ValueError(f"not a refused field of a table plan: {value!r}")
