"""Landings of generated histories, batch after batch, held against the rule in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from snapshotter.core.rules.streamed_keys import StreamedKeys
from snapshotter.core.values.effects import Closing
from snapshotter.core.values.namespace_changes import superseded
from snapshotter.core.values.window import WindowId
from snapshotter.landing.tables import OpenTable
from snapshotter.landing.targets.state_rows import land_table
from snapshotter.landing.targets.target import CollectionContents, Identity, LandedCollection
from snapshotter.reading.read_buffer import Buffer, Trailer
from streaming.delta.further_columns import FurtherColumns
from streaming.delta.local_checkpoints import held
from streaming.delta.new_files import FileWriter, job_name
from streaming.delta.table_folder import TableFolder
from streaming.layouts.columns.decoder import Decoder
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.observe import observe
from streaming.layouts.columns.plan import TablePlan
from streaming.positions import ClusterTime
from tests.support import tables
from tests.support.changes import EVENT_SCHEMA
from tests.support.commit_rule import (
    CommitRow,
    Missing,
    Read,
    Reconciling,
    StreamedEvent,
    commit_rows,
)
from tests.support.histories import COLLECTION, Change, Document, History, PlannedWindow
from tests.support.state_tables import columns_table

Rows = dict[str, tuple[Any, int]]


def event_rows(spark: SparkSession, changes: Sequence[Change]) -> DataFrame:
    """As the source gives them."""
    wall = datetime(2024, 6, 1, tzinfo=UTC)
    rows = [
        {
            "_key": change.key,
            "op": change.op,
            "document": bson.encode(change.content) if change.content is not None else None,
            "cluster_time": change.time.to_int(),
            "wall_time": wall,
            "ord": change.ord,
        }
        for change in changes
    ]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=EVENT_SCHEMA)).coalesce(1)


def split_rows(spark: SparkSession, changes: Sequence[Change], splits: int) -> DataFrame:
    """The same as the source gives them when it reads a batch in splits: a partition each, one after the other."""
    step = len(changes) // splits + 1
    frame = event_rows(spark, changes[:step])
    for at in range(step, len(changes), step):
        frame = frame.union(event_rows(spark, changes[at : at + step]))
    return frame


def buffer_of(
    spark: SparkSession,
    plan: TablePlan,
    planned: Sequence[PlannedWindow],
    shard_key: Sequence[str] = (),
    folder: TableFolder | None = None,
) -> Buffer:
    """The READs of windows that one job has read under ``plan``, one partition's trailer each; in files of the
    ``folder``, if there is one."""
    parts, trailers = [], []
    for window in planned:
        number = window.window.id.number
        documents = [window.found[key] for key in sorted(window.found)]
        decoded = Decoder(plan, shard_key).decode(b"".join(map(bson.encode, documents)))
        numbers = pa.array([number] * decoded.batch.num_rows, pa.int32())
        part = pa.Table.from_batches([decoded.batch]).append_column("_window", numbers)
        parts.append(part.append_column("_trailer", pa.nulls(decoded.batch.num_rows, pa.string())))
        keys = sorted(window.found)
        file = None
        if folder is not None:
            columns = COLUMNS.arrow_schema(plan)
            writer = FileWriter(folder, columns, job_name(), number, window.stamp.to_int())
            writer.add(decoded.batch)
            file = writer.close()
        trailers.append(
            Trailer(
                number=number,
                rows=len(keys),
                size_bytes=0,
                ended=window.window.low,
                min_key=keys[0] if keys else None,
                max_key=keys[-1] if keys else None,
                unique=decoded.keys_sorted,
                unknown=decoded.unknown,
                signed=None,
                file=file,
            )
        )
    if folder is not None:
        frame = held(spark.createDataFrame([], "_key string, _window int, _trailer string"))
        return Buffer(frame, COLUMNS, plan, tuple(trailers), folder)
    rows = pa.concat_tables(parts).combine_chunks()  # PySpark drops rows behind an empty chunk
    return Buffer(spark.createDataFrame(rows), COLUMNS, plan, tuple(trailers))


class Landings:
    """One table, landed batch after batch, as an engine does it. Where it is no first load, as a large one is.
    ``size_bytes``: each batch is taken for one of so many. ``soft``: the rows of deleted documents stay. ``files``:
    READs, and rows of events, lie in files of the table's folder; ``event_files``: these do, or do not, whatever the
    others do."""

    def __init__(
        self,
        spark: SparkSession,
        path: Path,
        *,
        first_load: bool,
        splits: int = 1,
        size_bytes: int = 0,
        reconcile: bool = False,
        shard_key: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        soft: bool = False,
        files: bool = False,
        event_files: bool | None = None,
    ) -> None:
        self.spark = spark
        where = TableFolder.on_disk(str(path))
        self.folder = where if files else None
        self.event_folder = where if (files if event_files is None else event_files) else None
        self.soft = soft
        self.reconcile = reconcile
        self.shard_key = shard_key
        self.splits = splits
        self.size_bytes = size_bytes
        self.path = path
        self.first_load = first_load
        self.further = FurtherColumns(soft=soft)
        table = columns_table(
            spark, str(path), COLLECTION, "snapshotter:test:1", settings, further=self.further
        )
        self.opened = OpenTable(table, None)
        self.opened.grow(observe(bson.encode({"_id": 1, "v": 1})))
        self.buffers: dict[WindowId, Buffer] = {}
        self.keys: StreamedKeys[pa.Table] = StreamedKeys()

    def hold(self, documents: Mapping[str, Document]) -> None:
        """The table holds these rows, by key, which an engine with another checkpoint left there."""
        changes = [
            Change(key, "c", ClusterTime(1, n), n, document)
            for n, (key, document) in enumerate(documents.items())
        ]
        app_id = "snapshotter:test:0"
        earlier = columns_table(self.spark, str(self.path), COLLECTION, app_id, further=self.further)
        batch = CollectionContents(COLLECTION, event_rows(self.spark, changes))
        land_table(self.spark, OpenTable(earlier, earlier.open()), batch, Identity(0, {"batch": 0}))
        self.opened.plan = self.opened.table.open()

    def open(self, planned: Sequence[PlannedWindow]) -> None:
        """The windows are read now, by one job, under the table's plan of now."""
        if planned:
            plan = self.opened.grow(TablePlan())
            buffer = buffer_of(self.spark, plan, planned, self.shard_key, self.folder)
            self.buffers |= {window.window.id: buffer for window in planned}
            for window in planned:
                buffer.hold(window.window.id)

    def land(self, history: History, batch: int) -> LandedCollection:
        closing = history.closing_in(batch)
        proven = self.first_load
        closings = tuple(
            Closing(
                p.window,
                p.window.low,
                proven,
                superseded(p.window.low, history.truncated_by(batch)),
                self.reconcile,
            )
            for p in closing
        )
        changes = self.reached(history, batch)
        truncated = history.truncated.get(batch)
        landed = land_table(
            self.spark,
            self.opened,
            CollectionContents(
                namespace=COLLECTION,
                events=split_rows(self.spark, changes, self.splits) if changes or truncated else None,
                closings=closings,
                buffers=self.buffers,
                streamed=tuple(self.keys.of(COLLECTION)) if closing else (),
                truncated=truncated,
                splits=self.splits,
                size_bytes=self.size_bytes,
            ),
            Identity(batch, {"batch": batch}),
            folder=self.event_folder,
        )
        self.keys.keep(COLLECTION, batch, history.ends[batch], landed.keys)
        for planned in closing if self.folder is not None else ():
            self.buffers[planned.window.id].release(planned.window.id)
        waiting = [p.window.floor for p in history.windows if p.opens <= batch < p.closes]
        self.keys.forget({COLLECTION: min(waiting)} if waiting else {})
        return landed

    def landing_changes(self, history: History, batch: int) -> list[Change]:
        """What came before a drop does not land, nor, in a first load, events of keys that no window has reached."""
        changes = self.reached(history, batch)
        if batch in history.truncated:
            changes = [change for change in changes if change.ord > history.truncated[batch].ord]
        return changes

    def reached(self, history: History, batch: int) -> list[Change]:
        """Those of a batch without the latter."""
        changes = history.batches[batch]
        if not self.first_load:
            return changes
        ahead = [p.window for p in history.windows if p.opens >= batch]
        return [c for c in changes if not any(window.target.holds(c.key) for window in ahead)]

    def left_over(self) -> set[str]:
        """Files of READs and events that no version has named."""
        written = [*self.path.glob("reads-*"), *self.path.glob("events-*")]
        return {file.name for file in written} - tables.added(self.path).keys()

    def rows(self) -> Rows:
        """The live ones."""
        return {row["_key"]: (row["v"], row["_cluster_time"]) for row in self._found(deleted=False)}

    def deleted(self) -> dict[str, Any]:
        """What the rows of deleted documents keep."""
        return {row["_key"]: row["v"] for row in self._found(deleted=True)}

    def _found(self, *, deleted: bool) -> list[dict[str, Any]]:
        found = tables.rows(self.path, f"_key, v, _cluster_time, _op{', _deleted' if self.soft else ''}")
        assert len({row["_key"] for row in found}) == len(found), "a key has two rows"
        if self.soft:
            assert all(row["_deleted"] is (row["_op"] == "d") for row in found)
        return [row for row in found if (row["_op"] == "d") is deleted]


