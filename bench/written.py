"""How many bytes are written for each byte that changes, by a table's size and the rate of changes.

    python -m bench.written [--rows 1000 200000 2000000] [--rates 1 200] [--commits 60] [--reader any]

Tables of so many orders get updates as a stream of so many a second brings them: one commit each two seconds, of keys
all over the table. Upkeep has its turn as in an engine, behind every eighth commit, or every fifteenth of a table
without deletion vectors (`streaming.delta.upkeep_plan.next_look`). Written is whatever comes into the table's folder,
told apart: rows and the marks of old ones (deletion vectors) by landings, files by upkeep, the log, and the checksums
that Delta and Hadoop write beside it. What changes is counted as it lies in a table that was written at once,
compressed: bytes of the table by its rows. Bytes, no seconds: a busy machine gives the same. No MongoDB, no decoding.

With `--reader any` tables have no deletion vectors, and each is written in two ways by turns: at once, and as an engine
waits (`core.rules.commit_interval`). There a commit that takes longer than its interval is followed when it is over, so
how many a day there are depends on the machine. Time itself does not pass: of each commit it is known what came by
then.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.deletes import orders, orders_table
from bench.spark import scratch
from snapshotter.core.rules.commit_interval import CommitInterval, Cost
from streaming.delta.local_checkpoints import free_checkpoint
from streaming.delta.row_writer import Known
from streaming.delta.state_merge import ranges_of
from streaming.delta.state_table import StateTable
from streaming.delta.table_properties import ANY, TableForm
from streaming.delta.upkeep_plan import COMMITS, Pace, Thresholds, due, next_look

SECONDS_A_COMMIT = 2
LIMITS = Thresholds(retention_hours=0)
DAY = 86_400
LANDINGS, UPKEEP, LOG, SUMS = "landings", "upkeep", "log", "checksums"
READERS = {
    "vectors": {"marks": (TableForm(), CommitInterval())},
    ANY: {
        "at once": (TableForm(vectors=False), CommitInterval(0.0)),
        "waits": (TableForm(vectors=False), CommitInterval()),
    },
}
"""How tables are made, and how soon commits follow each other, by what is asked for and what it is called."""


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
        """All that is due, as an engine does it beside landings."""
        upkeep, pace = self.table.upkeep, Pace()
        upkeep.own_checkpoints()
        while (look := upkeep.look(LIMITS)) is not None:
            step = due(look.files or (), LIMITS, pace.bytes_max, 0.0)
            if step is None or upkeep.rewrite(step) is None:
                break
        if look is not None and look.commits >= COMMITS:
            upkeep.checkpoint()
            upkeep.stand_upon_checkpoint()
        self.look(UPKEEP)


def measure(
    spark: SparkSession,
    folder: Path,
    rows: int,
    rate: int,
    commits: int,
    form: TableForm,
    interval: CommitInterval,
) -> str:
    """A row of the table that is printed."""
    watched = Watched(orders_table(spark, folder, rows, max(1, rows // 250_000), form=form))
    look = watched.table.upkeep.look(LIMITS)
    assert look is not None
    row_bytes, changed, least, apart = look.size_bytes / rows, 0, SECONDS_A_COMMIT, list[float]()
    looks = round(next_look(1, SECONDS_A_COMMIT, LIMITS, marks=form.vectors) / SECONDS_A_COMMIT)
    watched.look(None)
    for number in range(1, commits + 1):
        apart.append(least)
        changes = min(rows, round(rate * least))
        changed += changes
        ids = spark.range(number % (rows // changes), rows, rows // changes).coalesce(1).limit(changes)
        source = orders(ids).withColumn("_op", F.lit("u")).localCheckpoint()
        known = Known(changes, distinct=True, held=True, deletes=0)
        ranges, begun = ranges_of(source), time.monotonic()
        landed = watched.table.land(
            source, batch_id=number, metadata={}, how="merge", key_ranges=ranges, known=known
        )
        took = time.monotonic() - begun if landed.copied_bytes else 0.0
        least = max(SECONDS_A_COMMIT, took, interval.after([Cost(landed.changed_bytes, landed.copied_bytes)]))
        free_checkpoint(source)
        watched.look(LANDINGS)
        if number % looks == 0:
            watched.keep()
    parts = [watched.written[by] for by in (LANDINGS, UPKEEP, LOG, SUMS)]
    a_day = sum(parts) / sum(apart) * DAY
    told = " | ".join(f"{part / (row_bytes * changed):,.1f}" for part in (*parts, sum(parts)))
    every = statistics.median(apart[-(commits // 2) :])
    return f"{every:,.0f} | {row_bytes:,.0f} | {told} | {a_day / 1e9:,.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 200_000, 2_000_000])
    parser.add_argument("--rates", type=int, nargs="+", default=[1, 200], help="changes a second")
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--reader", choices=list(READERS), default="vectors")
    given = parser.parse_args()
    with scratch("written") as (spark, folder):
        print(
            "| rows | changes/s | | each s | bytes a row | landings | upkeep | log | its checksums | all | GB a day |"
        )
        print("|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|")
        for rows, rate in product(given.rows, given.rates):
            for name, (form, interval) in READERS[given.reader].items():
                at = folder / f"{rows}-{rate}-{name}"
                told = measure(spark, at, rows, rate, given.commits, form, interval)
                print(f"| {rows:,} | {rate} | {name} | {told}", flush=True)
                shutil.rmtree(at)


if __name__ == "__main__":
    main()
