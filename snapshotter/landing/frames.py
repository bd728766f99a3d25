"""Small tables of the driver as DataFrames."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """In one chunk: PySpark's createDataFrame drops what follows an empty chunk of an Arrow table, without a word."""
    return spark.createDataFrame(table.combine_chunks())
