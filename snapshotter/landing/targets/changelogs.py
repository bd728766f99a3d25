"""Changelog tables as a target: for each collection every event of a batch, and the READs of the windows that close.

A state table keeps one row a key; here nothing is left out. Events of ids that a first load has not reached are told as
well, those that a drop follows too, and READs also where the state table has them already.

- **Each event once**: a commit records its batch; and of a batch that another checkpoint counts, nothing is taken up to
  the newest cluster time that the table holds (`streaming.delta.changelog_table`).
- **A READ is never one that is superseded**: not by an event of its key behind its window's low watermark, in this
  batch or before, and be it an update that came without its document. It is told once at least: where one target has
  landed a window and another has not, the window is read again for all of them.

Drops and renames change no document, so they are no rows. What is wrong with one changelog suspends its collection, in
all of its targets: they tell of the same changes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce

import pyarrow as pa
import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from snapshotter.landing.frames import frame_of, in_landing_pool
from snapshotter.landing.table_faults import Blame
from snapshotter.landing.targets.side_by_side import land_each, naming_lost_buffers
from snapshotter.landing.targets.target import (
    KEYS_SCHEMA,
    CollectionContents,
    Contents,
    Identity,
    Landed,
    LandedCollection,
    Need,
    Promise,
)
from snapshotter.landing.targets.telling import Tell
from snapshotter.landing.targets.told_reads import ToldReads, write
from snapshotter.log import warn_of
from streaming.column_names import ORDER
from streaming.delta.changelog_table import Appended, ChangelogTable
from streaming.delta.local_checkpoints import free_checkpoint, held
from streaming.delta.new_files import NewFile
from streaming.delta.state_upkeep import StateUpkeep
from streaming.delta.table_identity import Owner
from streaming.delta.table_paths import changelog_path, under
from streaming.events.envelope import ARROW_SCHEMA, SCHEMA, Envelope, of_events, transaction_orders
from streaming.events.read_envelopes import ReadTeller
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

_log = structlog.get_logger("snapshotter.changelogs")

NAME = "changelog tables"
_FILE_BYTES = 16 << 20
_DISTINCT = "key", "after", "_key"


@dataclass(slots=True)
class OpenChangelog:
    """An open table; ``newest``: the greatest cluster time that it held when it was opened. Whoever commits to it holds
    its ``lock``."""

    table: ChangelogTable
    newest: int | None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def upkeep(self) -> StateUpkeep:
        return self.table.upkeep


@dataclass(slots=True)
class Changelogs:
    """Lands the batches of one query, in tables under ``warehouse``. ``app_id`` and ``owner`` as for state tables; so
    many ``threads`` tables at a time. ``clock``: nanoseconds since 1970. ``count`` is told, once for each commit, how
    many events and how many READs it has given a collection's table. ``own_checkpoints``: as of `TableForm`.
    ``tables``: those that are open, for whoever keeps them in order."""

    spark: SparkSession
    warehouse: str
    envelope: Envelope
    app_id: Callable[[], str]
    owner: Callable[[], Owner | None]
    blame: Blame
    threads: int = 4
    clock: Callable[[], int] = time.time_ns
    count: Callable[[Namespace, int, int], None] | None = None
    own_checkpoints: bool = False
    tables: dict[Namespace, OpenChangelog] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def name(self) -> str:
        return NAME

    @property
    def promises(self) -> Promise:
        return Promise.EXACTLY_ONCE

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.DOCUMENTS, Need.BEFORE_IMAGES, Need.ORDER})

    def recorded(self, namespaces: Iterable[Namespace], batch_id: int) -> frozenset[Namespace]:
        """As `EventTarget.recorded`. Raises what is wrong with a table."""
        recorded = {namespace: self._table(namespace).recorded_batch() for namespace in namespaces}
        return frozenset(n for n, newest in recorded.items() if newest is not None and newest >= batch_id)

    def land(self, contents: Contents) -> Landed:
        """As `Target.land`."""
        if not contents.collections:
            return Landed()
        orders: DataFrame | None = None
        if contents.transactional and self.envelope.transactions:
            orders = held(transaction_orders(contents.events))
        try:
            land_one = partial(self._land_one, contents, orders)
            return land_each(contents, land_one, self.blame, self.threads)
        finally:
            if orders is not None:
                free_checkpoint(orders)

    def _land_one(
        self, contents: Contents, orders: DataFrame | None, batch: CollectionContents
    ) -> LandedCollection:
        in_landing_pool(self.spark)
        with naming_lost_buffers(batch):
            return self._tell(contents, orders, batch)

    def _tell(
        self, contents: Contents, orders: DataFrame | None, batch: CollectionContents
    ) -> LandedCollection:
        landed = LandedCollection(batch.namespace, KEYS_SCHEMA.empty_table(), size_bytes=batch.size_bytes)
        opened = self._opened(batch.namespace)
        events, at_ns = _new_events(opened, contents, batch), self.clock()
        told = [] if events is None else [of_events(events, self.envelope, at_ns, orders)]
        make = ReadTeller(self.envelope, at_ns, batch.namespace).batches
        reads = ToldReads(self.spark, batch, self.envelope)
        with opened.lock:
            folder = opened.table.for_files() if reads.in_files else None
            frame = reads.frame(make, SCHEMA, written=folder is not None)
            told += [] if frame is None else [frame]
            if not told and folder is None:
                return landed
            size = batch.size_bytes + reads.frame_bytes(written=folder is not None)
            rows = reduce(DataFrame.unionByName, told).coalesce(_files(size)) if told else None
            said = {**contents.identity.metadata, "windows": [str(c.window.id) for c in batch.closings]}
            files: list[NewFile] = []
            if folder is not None:
                tell = Tell(make, ARROW_SCHEMA, _DISTINCT)
                # A READ has no place among the events of its time.
                files += [replace(f, null=ORDER) for f in write(self.spark, reads.tasks(tell), folder)]
            done = opened.table.append(rows, files, batch_id=contents.identity.batch_id, metadata=said)
        landed.wrote, landed.events = done.wrote, done.rows
        if done.wrote and self.count is not None:
            counted = _reads_told(opened.table, done, events, frame, files)
            self.count(batch.namespace, done.rows - counted, counted)
        return landed

    def replay(
        self, told: DataFrame, marks: Mapping[Namespace, Mapping[str, str]], identity: Identity
    ) -> frozenset[str]:
        """As `EventTarget.replay`: each mark once, whatever has happened in between, for the table is asked for those
        that it has. What is wrong with one table is logged, and the others are told."""
        done: set[str] = set()
        for namespace, ops in sorted(marks.items()):
            try:
                done |= self._replay_one(namespace, told, ops, identity)
            except Exception as error:
                if self.blame.fault_of(namespace, error) is None:
                    raise
                warn_of(_log, "a changelog takes no replayed events", error, collection=str(namespace))
        return frozenset(done)

    def _replay_one(
        self, namespace: Namespace, told: DataFrame, ops: Mapping[str, str], identity: Identity
    ) -> frozenset[str]:
        """``ops``: by mark."""
        table = self._table(namespace, f"{self.app_id()}:replays")
        there = table.marks() & ops.keys()
        new = sorted(ops.keys() - there)
        if not new:
            return there
        wanted = frame_of(told.sparkSession, pa.table({"_mark": new}))
        rows = told.join(F.broadcast(wanted), F.col("source.sequence") == F.col("_mark"), "left_semi")
        said = {**identity.metadata, "windows": []}
        with self._opened(namespace).lock:
            done = table.append(rows.coalesce(1), batch_id=identity.batch_id, metadata=said)
        if not done.wrote:  # the batch comes again, and had replayed others: these wait for the next one
            return there
        if self.count is not None:
            reads = sum(ops[mark] == "r" for mark in new)
            self.count(namespace, done.rows - reads, reads)
        return there.union(new)

    def _opened(self, namespace: Namespace) -> OpenChangelog:
        with self._lock:
            opened = self.tables.get(namespace)
        if opened is None:
            table = self._table(namespace)
            opened = OpenChangelog(table, table.newest())
            with self._lock:
                self.tables[namespace] = opened
        return opened

    def _table(self, namespace: Namespace, app_id: str | None = None) -> ChangelogTable:
        path = under(self.warehouse, changelog_path(namespace))
        known = self.spark, path, namespace, app_id or self.app_id(), SCHEMA, self.owner()
        return ChangelogTable(*known, own_checkpoints=self.own_checkpoints)


def _new_events(opened: OpenChangelog, contents: Contents, batch: CollectionContents) -> DataFrame | None:
    """The events of the batch that are to be appended; None where the table holds all up to the batch's end, or the
    collection was dropped in it and nothing else."""
    events = batch.events
    position = contents.identity.metadata.get("position")
    end = None if position is None else ClusterTime.from_json(position).to_int()
    if events is None or (opened.newest is not None and end is not None and end <= opened.newest):
        return None
    if batch.truncated is not None and events.where(F.col("op").isNotNull()).isEmpty():
        return None
    return events if opened.newest is None else events.where(F.col("cluster_time") > opened.newest)


def _reads_told(
    table: ChangelogTable,
    done: Appended,
    events: DataFrame | None,
    reads: DataFrame | None,
    files: Sequence[NewFile],
) -> int:
    """How many of the rows that an append to ``table`` has ``done`` are READs, in the frame ``reads`` and in ``files``,
    and not ``events``. They are counted only where the table's log does not tell; where that fails all count as events,
    for they have landed."""
    in_files = sum(file.rows for file in files)
    if reads is None:
        return in_files
    if events is None:
        return done.rows
    try:
        told = table.reads_in(done.version)
        return reads.count() + in_files if told is None else told
    except Exception as error:  # noqa: BLE001 - a figure, behind the commit
        warn_of(_log, "READs that a changelog was given cannot be counted, and count as events", error)
        return 0


def _files(size_bytes: int) -> int:
    """How many files so much is written to at most, so that small batches leave one."""
    return max(1, -(-size_bytes // _FILE_BYTES))
