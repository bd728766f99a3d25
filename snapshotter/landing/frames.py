"""How a batch's frames are made and planned: small tables of the driver as DataFrames, settings of its session."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from streaming.delta.state_merge import MICROSECONDS, TIMES, set_unless_given
from streaming.jvm import answer_at_once, import_what_is_asked_for

STREAMED = ["_streamed_key", "_streamed_time"]
"""Columns of keys that have streamed, each with a cluster time."""


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The table as a DataFrame. It is made one chunk first: PySpark's createDataFrame silently drops what follows an
    empty chunk."""
    return spark.createDataFrame(table.combine_chunks())


def not_superseded(reads: DataFrame, streamed: DataFrame, newer: Column) -> DataFrame:
    """The rows of ``reads`` whose ``_key`` is not among those ``streamed`` (`STREAMED`), of which those count that are
    ``newer``: a condition on the columns of both."""
    same = F.col("_key") == F.col(STREAMED[0])
    return reads.join(F.broadcast(streamed), same & newer, "left_anti")


def in_landing_pool(spark: SparkSession) -> None:
    """Schedule this thread's jobs with those of other landings from now on."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", "landing")


def for_batches(session: SparkSession) -> None:
    """Set up a streaming query's own session, which nobody else sees. Settings that were given to Spark stay.

    Adaptive execution is off: a batch is bounded, its joins are of small tables that are broadcast, and planning anew
    behind each stage takes time (bench/README.md). Where much is merged, Delta plans in the session of the table, which
    is another. Since nothing then joins Spark's 200 shuffle partitions into few, there are as many as cores.

    PySpark's own names are looked up at once, and the JVM answers without delay (`streaming.jvm`).

    What goes to a Python worker at a time is bounded by bytes: by default it would be 10,000 documents, however large.
    """
    cores = str(session.sparkContext.defaultParallelism)
    settings = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": cores,
        "spark.sql.execution.arrow.maxBytesPerBatch": str(4 << 20),
        TIMES: MICROSECONDS,  # of rows that Delta writes, their own session counts
    }
    set_unless_given(session, settings)
    import_what_is_asked_for(session)
    answer_at_once(session)
