"""A table plan as an Arrow schema and as a Spark schema: the two agree type by type.

The Arrow types are those that ``mapInArrow`` takes, so no cast stands between them.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from streaming.column_names import KEY, RESCUED_DATA
from streaming.layouts.columns.decimals import DECIMALS, PRECISION
from streaming.layouts.columns.plan import Array, ColumnType, Scalar, Struct, TablePlan

_ARROW: dict[str, pa.DataType] = {
    "long": pa.int64(),
    "double": pa.float64(),
    **{kind: pa.decimal128(PRECISION, scale) for kind, scale in DECIMALS.items()},
    "string": pa.string(),
    "bool": pa.bool_(),
    "date": pa.timestamp("us", tz="UTC"),
    "objectId": pa.string(),
    "binary": pa.binary(),
}
_SPARK: dict[str, DataType] = {
    "long": LongType(),
    "double": DoubleType(),
    **{kind: DecimalType(PRECISION, scale) for kind, scale in DECIMALS.items()},
    "string": StringType(),
    "bool": BooleanType(),
    "date": TimestampType(),
    "objectId": StringType(),
    "binary": BinaryType(),
}


@cache
def arrow_type(type_: ColumnType) -> pa.DataType:
    """The Arrow type of a column; every nested field is nullable."""
    match type_:
        case Scalar(kind):
            return _ARROW[kind]
        case Struct(fields):
            return pa.struct([pa.field(f.name, arrow_type(f.type)) for f in fields])
        case Array(element):
            return pa.list_(pa.field("element", arrow_type(element)))


@cache
def arrow_schema(plan: TablePlan) -> pa.Schema:
    """``_key`` string, the plan's columns, ``_rescued_data`` string."""
    fields = [pa.field(column.name, arrow_type(column.type)) for column in plan.columns]
    return pa.schema([pa.field(KEY, pa.string()), *fields, pa.field(RESCUED_DATA, pa.string())])


def _spark_type(type_: ColumnType) -> DataType:
    """The Spark type of a column; every nested field is nullable."""
    match type_:
        case Scalar(kind):
            return _SPARK[kind]
        case Struct(fields):
            return StructType([StructField(f.name, _spark_type(f.type)) for f in fields])
        case Array(element):
            return ArrayType(_spark_type(element))


def spark_schema(plan: TablePlan) -> StructType:
    """The Spark schema of ``arrow_schema(plan)``, as a StructType."""
    fields = [StructField(column.name, _spark_type(column.type)) for column in plan.columns]
    return StructType([StructField(KEY, StringType()), *fields, StructField(RESCUED_DATA, StringType())])
