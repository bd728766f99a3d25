"""What soft deletes cost beside removing rows: ``python -m bench.deletes``.

Two tables of the same 1,000,000 orders, of eight files in the order of their keys, one of each mode, get the same
batches of 2,000 keys by turns in one JVM, written as large tables are (upsert). Seconds of a landing, the median of the
last rounds; compare ratios. Nothing but the landing is timed: no MongoDB, no decoding.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.spark import scratch
from streaming.delta.further_columns import FurtherColumns
from streaming.delta.local_checkpoints import free_checkpoint
from streaming.delta.row_writer import Known
from streaming.delta.state_merge import ranges_of
from streaming.delta.state_table import StateTable
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.plan import Column, Scalar, Struct, TablePlan
from streaming.namespaces import Namespace

ROWS, BATCH, FILES, ROUNDS, WARM = 1_000_000, 2_000, 8, 8, 3
MODES = {"remove": FurtherColumns(), "soft": FurtherColumns(soft=True)}
MIXES = {
    "no deletes": (0, 0),
    "a tenth deletes, of one file": (10 * FILES, (FILES - 1) * ROWS // FILES),
    "a tenth deletes, of all files": (10, 0),
    "deletes alone": (100, 0),
}
"""How many per cent of the keys from which one on are deletes; the others are updates."""
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


def batch(spark: SparkSession, number: int, deletes: int, first: int) -> DataFrame:
    """The batch ``number``: keys all over the table that no other batch has; from the ``first`` one on ``deletes`` per
    cent of them are deletes."""
    step = ROWS // BATCH
    rows = orders(spark.range(number, ROWS, step).coalesce(2))
    deleted = (F.col("_id") >= first) & (F.pmod(F.xxhash64("_key"), F.lit(100)) < deletes)
    op = F.when(deleted, "d").otherwise("u")
    return rows.withColumn("_op", op).localCheckpoint()


def orders_table(spark: SparkSession, path: Path, rows: int, files: int, **how: Any) -> StateTable:
    """A table of so many orders; ``how``: as `StateTable` is told."""
    table = StateTable(COLUMNS, spark, str(path), Namespace("shop", path.name), "bench", **how)
    table.create(PLAN)
    made = orders(spark.range(0, rows, 1, files))
    table.land(made, batch_id=0, metadata={}, how="append", key_ranges=None)
    return table


def landing(table: StateTable, source: DataFrame, number: int, rows: int, deletes: int) -> float:
    """Seconds of it, of so many ``rows``."""
    ranges, known = ranges_of(source), Known(rows, distinct=True, held=True, deletes=deletes)
    began = time.monotonic()
    table.land(source, batch_id=number, metadata={}, how="merge", key_ranges=ranges, known=known)
    return time.monotonic() - began


def main() -> None:
    with scratch("deletes") as (spark, folder):
        tables = {
            name: orders_table(spark, folder / name, ROWS, FILES, further=further)
            for name, further in MODES.items()
        }
        number = 0
        for mix, (deletes, first) in MIXES.items():
            took: dict[str, list[float]] = {name: [] for name in tables}
            for at in range(ROUNDS):
                number += 1
                source = batch(spark, number, deletes, first)
                gone = source.where("_op = 'd'").count()
                for name in sorted(tables, reverse=at % 2 == 0):
                    took[name].append(landing(tables[name], source, number, BATCH, gone))
                free_checkpoint(source)
            found = {name: statistics.median(seconds[WARM:]) for name, seconds in took.items()}
            ratio = found["soft"] / found["remove"]
            print(f"{mix}: remove {found['remove']:.2f} s, soft {found['soft']:.2f} s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
