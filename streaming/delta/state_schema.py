"""The schema of a state table: what it is for a plan, what a table lacks of it, and how rows fit it.

A table may have columns, and fields in its structs, that no plan knows: somebody has added them. They stay theirs:
a field of the documents whose name clashes with one is rescued, and rows that are written have null there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from streaming.plan.column_names import CLUSTER_TIME, KEY, OP, SOURCE_TS, fold, quoted
from streaming.plan.columns import ELEMENT, Addition, Array, ColumnType, Path, Struct, TablePlan, additions
from streaming.plan.columns import Column as PlanColumn
from streaming.plan.schemas import spark_schema


def state_schema(plan: TablePlan) -> StructType:
    """``_key``, the plan's columns, ``_rescued_data``, ``_cluster_time``, ``_source_ts``, ``_op``."""
    ours = [
        StructField(CLUSTER_TIME, LongType()),
        StructField(SOURCE_TS, TimestampType()),
        StructField(OP, StringType()),
    ]
    return StructType([*spark_schema(plan).fields, *ours])


@dataclass(frozen=True, slots=True)
class Missing:
    """A field that a plan has and a table lacks: where it is, and its entry of ALTER TABLE … ADD COLUMNS (…)."""

    path: Path
    ddl: str


def missing_columns(table: StructType, plan: TablePlan) -> list[Missing]:
    """What to add to a table so that it has the plan's columns.

    A new column goes after the plan's column before it, so our own columns stay last; a nested field goes
    last.
    """
    found: list[Missing] = []
    before = KEY
    for column in plan.columns:
        if column.name in table.names:
            inner = _missing(table[column.name].dataType, column.type, (column.name,))
            found.extend(Missing(addition.path, addition.ddl) for addition in inner)
        else:
            addition = Addition((column.name,), column.type)
            found.append(Missing(addition.path, f"{addition.ddl} AFTER {quoted(before)}"))
        before = column.name
    return found


def others_fields(table: StructType, old: TablePlan, new: TablePlan) -> list[Path]:
    """Fields that ``new`` (which grew from ``old``, the table's plan) would add where the table has a field of such a
    name already: it is not ours."""
    return [a.path for a in additions(old, new) if _has(table, a.path)]


def fitting(rows: StructType, table: StructType, plan: TablePlan) -> list[Column]:
    """The columns of a table of ``plan`` from those of the rows, in the table's order. What is not the plan's is null.

    Raises ValueError where the rows do not fit the plan's columns in the table.
    """
    differences = type_differences(rows, _ours(table, state_schema(plan)))
    if differences:
        raise ValueError("; ".join(differences))
    given = {field.name: field.dataType for field in rows.fields}
    return [
        _filled(F.col(quoted(field.name)), given.get(field.name), field.dataType).alias(field.name)
        for field in table.fields
    ]


def type_differences(rows: StructType, table: StructType) -> list[str]:
    """Why rows do not fit a table, by column; [] when they do. Nullability and order do not matter."""
    found = {field.name: field.dataType.simpleString() for field in rows.fields}
    wanted = {field.name: field.dataType.simpleString() for field in table.fields}
    differences = [f"no column {name!r} in the rows" for name in wanted if name not in found]
    differences += [f"no column {name!r} in the table" for name in found if name not in wanted]
    differences += [
        f"column {name!r} is {found[name]} in the rows and {type_} in the table"
        for name, type_ in wanted.items()
        if found.get(name, type_) != type_
    ]
    if len(rows.fields) != len(found):
        differences.append(f"a column comes twice in the rows: {rows.names}")
    return differences


def _missing(table: DataType, wanted: ColumnType, path: Path) -> Iterator[Addition]:
    match table, wanted:
        case StructType(), Struct(fields):
            yield from _missing_fields(table, fields, path)
        case ArrayType(), Array(element):
            yield from _missing(table.elementType, element, (*path, ELEMENT))


def _missing_fields(table: StructType, wanted: tuple[PlanColumn, ...], path: Path) -> Iterator[Addition]:
    for field in wanted:
        if field.name in table.names:
            yield from _missing(table[field.name].dataType, field.type, (*path, field.name))
        else:
            yield Addition((*path, field.name), field.type)


def _has(table: DataType, path: Path) -> bool:
    """Whether a table has a field there, by a name that a reader may take for this one."""
    match table:
        case StructType():
            found = [field.dataType for field in table.fields if fold(field.name) == fold(path[0])]
            return bool(found) and (len(path) == 1 or any(_has(inner, path[1:]) for inner in found))
        case ArrayType():
            return _has(table.elementType, path[1:])
        case _:
            return False


def _ours(table: StructType, ours: StructType) -> StructType:
    """The table's fields without those that somebody has added."""
    known = {field.name: field.dataType for field in ours.fields}
    kept = [field for field in table.fields if field.name in known]
    return StructType([StructField(f.name, _our_type(f.dataType, known[f.name])) for f in kept])


def _our_type(table: DataType, ours: DataType) -> DataType:
    match table, ours:
        case StructType(), StructType():
            return _ours(table, ours)
        case ArrayType(), ArrayType():
            return ArrayType(_our_type(table.elementType, ours.elementType))
        case _:
            return table


def _filled(value: Column, have: DataType | None, want: DataType) -> Column:
    """A value of type ``have`` (None: there is none) as one of ``want``, which may have more fields."""
    match have, want:
        case None, _:
            return F.lit(None).cast(want)
        case _ if have.simpleString() == want.simpleString():
            return value
        case StructType(), StructType():
            given = {field.name: field.dataType for field in have.fields}
            fields = [
                _filled(value.getField(f.name), given.get(f.name), f.dataType).alias(f.name)
                for f in want.fields
            ]
            return F.when(value.isNotNull(), F.struct(*fields))
        case ArrayType(), ArrayType():
            inner = have.elementType, want.elementType
            return F.transform(value, lambda element: _filled(element, *inner))
        case _:
            raise ValueError(f"{have.simpleString()} is no {want.simpleString()}")
