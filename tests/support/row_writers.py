"""A table, and one of the ways to write rows by key into it: what conformance tests of them work with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streaming.delta import state_merge
from streaming.delta.comparison import Found, ReadFiles, Reads
from streaming.delta.delta_log import TableLog, active
from streaming.delta.file_keys import FileKeys
from streaming.delta.further_columns import FurtherColumns
from streaming.delta.further_values import Further, SoftDeletes, with_fields
from streaming.delta.log_commits import Commit
from streaming.delta.new_files import MARKS, FileWriter, NewFile, discard_files, job_name
from streaming.delta.row_writer import Batch, Known, RowsInFiles, RowWriter, Source
from streaming.delta.state_merge import DeltaMerge
from streaming.delta.state_upsert import Upsert
from streaming.delta.table_folder import TableFolder
from streaming.delta.table_guard import TableGuard
from streaming.keys.ranges import Range, cover, key_ranges
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from streaming.namespaces import Namespace
from tests.support import tables
from tests.support.state_tables import columns_table, state_schema

PLAN = TablePlan((Column("n", Scalar("long")),))
SCHEMA = state_schema(PLAN)
COLLECTION = Namespace("shop", "orders")
Change = tuple[str, int | None, str]
"""Key, value, operation."""
Make = Callable[[SparkSession, str, SoftDeletes | None], RowWriter]


def _upserting(kind: type[Upsert], *, by_driver: bool = False) -> Make:
    def make(session: SparkSession, path: str, soft: SoftDeletes | None) -> RowWriter:
        guard = TableGuard(path, COLLECTION, TableLog(session, path), None)
        return kind(session, path, guard, soft=soft, kept=FileKeys() if by_driver else None)

    return make


class OfFiles(Upsert):
    """The same writer, whose READs lie in files of the table's folder."""


class InFiles(Upsert):
    """The same writer, whose merged rows lie in files of the table's folder."""


WRITERS: dict[str, Make] = {
    "merge, old rows marked": lambda session, path, soft: DeltaMerge(session, path, True, soft=soft),
    "merge, files rewritten": lambda session, path, soft: DeltaMerge(session, path, False, soft=soft),
    "upsert": _upserting(Upsert),
}
"""Those that keep rows of deleted documents, where that is wanted."""
ALL_WRITERS: dict[str, Make] = {
    **WRITERS,
    "upsert, rows are files": _upserting(InFiles),
    "upsert, rows are files, old ones found by the driver": _upserting(InFiles, by_driver=True),
}
"""And those that do not: of rows in files only the keys are known."""
READERS: dict[str, Make] = {
    **ALL_WRITERS,
    "upsert, READs are files": _upserting(OfFiles),
    "upsert, READs are files, old rows marked by the driver": _upserting(OfFiles, by_driver=True),
}
"""For what is said of READs."""


