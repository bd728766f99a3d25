"""The schema of a state table: what it is for a plan, what a table lacks of it, and whether rows fit it."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from streaming.column_names import CLUSTER_TIME, KEY, OP, SOURCE_TS, quoted
from streaming.columns import Addition, Array, Column, ColumnType, Struct, TablePlan
from streaming.decode_schema import spark_schema


def state_schema(plan: TablePlan) -> StructType:
    """``_key``, the plan's columns, ``_rescued_data``, ``_cluster_time``, ``_source_ts``, ``_op``."""
    ours = [
        StructField(CLUSTER_TIME, LongType()),
        StructField(SOURCE_TS, TimestampType()),
        StructField(OP, StringType()),
    ]
    return StructType([*spark_schema(plan).fields, *ours])


def missing_columns(table: StructType, plan: TablePlan) -> list[str]:
    """What to add to a table so that it has the plan's columns: entries of ALTER TABLE … ADD COLUMNS (…).

    A new column goes after the plan's column before it, so our own columns stay last; a nested field goes
    last.
    """
    entries: list[str] = []
    before = KEY
    for column in plan.columns:
        if column.name in table.names:
            entries.extend(a.ddl for a in _missing(table[column.name].dataType, column.type, (column.name,)))
        else:
            entries.append(f"{Addition((column.name,), column.type).ddl} AFTER {quoted(before)}")
        before = column.name
    return entries


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


def _missing(table: DataType, wanted: ColumnType, path: tuple[str, ...]) -> Iterator[Addition]:
    match table, wanted:
        case StructType(), Struct(fields):
            yield from _missing_fields(table, fields, path)
        case ArrayType(), Array(element):
            yield from _missing(table.elementType, element, (*path, "element"))


def _missing_fields(
    table: StructType, wanted: tuple[Column, ...], path: tuple[str, ...]
) -> Iterator[Addition]:
    for field in wanted:
        if field.name in table.names:
            yield from _missing(table[field.name].dataType, field.type, (*path, field.name))
        else:
            yield Addition((*path, field.name), field.type)
