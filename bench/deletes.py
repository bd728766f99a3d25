"""What soft deletes cost beside removing rows: ``python -m bench.deletes``.

Two tables of the same 1,000,000 orders, one of each mode, get the same batches by turns in one JVM, written as large
tables are (upsert). Seconds of a landing, the median of the last rounds; compare ratios. Nothing but the landing is
timed: no MongoDB, no decoding.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.spark import session
from streaming.delta.further_columns import FurtherColumns
from streaming.delta.local_checkpoints import free_checkpoint
from streaming.delta.row_writer import Known
from streaming.delta.state_merge import ranges_of
from streaming.delta.state_table import StateTable
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.plan import Column, Scalar, Struct, TablePlan
from streaming.namespaces import Namespace

ROWS, BATCH, ROUNDS, WARM = 1_000_000, 2_000, 9, 3
MODES = {"remove": FurtherColumns(), "soft": FurtherColumns(soft=True)}
MIXES = {"10 % deletes": 10, "deletes alone": 100, "no deletes": 0}
ADDRESS = Struct((Column("street", Scalar("string")), Column("city", Scalar("string"))))
PLAN = TablePlan(
    (
        Column("_id", Scalar("long")),
        Column("name", Scalar("string")),
        Column("note", Scalar("string")),
        Column("total", Scalar("double")),
        Column("address", ADDRESS),
    )
)


def orders(ids: DataFrame) -> DataFrame:
    """Rows of these ids, some 300 bytes each."""
    number = F.col("id")
    address = F.struct(
        F.concat(F.lit("street "), number).alias("street"), F.md5(number.cast("string")).alias("city")
    )
    return ids.select(
        F.format_string("%012d", number).alias("_key"),
        number.alias("_id"),
        F.sha2(number.cast("string"), 256).alias("name"),
        F.sha2((number + 1).cast("string"), 512).alias("note"),
        (number * 1.5).cast("double").alias("total"),
        address.alias("address"),
        F.lit(None).cast("string").alias("_rescued_data"),
        F.lit(1).cast("long").alias("_cluster_time"),
        F.current_timestamp().alias("_source_ts"),
        F.lit("r").alias("_op"),
    )


def batch(spark: SparkSession, number: int, deletes: int) -> DataFrame:
    """The batch ``number``: keys all over the table that no other batch has, ``deletes`` per cent of them deletes."""
    step = ROWS // BATCH
    rows = orders(spark.range(number, ROWS, step).coalesce(2))
    op = F.when(F.pmod(F.xxhash64("_key"), F.lit(100)) < deletes, "d").otherwise("u")
    return rows.withColumn("_op", op).localCheckpoint()


def landing(table: StateTable, source: DataFrame, number: int) -> float:
    """Seconds of it."""
    deletes = source.where("_op = 'd'").count()
    ranges = ranges_of(source)
    began = time.monotonic()
    table.land(
        source,
        batch_id=number,
        metadata={},
        how="merge",
        key_ranges=ranges,
        known=Known(BATCH, distinct=True, held=True, deletes=deletes),
    )
    return time.monotonic() - began


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="deletes-"))
    spark = session("deletes", folder)
    try:
        tables = {}
        for name, further in MODES.items():
            place = Namespace("shop", name)
            table = StateTable(COLUMNS, spark, str(folder / name), place, "bench", further=further)
            table.create(PLAN)
            table.land(orders(spark.range(ROWS)), batch_id=0, metadata={}, how="append", key_ranges=None)
            tables[name] = table
        number = 0
        for mix, deletes in MIXES.items():
            took: dict[str, list[float]] = {name: [] for name in tables}
            for at in range(ROUNDS):
                number += 1
                source = batch(spark, number, deletes)
                for name in sorted(tables, reverse=at % 2 == 0):
                    took[name].append(landing(tables[name], source, number))
                free_checkpoint(source)
            found = {name: statistics.median(seconds[WARM:]) for name, seconds in took.items()}
            ratio = found["soft"] / found["remove"]
            print(f"{mix}: remove {found['remove']:.2f} s, soft {found['soft']:.2f} s, ratio {ratio:.2f}")
    finally:
        spark.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
