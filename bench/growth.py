"""What a month does to a table: whether a commit takes longer with more rows, more files, a longer log.

    python -m bench.growth [--rows 100000 400000] [--batches 10000 200] [--rounds 6]
                           [--commits 60] [--actions 600] [--looks 15] [--log 0] [--removed 0 10000 110000]
                           [--busy] [--output FILE]

    batches   into a table of so many rows batches of each size, whose keys lie all over it; seconds of a landing
    commits   so many batches of the smallest size in a row, into the largest table, with upkeep between them
    actions   so many commits that carry file actions alone: of each a file of a few new rows is written beforehand, and
              the commit adds it, so that no Spark job is in it; made as fast as they go, with upkeep
    removed   a checkpoint of the log that remembers so many removed files (each landing removes one for each file in
              which it marks rows): the median of three, and its size

A day of one commit each two seconds is ``--actions 43200``. The engine looks at a table each half minute (and sooner
where landings mark rows in small files), so upkeep has its turn behind every ``--looks`` commits; ``--log`` so many
files of older versions lie in the log's folder, as days of commits leave them (four a commit on a local disk), before
the actions begin. The first look of upkeep lists them, once, to let go of what is too old; what it takes is not in the
seconds of a commit. JSON lines (`bench.lines`): a tenth of the commits each, with the median and the 99th percentile,
files and what lies in the log's folder at the end, and peak memory of the JVM and of this process. Flat is what is
wanted. No MongoDB, no decoding.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.deletes import orders, orders_table
from bench.lines import Tell, about_run, add_options, telling
from bench.spark import scratch
from streaming.delta.local_checkpoints import free_checkpoint
from streaming.delta.new_files import FileWriter, job_name
from streaming.delta.row_writer import Known
from streaming.delta.state_merge import ranges_of
from streaming.delta.state_table import StateTable
from streaming.delta.table_folder import TableFolder
from streaming.delta.upkeep_plan import Kind, Pace, Thresholds, checkpoint_due, due
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from streaming.namespaces import Namespace

LIMITS = Thresholds()
FILE_ROWS, ROWS_A_FILE = 5, 250_000
_PARTS = 10
_CHECKPOINTS = 3
_SECONDS = 2.0
"""What lies between two commits of a day: checkpoints are written by that clock, as they would be."""
_PLAN = TablePlan((Column("n", Scalar("long")),))
_TIME = 1_700_000_000 << 32


@dataclass(slots=True)
class Grown:
    """A table that commits are made in, and what they took. Its upkeep has its turn behind every ``looks`` of them.
    ``checkpoint``: behind which commit the newest was written, in so many seconds."""

    table: StateTable
    looks: int
    seconds: list[float] = field(default_factory=list)
    batch: int = 0
    pace: Pace = field(default_factory=Pace)
    kept: dict[str, int] = field(default_factory=dict)
    kept_seconds: float = 0.0
    vacuumed: float | None = None
    checkpoint: tuple[int, float] = 0, 0.0

    def timed(self, commit: Callable[[int], object]) -> None:
        """Make one, and upkeep where that is its turn."""
        self.batch += 1
        began = time.perf_counter()
        commit(self.batch)
        self.seconds.append(time.perf_counter() - began)
        if self.batch % self.looks == 0:
            began = time.perf_counter()
            self.keep()
            self.kept_seconds += time.perf_counter() - began

    def keep(self) -> None:
        """As the engine does it (`snapshotter.engine.upkeep`), one step after the other without its pauses."""
        upkeep, done = self.table.upkeep, True
        while done:
            upkeep.own_checkpoints()
            look = upkeep.look(LIMITS)
            assert look is not None
            behind, took = self.checkpoint
            if checkpoint_due(look.commits, _SECONDS * (self.batch - behind), took):
                began = time.monotonic()
                upkeep.checkpoint()
                self.checkpoint = self.batch, time.monotonic() - began
                upkeep.stand_upon_checkpoint()
                self._note("checkpoint")
            ago = None if self.vacuumed is None else time.monotonic() - self.vacuumed
            step = due(look.files or (), LIMITS, self.pace.bytes_max, ago)
            done = step is not None
            if step is None:
                return
            self._note(step.kind.value)
            if step.kind is Kind.VACUUM:
                self.vacuumed = time.monotonic()
                upkeep.vacuum(LIMITS.retention_hours)
                continue
            began = time.monotonic()
            rewritten = upkeep.rewrite(step)
            assert rewritten is not None, "nobody else commits here"
            self.pace = self.pace.after(rewritten.size_bytes, time.monotonic() - began)

    def told(self, newest: int) -> dict[str, Any]:
        """The figures of the newest so many commits, and of the table now."""
        some = sorted(self.seconds[-newest:])
        look = self.table.upkeep.look(LIMITS)
        assert look is not None
        log = Path(self.table.path) / "_delta_log"
        return {
            "commits": len(self.seconds),
            "p50": round(statistics.median(some), 3),
            "p99": round(some[min(len(some) - 1, len(some) * 99 // 100)], 3),
            "files": look.count,
            "mb": round(look.size_bytes / 1e6, 1),
            "behind_checkpoint": look.commits,
            "log_files": sum(1 for _ in log.iterdir()),
            "upkeep": dict(self.kept),
            "upkeep_seconds": round(self.kept_seconds, 1),
            **memory(),
        }

    def _note(self, what: str) -> None:
        self.kept[what] = self.kept.get(what, 0) + 1


def memory() -> dict[str, int]:
    """Peak resident memory so far, in MB, of the JVM and of this process."""
    found = {"python_mb": _peak_mb(psutil.Process())}
    for child in psutil.Process().children(recursive=True):
        if child.name() == "java":
            found["jvm_mb"] = _peak_mb(child)
    return found


def _peak_mb(process: psutil.Process) -> int:
    lines = Path(f"/proc/{process.pid}/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))


def filled(spark: SparkSession, folder: Path, rows: int, looks: int) -> Grown:
    """A table of so many orders, in files in the order of their keys."""
    return Grown(orders_table(spark, folder, rows, max(1, rows // ROWS_A_FILE)), looks)


def updates(spark: SparkSession, rows: int, size: int, number: int) -> DataFrame:
    """A batch of so many keys, all over a table of ``rows``."""
    ids = spark.range(number, rows, max(1, rows // size)).coalesce(2)
    return orders(ids).withColumn("_op", F.lit("u")).limit(size).localCheckpoint()


def land(grown: Grown, source: DataFrame, size: int) -> None:
    known, ranges = Known(size, distinct=True, held=True, deletes=0), ranges_of(source)
    grown.timed(
        lambda number: grown.table.land(
            source, batch_id=number, metadata={}, how="merge", key_ranges=ranges, known=known
        )
    )
    free_checkpoint(source)


def in_parts(count: int) -> Iterator[tuple[int, int]]:
    """The numbers of a tenth of them each: the first, and how many."""
    size = max(1, count // _PARTS)
    for first in range(0, count, size):
        yield first, min(size, count - first)


def of_batches(spark: SparkSession, folder: Path, asked: argparse.Namespace, tell: Tell) -> None:
    """Into tables of each size batches of each size. The first round warms up."""
    for rows in asked.rows:
        grown = filled(spark, folder / f"rows{rows}", rows, asked.looks)
        for size in asked.batches:
            for number in range(asked.rounds + 1):
                land(grown, updates(spark, rows, size, number), size)
            tell(part="batches", rows=rows, batch=size, **grown.told(asked.rounds))
        shutil.rmtree(grown.table.path)


def of_commits(spark: SparkSession, folder: Path, asked: argparse.Namespace, tell: Tell) -> None:
    """One behind the other, into the largest table."""
    rows, size = max(asked.rows), min(asked.batches)
    grown = filled(spark, folder / "commits", rows, asked.looks)
    for first, count in in_parts(asked.commits):
        for number in range(first, first + count):
            land(grown, updates(spark, rows, size, number), size)
        tell(part="commits", rows=rows, batch=size, **grown.told(count))


def in_a_file(
    folder: TableFolder, schema: pa.Schema, number: int, columns: Sequence[Sequence[Any]]
) -> dict[str, Any]:
    """Write new rows as a worker does, and say what is given to the landing that adds them."""
    writer = FileWriter(folder, schema, job_name(), number, _TIME)
    arrays = [pa.array(some, of.type) for some, of in zip(columns, schema, strict=True)]
    writer.add(pa.RecordBatch.from_arrays(arrays, schema=schema))
    file = writer.close()
    assert file is not None
    return {"how": "append", "key_ranges": [(file.low, file.high)], "new": [file]}


def empty(spark: SparkSession, folder: Path, name: str) -> StateTable:
    """A new table of one column beside ours."""
    table = StateTable(COLUMNS, spark, str(folder / name), Namespace("bench", name), "bench")
    table.create(_PLAN)
    return table


def of_actions(spark: SparkSession, folder: Path, asked: argparse.Namespace, tell: Tell) -> None:
    """Each adds a file of a few new rows."""
    table = empty(spark, folder, "actions")
    grown, into, schema = Grown(table, asked.looks), table.folder(), COLUMNS.arrow_schema(_PLAN)
    for number in range(asked.log):
        (Path(table.path) / "_delta_log" / f"{0:020}.{number}.json").touch()
    for first, count in in_parts(asked.actions):
        for number in range(first, first + count):
            keys = [f"{number:09}-{row}" for row in range(FILE_ROWS)]
            given = in_a_file(into, schema, number, [keys, list(range(FILE_ROWS)), [None] * FILE_ROWS])
            grown.timed(lambda batch, given=given: table.land(None, batch_id=batch, metadata={}, **given))
        tell(part="actions", **grown.told(count))


def of_removed(spark: SparkSession, folder: Path, asked: argparse.Namespace, tell: Tell) -> None:
    """Removed by commits that are written by hand, of files that the table never had."""
    table = empty(spark, folder, "removed")
    log, there = Path(table.path) / "_delta_log", 0
    for count in sorted(asked.removed):
        commit_by_hand(table, [removed_file(number) for number in range(count - there)])
        there, seconds = count, []
        for _ in range(_CHECKPOINTS):
            commit_by_hand(table, [])
            began = time.perf_counter()
            table.upkeep.checkpoint()
            table.upkeep.stand_upon_checkpoint()
            seconds.append(time.perf_counter() - began)
        newest = max(log.glob("*.checkpoint.parquet"))
        tell(
            part="removed",
            files=count,
            p50=round(statistics.median(seconds), 2),
            mb=round(newest.stat().st_size / 1e6, 1),
            **memory(),
        )


def commit_by_hand(table: StateTable, actions: Sequence[dict[str, Any]]) -> None:
    info = {"commitInfo": {"timestamp": int(time.time() * 1_000), "operation": "WRITE"}}
    path = Path(table.path) / "_delta_log" / f"{table.version() + 1:020}.json"
    path.write_text("\n".join(map(json.dumps, [info, *actions])), encoding="utf-8")
    table.version()


def removed_file(number: int) -> dict[str, Any]:
    """With a deletion vector, as a landing removes it that marks more of its rows."""
    marked = {
        "storageType": "u",
        "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
        "offset": 1,
        "sizeInBytes": 36,
        "cardinality": 2,
    }
    return {
        "remove": {
            "path": f"part-{number:05}-{uuid.uuid4()}-c000.snappy.parquet",
            "deletionTimestamp": int(time.time() * 1_000),
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": 1_000_000,
            "deletionVector": marked,
        }
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 400_000])
    parser.add_argument("--batches", type=int, nargs="+", default=[10_000, 200])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--actions", type=int, default=600)
    parser.add_argument("--looks", type=int, default=15)
    parser.add_argument("--log", type=int, default=0)
    parser.add_argument("--removed", type=int, nargs="*", default=[0, 10_000, 110_000])
    add_options(parser)
    asked = parser.parse_args()
    with telling(about_run(asked), asked.output) as tell, scratch("growth") as (spark, folder):
        for part in (of_batches, of_commits, of_actions, of_removed):
            part(spark, folder, asked, tell)


if __name__ == "__main__":
    main()
