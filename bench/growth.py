"""What a month does to a table: whether a commit takes longer with more rows, more files, a longer log.

    python -m bench.growth [--rows 100000 400000] [--batches 10000 200] [--rounds 6]
                           [--commits 60] [--files 200 2000] [--actions 600] [--looks 15] [--log 0]
                           [--removed 0 10000 110000] [--parts batches commits files actions removed]
                           [--busy] [--output FILE]

    batches   into a table of so many rows batches of each size, whose keys lie all over it; seconds of a landing
    commits   so many batches of the smallest size in a row, into the largest table, with upkeep between them
    files     batches of the smallest size into tables of so many files of a few rows, without upkeep: each key lies in
              a file of its own, which no batch has looked into before if there are enough; the driver finds it, as in
              an engine
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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.deletes import orders, orders_table
from bench.lines import Tell, about_run, add_options, telling
from bench.spark import scratch
from streaming.decode.streamed_rows import table_schema
from streaming.delta.local_checkpoints import free_checkpoint
from streaming.delta.new_files import MARKS, FileWriter, NewFile, job_name
from streaming.delta.row_writer import Known, RowsInFiles
from streaming.delta.state_merge import ranges_of
from streaming.delta.state_table import StateTable
from streaming.delta.table_folder import TableFolder
from streaming.delta.upkeep_plan import Kind, Pace, Thresholds, checkpoint_due, due
from streaming.keys.ranges import Range, key_ranges
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from streaming.namespaces import Namespace

LIMITS = Thresholds()
FILE_ROWS, ROWS_A_FILE = 5, 250_000
_PARTS = 10
_ADDED_AT_ONCE = 500
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

    def add(self, files: Sequence[NewFile]) -> None:
        """Of rows whose keys are new."""
        given = added(files)
        self.timed(lambda batch: self.table.land(None, batch_id=batch, metadata={}, **given))

    def merge(self, rows: DataFrame | RowsInFiles, size: int, ranges: Sequence[Range]) -> None:
        """Of so many keys, each once, which lie in these ``ranges``."""
        known = Known(size, distinct=True, held=True, deletes=0)
        given: dict[str, Any] = {"how": "merge", "key_ranges": ranges, "known": known}
        self.timed(lambda batch: self.table.land(rows, batch_id=batch, metadata={}, **given))

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
    grown.merge(source, size, ranges_of(source))
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
    folder: TableFolder,
    schema: pa.Schema,
    number: int,
    columns: Sequence[Sequence[Any]],
    time: int | None = _TIME,
) -> NewFile:
    """Write new rows as a worker does: READs, or (no ``time``) rows of events, which bear one each."""
    writer = FileWriter(folder, schema, job_name(), number, time)
    arrays = [pa.array(some, of.type) for some, of in zip(columns, schema, strict=True)]
    writer.add(pa.RecordBatch.from_arrays(arrays, schema=schema))
    file = writer.close()
    assert file is not None
    return file


def a_few_rows(folder: TableFolder, number: int, rows: int = FILE_ROWS) -> NewFile:
    """The file of this number, of a table of one column."""
    columns = [_key(number, row) for row in range(rows)], list(range(rows)), [None] * rows
    return in_a_file(folder, COLUMNS.arrow_schema(_PLAN), number, columns)


def added(files: Sequence[NewFile]) -> dict[str, Any]:
    """What is given to the landing that adds these."""
    return {"how": "append", "key_ranges": [(file.low, file.high) for file in files], "new": files}


def _key(file: int, row: int) -> str:
    return f"{file:09}-{row}"


def empty(spark: SparkSession, folder: Path, name: str) -> StateTable:
    """A new table of one column beside ours."""
    table = StateTable(COLUMNS, spark, str(folder / name), Namespace("bench", name), "bench")
    table.create(_PLAN)
    return table


def of_files(spark: SparkSession, folder: Path, asked: argparse.Namespace, tell: Tell) -> None:
    """Into tables of so many, whose log has its checkpoint. Each round takes rows that no other round has, one of a
    file, and other files than the round before where there are enough: then none has been looked into."""
    size = min(asked.batches)
    for count in sorted(asked.files):
        table = empty(spark, folder, f"files{count}")
        grown, into = Grown(table, 1 << 30), table.folder()
        for first in range(0, count, _ADDED_AT_ONCE):
            numbers = range(first, min(count, first + _ADDED_AT_ONCE))
            grown.add([a_few_rows(into, number, asked.rounds + 1) for number in numbers])
        table.upkeep.checkpoint()
        table.upkeep.stand_upon_checkpoint()
        step = max(1, count // size)
        for number in range(asked.rounds + 1):  # the first one warms up
            keys = [_key(file, number) for file in range(number % step, count, step)][:size]
            grown.merge(changes(spark, into, keys), len(keys), key_ranges(keys))
        tell(part="files", batch=len(keys), **grown.told(asked.rounds))
        shutil.rmtree(table.path)


def changes(spark: SparkSession, folder: TableFolder, keys: Sequence[str]) -> RowsInFiles:
    """Updates of these keys, as an engine has them that streams."""
    schema = pa.schema([*COLUMNS.arrow_schema(_PLAN), *MARKS])
    count, at = len(keys), datetime.fromtimestamp(_TIME >> 32, UTC)
    columns = [keys, range(count), [None] * count, [_TIME + 1] * count, [at] * count, ["u"] * count]
    file = in_a_file(folder, schema, 0, columns, None)
    told = pa.table({"_key": pa.array(keys, pa.string()), "_op": pa.array(["u"] * count, pa.string())})
    return RowsInFiles(spark.createDataFrame(told), [file], table_schema(COLUMNS, _PLAN), told)


def of_actions(spark: SparkSession, folder: Path, asked: argparse.Namespace, tell: Tell) -> None:
    """Each adds a file of a few new rows."""
    table = empty(spark, folder, "actions")
    grown, into = Grown(table, asked.looks), table.folder()
    for number in range(asked.log):
        (Path(table.path) / "_delta_log" / f"{0:020}.{number}.json").touch()
    for first, count in in_parts(asked.actions):
        for number in range(first, first + count):
            grown.add([a_few_rows(into, number)])
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


PARTS = {
    "batches": of_batches,
    "commits": of_commits,
    "files": of_files,
    "actions": of_actions,
    "removed": of_removed,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 400_000])
    parser.add_argument("--batches", type=int, nargs="+", default=[10_000, 200])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--files", type=int, nargs="*", default=[200, 2_000])
    parser.add_argument("--actions", type=int, default=600)
    parser.add_argument("--looks", type=int, default=15)
    parser.add_argument("--log", type=int, default=0)
    parser.add_argument("--removed", type=int, nargs="*", default=[0, 10_000, 110_000])
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    add_options(parser)
    asked = parser.parse_args()
    with telling(about_run(asked), asked.output) as tell, scratch("growth") as (spark, folder):
        for part in asked.parts:
            PARTS[part](spark, folder, asked, tell)


if __name__ == "__main__":
    main()
