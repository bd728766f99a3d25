"""What a table lacks of a plan's columns, and which of its fields are somebody else's."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.types import ArrayType, DataType, StructType

from streaming.column_names import KEY, Path, fold, quoted
from streaming.layout import Missing
from streaming.layouts.columns.plan import (
    ELEMENT,
    Addition,
    Array,
    Column,
    ColumnType,
    Struct,
    TablePlan,
    additions,
    comment_of,
)


def missing_columns(table: StructType, plan: TablePlan) -> list[Missing]:
    """What to add to a table so that it has the plan's columns.

    A new column goes after the plan's column before it, so our own columns stay last; a nested field goes
    last. The plan's columns come first, but for the key, where that is the table's first.
    """
    found: list[Missing] = []
    place = f"AFTER {quoted(KEY)}" if table.names[0] == KEY else "FIRST"
    for column in plan.columns:
        if column.name in table.names:
            inner = _missing(table[column.name].dataType, column.type, (column.name,))
            found.extend(Missing(addition.path, addition.ddl) for addition in inner)
        else:
            addition = Addition((column.name,), column.type)
            ddl = f"{addition.ddl} COMMENT '{comment_of(column.type)}' {place}"
            found.append(Missing(addition.path, ddl))
        place = f"AFTER {quoted(column.name)}"
    return found


def others_fields(table: StructType, old: TablePlan, new: TablePlan) -> list[Path]:
    """Fields that ``new`` (which grew from ``old``, the table's plan) would add where the table has a field of such a
    name already: it is not ours."""
    return [a.path for a in additions(old, new) if _has(table, a.path)]


def _missing(table: DataType, wanted: ColumnType, path: Path) -> Iterator[Addition]:
    match table, wanted:
        case StructType(), Struct(fields):
            yield from _missing_fields(table, fields, path)
        case ArrayType(), Array(element):
            yield from _missing(table.elementType, element, (*path, ELEMENT))


def _missing_fields(table: StructType, wanted: tuple[Column, ...], path: Path) -> Iterator[Addition]:
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
