"""What upkeep costs, and what it spares: ``python -m bench.upkeep``.

Two tables of the same orders get the same batches by turns in one JVM, each batch a few keys all over the table, as a
stream of updates brings them. One of them is kept in order as the engine does it, behind each landing. Seconds of a
landing (the medians of the first and of the last ones), files at the end, and bytes written. Compare ratios. Nothing
but the landing and the upkeep is timed: no MongoDB, no decoding.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.deletes import orders, orders_table
from bench.spark import scratch
from streaming.delta.local_checkpoints import free_checkpoint
from streaming.delta.row_writer import Known
from streaming.delta.state_merge import ranges_of
from streaming.delta.state_table import StateTable
from streaming.delta.upkeep_plan import Kind, Pace, Thresholds, due

ROWS, FILES, BATCH, ROUNDS, SHOWN = 200_000, 4, 200, 40, 6
CHECKPOINT = 10
"""Delta writes a checkpoint of the log in each commit whose version this divides."""
LIMITS = Thresholds(retention_hours=0)


@dataclass(slots=True)
class Kept:
    """A table, and what was measured of it."""

    table: StateTable
    in_order: bool
    landings: list[float] = field(default_factory=list)
    of_checkpoints: list[float] = field(default_factory=list)
    steps: list[tuple[Kind, float]] = field(default_factory=list)
    pace: Pace = field(default_factory=Pace)

    def land(self, source: DataFrame, number: int, ranges: Sequence[tuple[str, str]]) -> None:
        began = time.monotonic()
        known = Known(BATCH, distinct=True, held=True, deletes=0)
        self.table.land(source, batch_id=number, metadata={}, how="merge", key_ranges=ranges, known=known)
        self.landings.append(time.monotonic() - began)
        if self.table.version() % CHECKPOINT == 0:
            self.of_checkpoints.append(self.landings[-1])

    def keep(self) -> None:
        """What is due, if anything."""
        began = time.monotonic()
        look = self.table.upkeep.look(LIMITS)
        assert look is not None
        step = due(look.files or (), LIMITS, self.pace.bytes_max, 0.0)
        if step is not None:
            done = self.table.upkeep.rewrite(step)
            assert done is not None
            took = time.monotonic() - began
            self.pace = self.pace.after(done.size_bytes, took)
            self.steps.append((step.kind, took))

    def told(self) -> str:
        files = Path(self.table.path).glob("*.parquet")
        written = sum(path.stat().st_size for path in files)
        with_checkpoint = statistics.median(self.of_checkpoints)
        first, last = (
            statistics.median(some) for some in (self.landings[1 : SHOWN + 1], self.landings[-SHOWN:])
        )
        look = self.table.upkeep.look(LIMITS)
        assert look is not None
        steps = ", ".join(f"{kind} {took:.1f} s" for kind, took in self.steps)
        return (
            f"landings {first:.2f} s, at last {last:.2f} s (with a checkpoint of the log {with_checkpoint:.2f} s); "
            f"{look.count} files of {look.size_bytes / 1e6:.1f} MB, "
            f"{look.marked:,} rows marked; written {written / 1e6:.1f} MB; upkeep: {steps or 'none'}"
        )


def main() -> None:
    with scratch("upkeep") as (spark, folder):
        tables = []
        for name, in_order in (("alone", False), ("kept", True)):
            tables.append(Kept(orders_table(spark, folder / name, ROWS, FILES), in_order))
        for number in range(1, ROUNDS + 1):
            ids = spark.range(number, ROWS, ROWS // BATCH).coalesce(1)
            source = orders(ids).withColumn("_op", F.lit("u")).limit(BATCH).localCheckpoint()
            ranges = ranges_of(source)
            for kept in tables if number % 2 else tables[::-1]:
                kept.land(source, number, ranges)
                if kept.in_order:
                    kept.keep()
            free_checkpoint(source)
        for kept in tables:
            print(f"{'kept in order' if kept.in_order else 'left alone'}: {kept.told()}", flush=True)


if __name__ == "__main__":
    main()
