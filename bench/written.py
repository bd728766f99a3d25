"""How many bytes are written for each byte that changes, by a table's size and the rate of changes.

    python -m bench.written [--rows 1000 200000 2000000] [--rates 1 200] [--commits 60]

Tables of so many orders get updates as a stream of so many a second brings them: one commit each two seconds, of keys
all over the table. Upkeep has its turn as in an engine, behind every fifteenth commit. Written is whatever comes into
the table's folder, told apart: rows and the marks of old ones (deletion vectors) by landings, files by upkeep, the log,
and the checksums that Delta and Hadoop write beside it. What changes is counted as it lies in a table that was written
at once, compressed: bytes of the table by its rows. Bytes, no seconds: a busy machine gives the same. No MongoDB, no
decoding.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.deletes import orders, orders_table
from bench.spark import session
from streaming.delta.local_checkpoints import free_checkpoint
from streaming.delta.row_writer import Known
from streaming.delta.state_merge import ranges_of
from streaming.delta.state_table import StateTable
from streaming.delta.state_upkeep import COMMITS
from streaming.delta.upkeep_plan import Pace, Thresholds, due

SECONDS_A_COMMIT, LOOKS = 2, 15
LIMITS = Thresholds(retention_hours=0)
DAY = 86_400
LANDINGS, UPKEEP, LOG, SUMS = "landings", "upkeep", "log", "checksums"


@dataclass(slots=True)
class Watched:
    """A table, and what has been written into its folder: bytes by who wrote them, of files that came since the last
    look."""

    table: StateTable
    known: dict[Path, int] = field(default_factory=dict)
    written: Counter[str] = field(default_factory=Counter)

    def look(self, by: str | None) -> None:
        """What has come is of this one (None: of nobody who counts)."""
        found = {path: path.stat().st_size for path in Path(self.table.path).rglob("*") if path.is_file()}
        for path in found.keys() - self.known.keys():
            of_log = SUMS if path.suffix == ".crc" else LOG
            if by is not None:
                self.written[of_log if path.parent.name == "_delta_log" else by] += found[path]
        self.known = found

    def keep(self) -> None:
        """All that is due, as an engine does it between landings."""
        upkeep, pace = self.table.upkeep, Pace()
        upkeep.own_checkpoints()
        while (look := upkeep.look(LIMITS)) is not None:
            step = due(look.files or (), LIMITS, pace.bytes_max, None)
            if step is None or upkeep.rewrite(step) is None:
                break
        if look is not None and look.commits >= COMMITS:
            upkeep.checkpoint()
        self.look(UPKEEP)


def measure(spark: SparkSession, folder: Path, rows: int, rate: int, commits: int) -> str:
    """A row of the table that is printed."""
    watched = Watched(orders_table(spark, folder, rows, max(1, rows // 250_000)))
    look = watched.table.upkeep.look(LIMITS)
    assert look is not None
    row_bytes, changes = look.size_bytes / rows, min(rows, rate * SECONDS_A_COMMIT)
    watched.look(None)
    for number in range(1, commits + 1):
        ids = spark.range(number % (rows // changes), rows, rows // changes).coalesce(1).limit(changes)
        source = orders(ids).withColumn("_op", F.lit("u")).localCheckpoint()
        known = Known(changes, distinct=True, held=True, deletes=0)
        ranges = ranges_of(source)
        watched.table.land(source, batch_id=number, metadata={}, how="merge", key_ranges=ranges, known=known)
        free_checkpoint(source)
        watched.look(LANDINGS)
        if number % LOOKS == 0:
            watched.keep()
    changed = row_bytes * changes * commits
    parts = [watched.written[by] for by in (LANDINGS, UPKEEP, LOG, SUMS)]
    a_day = sum(parts) / (commits * SECONDS_A_COMMIT) * DAY
    told = " | ".join(f"{part / changed:,.1f}" for part in (*parts, sum(parts)))
    return f"| {rows:,} | {rate} | {row_bytes:,.0f} | {told} | {a_day / 1e9:,.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 200_000, 2_000_000])
    parser.add_argument("--rates", type=int, nargs="+", default=[1, 200], help="changes a second")
    parser.add_argument("--commits", type=int, default=60)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="written-"))
    spark = session("written", folder)
    try:
        print("| rows | changes/s | bytes a row | landings | upkeep | log | its checksums | all | GB a day |")
        print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
        for rows in given.rows:
            for rate in given.rates:
                at = folder / f"{rows}-{rate}"
                print(measure(spark, at, rows, rate, given.commits), flush=True)
                shutil.rmtree(at)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
