"""Rows decoded under an older plan of a table, brought to its plan of today.

A chunk may be read while a streamed batch adds a column. Plans only ever grow, so every column of the old plan is in
the new one; what the old one did not know stands in ``_rescued_data`` already, and is null in the new columns.
A null struct stays null; it does not become a struct of nulls.
"""

from __future__ import annotations

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streaming.layouts.columns.plan import Array, Column, ColumnType, Struct, TablePlan, spark_type


def reshape(frame: DataFrame, have: TablePlan, want: TablePlan) -> DataFrame:
    """``frame`` with the columns of ``want`` in place of those of ``have``; its other columns stay as they are."""
    if have == want:
        return frame
    known = {column.name for column in have.columns}
    others = [F.col(_quoted(name)) for name in frame.columns if name not in known]
    by_name = {column.name: column.type for column in have.columns}
    columns = [_column(F.col(_quoted(c.name)), by_name.get(c.name), c) for c in want.columns]
    return frame.select(*columns, *others)


def _column(value: SparkColumn, have: ColumnType | None, want: Column) -> SparkColumn:
    if have is None:
        return F.lit(None).cast(spark_type(want.type)).alias(want.name)
    return _value(value, have, want.type).alias(want.name)


def _value(value: SparkColumn, have: ColumnType, want: ColumnType) -> SparkColumn:
    if have == want:
        return value
    if isinstance(have, Struct) and isinstance(want, Struct):
        by_name = {column.name: column.type for column in have.fields}
        fields = [_column(value.getField(c.name), by_name.get(c.name), c) for c in want.fields]
        return F.when(value.isNotNull(), F.struct(*fields)).otherwise(F.lit(None))
    if isinstance(have, Array) and isinstance(want, Array):
        return F.transform(value, lambda element: _value(element, have.element, want.element))
    raise ValueError(f"a plan never changes a column's type: {have} became {want}")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
