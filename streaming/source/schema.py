"""The columns of a change event, as the source gives it to Spark. They stand alone: `registration` needs them where
nothing else of the source is to be imported."""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

SCHEMA = StructType(
    [
        StructField("kind", StringType()),
        StructField("op", StringType()),
        StructField("operation_type", StringType()),
        StructField("db", StringType()),
        StructField("collection", StringType()),
        StructField("_key", StringType()),
        StructField("document_key", BinaryType()),
        StructField("document", BinaryType()),
        StructField("before", BinaryType()),
        StructField("update_description", BinaryType()),
        StructField("cluster_time", LongType()),
        StructField("ord", LongType()),
        StructField("wall_time", TimestampType()),
        StructField("lsid", BinaryType()),
        StructField("txn_number", LongType()),
        StructField("renamed_to", StringType()),
        StructField("moves", BooleanType()),
        StructField("trailer", StringType()),
    ]
)