def apply(rows: Rows, commit: Mapping[str, CommitRow]) -> None:
    """What a MERGE of these rows makes of a table."""
    for key, row in commit.items():
        document: Any = row.content
        if document is None:
            rows.pop(key, None)
        else:
            time = row.time if isinstance(row, StreamedEvent) else row.low
            rows[key] = (document["v"], time.to_int())


def _equals(rows: Rows, row: CommitRow, document: object) -> bool:
    """Whether it is a READ of what the table holds already."""
    return isinstance(row, Read) and row.key in rows and row.content == document


def _stamped(
    expected: Rows, found: Rows, commit: Mapping[str, CommitRow], stamps: Iterable[ClusterTime]
) -> Rows:
    """READs that bear the time of their file (``stamps``), or, where files became one, the latest of theirs; those that
    are read from files as rows bear the low watermark all the same."""
    reads = [
        key for key, row in commit.items() if isinstance(row, Read) and key in expected.keys() & found.keys()
    ]
    times = {stamp.to_int() for stamp in stamps}
    later = {key: found[key] for key in reads if found[key][1] in times and found[key][1] > expected[key][1]}
    return {key: row for key, row in later.items() if row[0] == expected[key][0]}


def follow(landings: Landings, history: History) -> None:
    """Land all of it, and hold every version of the table against the plain rule."""
    expected = landings.rows()
    documents: dict[str, object] = {}
    kept: list[StreamedEvent] = []
    superseded_reads = deleted = 0
    gone: dict[str, Any] = {}
    for batch in range(len(history.batches)):
        before = dict(expected)
        closing = history.closing_in(batch)
        events = [change.streamed() for change in landings.landing_changes(history, batch)]
        reads = [read for planned in closing for read in planned.reads()]
        if batch in history.truncated:
            expected.clear()
        asked = [w for w in (p.window for p in closing) if landings.reconcile]
        commit = commit_rows(
            events,
            kept,
            reads,
            history.truncated_by(batch),
            table=expected,
            reconciling=[Reconciling(w.target, w.low, w.id.number) for w in asked],
            proven_new=landings.first_load and batch not in history.truncated,
        )
        equal = {k: expected[k] for k, row in commit.items() if _equals(expected, row, documents.get(k))}
        apply(expected, commit)
        landed = landings.land(history, batch)
        kept += events
        # A READ that equals its row is left alone, unless they lie in other columns: then it is written.
        found = landings.rows()
        unchanged = {key: row for key, row in equal.items() if found.get(key) == row}
        expected |= unchanged
        if landings.folder is not None:
            expected |= _stamped(expected, found, commit, [p.stamp for p in closing])
        assert found == expected
        gone |= {key: v for key, (v, _) in before.items()}
        gone = {key: v for key, v in gone.items() if key not in expected}
        assert landings.deleted() == (gone if landings.soft else {})
        assert sum(o.unchanged for o in landed.outcomes.values()) == len(unchanged)
        documents |= {key: row.content for key, row in commit.items()}
        survived = sum(isinstance(row, Read) for row in commit.values())
        assert sum(o.kept for o in landed.outcomes.values()) == survived
        assert sum(o.kept + o.superseded for o in landed.outcomes.values()) == len(reads)
        superseded_reads += len(reads) - survived
        for window, outcome in landed.outcomes.items():
            missing = [r for r in commit.values() if isinstance(r, Missing) and r.window == window.number]
            assert outcome.deleted == len(missing)
            deleted += len(missing)
        landings.open([p for p in history.windows if p.opens == batch])
    assert superseded_reads > 0, "the history never tried the rule"
    assert (deleted > 0) is landings.reconcile, "the history never tried the rule"
    whole: dict[str, Document] = history.last
    assert {key: v for key, (v, _) in expected.items()} == {key: d["v"] for key, d in whole.items()}
