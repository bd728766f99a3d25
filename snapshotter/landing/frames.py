"""How a batch's frames are made and planned: small tables of the driver as DataFrames, settings of its session."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from streaming.delta.state_merge import set_unless_given


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """In one chunk: PySpark's createDataFrame drops what follows an empty chunk of an Arrow table, without a word."""
    return spark.createDataFrame(table.combine_chunks())


def in_landing_pool(spark: SparkSession) -> None:
    """From here on this thread's jobs are scheduled along with those of other landings."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", "landing")


def for_batches(session: SparkSession) -> None:
    """Settings of a streaming query's own session, which nobody else sees; what was given for Spark's start stays.

    A batch is bounded, and its joins are of small tables that are broadcast: what Spark would learn on the way changes
    nothing, and planning anew behind each stage takes time (bench/README.md). Where much is merged, Delta plans in the
    session of the table, which is another. Without such learning nobody joins Spark's 200 partitions into few.

    What goes to a Python worker at a time is bounded by bytes: 10,000 large documents would be."""
    cores = str(session.sparkContext.defaultParallelism)
    settings = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": cores,
        "spark.sql.execution.arrow.maxBytesPerBatch": str(4 << 20),
    }
    set_unless_given(session, settings)