@dataclass
class Bench:
    """A table, and one of the writers at work on it; with ``soft`` the rows of deleted documents stay. Changes are of
    the cluster time ``now``."""

    spark: SparkSession
    path: Path
    make: Make
    soft: bool = False
    now: int = 1

    def __post_init__(self) -> None:
        further = FurtherColumns(soft=self.soft)
        columns_table(self.spark, str(self.path), COLLECTION, "e", further=further).create(PLAN)
        self.session = state_merge.landing_session(self.spark, {})
        self.log = TableLog(self.session, str(self.path))
        self.further = Further(COLLECTION, further)
        self.schema = with_fields(SCHEMA, further.wanted)
        soft = self.further.soft_deletes(self.schema, None) if self.soft else None
        self.writer = self.make(self.session, str(self.path), soft)

    def frame(self, changes: Iterable[Change]) -> DataFrame:
        rows = [(key, n, None, self.now, None, op) for key, n, op in changes]
        return self.further.filled(self.spark.createDataFrame(rows, SCHEMA), self.schema).coalesce(1)

    def source(
        self, changes: Sequence[Change], ranges: Sequence[Range] | None = None, *, distinct: bool = True
    ) -> Source:
        deletes = sum(op == "d" for _, _, op in changes)
        known = Known(len(changes), distinct=distinct, held=True, deletes=deletes)
        return Source(self.frame(changes), ranges or key_ranges(key for key, _, _ in changes), known)

    def write(self, batch: int, *changes: Change, how: str = "merge", **given: Any) -> Commit | None:
        """The commit that it made, if it made one."""
        self.write_source(batch, self.source(changes, **given), how)
        return self.newest()

    def write_source(self, batch: int, source: Source, how: str = "merge") -> None:
        mark = Batch("e", batch, f'{{"batch": {batch}}}')
        if isinstance(self.writer, InFiles) and how == "merge":
            assert source.frame is not None
            source = replace(source, rows=self.in_files(source.frame))
        with active(self.session), state_merge.transaction(self.session, "e", batch, mark.user_metadata):
            (self.writer.append if how == "append" else self.writer.merge)(source, mark)

    def read(
        self,
        batch: int,
        *reads: tuple[str, int | None],
        beside: Sequence[Change] = (),
        rewrite: bool = False,
        theirs: bool = False,
    ) -> Found:
        """Merge READs, and other rows ``beside`` them. ``theirs``: the table has a column that is not ours."""
        changes: list[Change] = [(key, n, "r") for key, n in reads]
        whole = self.source([*changes, *beside])
        rows = self.frame(beside) if beside else None
        known = replace(whole.known, deletes=sum(op == "d" for _, _, op in beside))
        held: Reads | ReadFiles
        ranges = whole.ranges
        if isinstance(self.writer, OfFiles):
            file = self.file(reads)
            held = ReadFiles([file], COLUMNS.arrow_schema(PLAN), SCHEMA, rewrite)
            ranges = cover([*(ranges or ()), (file.low, file.high)])
        else:
            read = self.frame(changes)
            read = read.withColumn("theirs", F.lit(None).cast("string")) if theirs else read
            held = Reads(read, SCHEMA, rewrite)
        source = Source(rows, ranges, known, held)
        mark = Batch("e", batch, f'{{"batch": {batch}}}')
        with active(self.session), state_merge.transaction(self.session, "e", batch, mark.user_metadata):
            found = self.writer.merge(source, mark)
        if isinstance(self.writer, OfFiles):  # as whoever has read it does
            unnamed = {file.name} - (self.writer.named or set())
            discard_files(TableFolder.on_disk(str(self.path)), unnamed)
        return found

    def file(self, reads: Sequence[tuple[str, int | None]]) -> NewFile:
        """READs, in a file of the table's folder."""
        keys, numbers = zip(*sorted(reads), strict=True)
        schema = COLUMNS.arrow_schema(PLAN)
        columns = (keys, numbers, [None] * len(keys))
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        writer = FileWriter(TableFolder.on_disk(str(self.path)), schema, job_name(), 1, self.now)
        writer.add(pa.RecordBatch.from_arrays(arrays, schema=schema))
        made = writer.close()
        assert made is not None
        return made

    def in_files(self, rows: DataFrame) -> RowsInFiles:
        """These rows, but for deletes, in a file of the table's folder."""
        return in_files(self.path, rows, PLAN, told=cast(Upsert, self.writer).kept is not None)

    def files(self) -> set[str]:
        """The data files on the disk, those of deletion vectors too."""
        return {file.name for file in self.path.iterdir() if file.is_file() and file.name[0] not in "._"}

    def newest(self) -> Commit | None:
        newest = self.log.newest()
        assert newest is not None
        return self.log.commits.one(newest.version)

    def version(self) -> int:
        newest = self.log.newest()
        assert newest is not None
        return newest.version

    def rows(self) -> list[tuple[str, int]]:
        """As a reader sees them that knows nothing of Spark."""
        return sorted((row["_key"], row["n"]) for row in tables.rows(self.path, "_key, n"))

    def marked(self) -> dict[str, tuple[int | None, bool | None, int, str]]:
        """Of each key what its row holds: value, mark, time, operation."""
        found = tables.rows(self.path, "_key, n, _deleted, _cluster_time, _op")
        assert len({row["_key"] for row in found}) == len(found), "a key has two rows"
        return {r["_key"]: (r["n"], r["_deleted"], r["_cluster_time"], r["_op"]) for r in found}

    def at(self, now: int) -> Bench:
        self.now = now
        return self


def counts(commit: Commit | None) -> tuple[int, int, int]:
    """Inserted, updated, deleted."""
    assert commit is not None
    names = "numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"
    inserted, updated, deleted = map(commit.count, names)
    return inserted, updated, deleted


def in_files(path: Path, rows: DataFrame, plan: TablePlan, *, told: bool = True) -> RowsInFiles:
    """Streamed rows, but for deletes, in a file of a table's folder; ``told``: the driver has their keys."""
    found = rows.where("_op <> 'd'").toArrow().cast(pa.schema([*COLUMNS.arrow_schema(plan), *MARKS]))
    writer = FileWriter(TableFolder.on_disk(str(path)), found.schema, job_name(), 0)
    for batch in found.to_batches():
        writer.add(batch)
    made = writer.close()
    keys = rows.select("_key", "_op")
    files = () if made is None else (made,)
    return RowsInFiles(keys, files, state_schema(plan), keys.toArrow() if told else None)
