"""What tables without deletion vectors cost (`delta.reader=any`): ``python -m bench.vectors [PLACE…]``, of the batches
at these places of `MIXES`, or of all.

Two tables of the same 1,000,000 orders in eight files, one with deletion vectors and one without, get the same batches
by turns in one JVM: upserts there, MERGE here. Seconds of a landing, the median of the last rounds, and how much
it wrote; compare ratios. Nothing but the landing is timed: no MongoDB, no decoding.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.deletes import FILES, ROWS, landing, orders, orders_table
from bench.spark import scratch
from streaming.delta.local_checkpoints import free_checkpoint
from streaming.delta.state_table import StateTable
from streaming.delta.table_properties import TableForm

ROUNDS, WARM = 4, 1
FORMS = {"vectors": TableForm(), "any": TableForm(vectors=False)}
MIXES = {
    "20 changes, of one file": (20, ROWS // FILES),
    "2,000 changes, of one file": (2_000, ROWS // FILES),
    "2,000 changes, of all files": (2_000, ROWS),
}
"""How many keys a batch has, and among how many of the first ones they lie."""


def batch(spark: SparkSession, number: int, count: int, among: int) -> DataFrame:
    """The batch ``number`` of so many (``count``) updates, spread evenly."""
    rows = orders(spark.range(number, among, among // count).coalesce(2))
    return rows.withColumn("_op", F.lit("u")).localCheckpoint()


def measured(table: StateTable, source: DataFrame, number: int) -> tuple[float, int]:
    """Seconds of a landing, and bytes that it wrote into the table's folder."""
    rows, before = source.count(), size(table)
    return landing(table, source, number, rows, deletes=0), size(table) - before


def size(table: StateTable) -> int:
    return sum(file.stat().st_size for file in Path(table.path).iterdir() if file.is_file())


def main() -> None:
    with scratch("vectors") as (spark, folder):
        tables = {
            name: orders_table(spark, folder / name, ROWS, FILES, form=form) for name, form in FORMS.items()
        }
        number = 0
        asked = [list(MIXES)[int(place)] for place in sys.argv[1:]] or list(MIXES)
        for mix in asked:
            count, among = MIXES[mix]
            took: dict[str, list[float]] = {name: [] for name in tables}
            wrote: dict[str, list[int]] = {name: [] for name in tables}
            for at in range(ROUNDS):
                number += 1
                source = batch(spark, number, count, among)
                for name in sorted(tables, reverse=at % 2 == 0):
                    seconds, size_bytes = measured(tables[name], source, number)
                    took[name].append(seconds)
                    wrote[name].append(size_bytes)
                free_checkpoint(source)
            found = {name: statistics.median(seconds[WARM:]) for name, seconds in took.items()}
            sizes = {name: statistics.median(some[WARM:]) / 1e6 for name, some in wrote.items()}
            print(
                f"{mix}: vectors {found['vectors']:.2f} s and {sizes['vectors']:.1f} MB, "
                f"any {found['any']:.2f} s and {sizes['any']:.1f} MB, ratio {found['any'] / found['vectors']:.2f}"
            )


if __name__ == "__main__":
    main()
