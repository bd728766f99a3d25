"""The batch lane: what happens inside one ``foreachBatch`` call.

    persist the batch, read its trailer -> signals and watermarks in it -> machine: what closes here
      -> land every table, side by side -> save progress -> (return: Spark commits the offset) -> announce

The order is the contract: a crash anywhere repeats the batch, and the repetition finds each table's recorded batch id,
the progress of the batch before, and the journal. Nothing is skipped in silence: a batch without its trailer fails.

A collection that is dropped, renamed away or replaced sends no deletes: of its table stays what follows in the batch
(`core.namespace_changes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import bson
import pyarrow as pa
import structlog
from bson.codec_options import CodecOptions, DatetimeConversion
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from snapshotter.core.chunks import Bound
from snapshotter.core.collisions import StreamedKeys
from snapshotter.core.effects import Effect, LandBatch
from snapshotter.core.inputs import BatchArrived, BatchLanded, BuffersLost, Input
from snapshotter.core.machine import Machine
from snapshotter.core.namespace_changes import NamespaceChange, Upshot, upshot
from snapshotter.core.progress import TaskProgress
from snapshotter.core.watermark_ids import Strategy, edge_of, is_watermark
from snapshotter.core.window import Sighting, WindowId
from snapshotter.landing.batch_times import BatchTimes
from snapshotter.landing.batch_trailer import BatchTrailer
from snapshotter.landing.commit import KEYS_SCHEMA, BuffersGone, LandedTable, TableBatch, land_table
from snapshotter.landing.frames import for_batches, frame_of
from snapshotter.landing.tables import Tables
from snapshotter.landing.transactions import TransactionTable
from snapshotter.reading.chunk_reader import Buffer, free_checkpoint, held
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

_log = structlog.get_logger("snapshotter.batches")
_BEHIND_SECONDS = 60
HOLD_SECONDS = 120
"""How far the stream may get ahead while it waits for a blocking request: then it goes on for a batch, and what is read
after that is as of the new position. A server remembers five minutes (``minSnapshotHistoryWindowInSeconds``)."""
# Anybody may write there, also strings that are no UTF-8; a watermark's name is plain ASCII.
_LENIENT: CodecOptions[dict[str, Any]] = CodecOptions(
    unicode_decode_error_handler="replace", datetime_conversion=DatetimeConversion.DATETIME_MS
)
_DRIVER_COLUMNS = (
    *("kind", "op", "db", "collection", "_key", "document_key", "cluster_time", "ord", "trailer"),
    "renamed_to",
)


class BatchHost(Protocol):
    """What the lane needs of the engine around it."""

    @property
    def machine(self) -> Machine: ...

    @property
    def buffers(self) -> Mapping[WindowId, Buffer]: ...

    def step(self, happened: Input) -> tuple[Effect, ...]:
        """Step the machine and carry out everything but landings; they are returned."""

    def receive_signals(self, documents: Sequence[bytes]) -> None:
        """Documents inserted into the signal collection that are no watermarks, in their order."""

    def check_lock(self) -> int:
        """The fencing token; raises if another engine has taken over."""

    def head(self) -> ClusterTime:
        """The newest majority-committed time known."""


@dataclass(slots=True)
class BatchLane:
    """One query's batches."""

    host: BatchHost
    spark: SparkSession
    engine: str
    strategy: Strategy
    signals: Namespace | None
    tables: Tables
    captures: Callable[[Namespace], bool]
    landers: int = 4
    transactions: TransactionTable | None = None
    keys: StreamedKeys[pa.Table] = field(default_factory=StreamedKeys)
    first: bool = True
    streams: bool = False
    """Whether the newest batch holds events."""
    times: BatchTimes = field(default_factory=BatchTimes)

    def process(self, frame: DataFrame, batch_id: int) -> BatchTrailer:
        """Land the batch and save progress; returns what its trailer said."""
        self.times.begin()
        if self.first:
            for_batches(frame.sparkSession)
        frame = held(frame)
        try:
            return self._process(frame, batch_id)
        finally:
            free_checkpoint(frame)

    def _process(self, frame: DataFrame, batch_id: int) -> BatchTrailer:
        rows = self._driver_rows(frame)
        trailer = self._trailer(rows, batch_id)
        self.streams = any(n for name, n in trailer.namespaces.items() if name != self.signals)
        token = self.host.check_lock()
        events = frame.where(F.col("kind") == "event")
        sightings = self._control(rows)
        changed = self._namespace_changes(rows)
        incomplete = self._incomplete(events, rows, changed)
        arrived = self._arrived(batch_id, trailer, sightings, incomplete, changed)
        landing = self._landing(self.host.step(arrived))
        landed: dict[Namespace, LandedTable] = {}
        with self._transactions_beside(events, trailer, batch_id, token):
            while True:
                try:
                    self._land(events, trailer, landing, token, landed)
                    break
                except BuffersGone as gone:
                    _log.warning("READ buffers lost", windows=[str(w) for w in gone.windows], batch=batch_id)
                    landing = self._landing(self.host.step(BuffersLost(batch_id, gone.windows)))
        for namespace in landing.keep:
            if namespace in landed and landed[namespace].keys.num_rows:
                self.keys.keep(namespace, batch_id, landing.end, landed[namespace].keys)
        outcomes = {w: o for table in landed.values() for w, o in table.outcomes.items()}
        closed = {c.window.id: outcomes[c.window.id] for c in landing.closings}
        self.host.step(BatchLanded(batch_id, closed, self.times.land()))
        self._forget()
        self.first = False
        return trailer

    def _driver_rows(self, frame: DataFrame) -> list[Row]:
        """What the driver has to see of a batch, in stream order: signals and watermarks, updates without their full
        document, drops and renames, and the trailer. One job for all of it; documents other than signals stay where
        they are."""
        ours = F.lit(False) if self.signals is None else _of(self.signals) & F.col("document_key").isNotNull()
        wanted = F.col("op").isNull() | ours | _bare()
        document = F.when(ours, F.col("document")).alias("document")
        rows = frame.where(wanted).select(*_DRIVER_COLUMNS, document).collect()
        return sorted(rows, key=lambda row: row["ord"])

    @staticmethod
    def _trailer(rows: list[Row], batch_id: int) -> BatchTrailer:
        return BatchTrailer.from_texts([row["trailer"] for row in rows if row["kind"] == "trailer"], batch_id)

    def _control(self, rows: list[Row]) -> list[Sighting]:
        """Watermarks of this engine that the batch shows; signals are handed over together."""
        sightings, signals = [], []
        for row in rows:
            if row["op"] is None or self.signals != _of_document(row):
                continue
            document_id = bson.decode(row["document_key"], _LENIENT)["_id"]
            seen = edge_of(self.engine, self.strategy, document_id, row["op"])
            if seen is not None:
                window, edge = seen
                sightings.append(Sighting(window, edge, ClusterTime.from_int(row["cluster_time"])))
            elif row["op"] == "c" and not is_watermark(document_id):
                signals.append(bytes(row["document"]))
        if signals:
            self.host.receive_signals(signals)
        return sightings

    def _namespace_changes(self, rows: list[Row]) -> Upshot:
        """What the drops and renames in the batch mean for captured collections."""
        changes = []
        for row in rows:
            if row["kind"] == "event" and row["op"] is None:
                to = Namespace.parse(row["renamed_to"]) if row["renamed_to"] else None
                time = ClusterTime.from_int(row["cluster_time"])
                changes.append(NamespaceChange(_of_document(row), time, row["ord"], to))
        changed = upshot(changes, lambda namespace: namespace != self.signals and self.captures(namespace))
        for namespace, emptied in changed.emptied.items():
            _log.info("emptied by a drop or a rename", collection=str(namespace), at=str(emptied.time))
        return changed

    def _incomplete(
        self, events: DataFrame, rows: list[Row], changed: Upshot
    ) -> dict[Namespace, tuple[Bound, ...]]:
        """Ids whose last event of the batch is an update without its full document, and that nothing full follows, nor
        a drop."""
        missing = [row for row in rows if row["op"] is not None and self._stays(row, changed)]
        if not missing:
            return {}
        keys = pa.table({"_key": pa.array({row["_key"] for row in missing}, pa.string())})
        asked = F.broadcast(frame_of(events.sparkSession, keys))
        full = events.where(~_bare()).join(asked, "_key", "left_semi").groupBy("db", "collection", "_key")
        last = {tuple(r)[:3]: r[3] for r in full.agg(F.max("ord")).collect()}
        found: dict[Namespace, dict[str, Bound]] = {}
        for row in missing:
            where = (row["db"], row["collection"], row["_key"])
            if last.get(where, -1) < row["ord"]:
                found.setdefault(_of_document(row), {})[row["_key"]] = Bound(
                    bytes(row["document_key"]), row["_key"]
                )
        return {namespace: tuple(bounds.values()) for namespace, bounds in found.items()}

    def _stays(self, row: Row, changed: Upshot) -> bool:
        emptied = changed.emptied.get(_of_document(row))
        return _of_document(row) != self.signals and (emptied is None or row["ord"] > emptied.ord)

    def _arrived(
        self,
        batch_id: int,
        trailer: BatchTrailer,
        sightings: list[Sighting],
        incomplete: dict[Namespace, tuple[Bound, ...]],
        changed: Upshot,
    ) -> BatchArrived:
        machine = self.host.machine
        recorded: set[Namespace] = set()
        landed_upto: dict[Namespace, str] = {}
        if self.first:
            # Only the first batch of a run can be one that was tried before.
            recorded = set(self._recorded(batch_id, self._streamed(trailer) | changed.emptied.keys()))
            landed_upto = dict(self._landed_upto(machine.first_loads()))
        return BatchArrived(
            batch_id=batch_id,
            start=machine.progress.position,
            end=trailer.end,
            sightings=tuple(sightings),
            incomplete=incomplete,
            empty_tables=frozenset(n for n in machine.beginning() if self._is_empty(n)),
            recorded=frozenset(recorded),
            landed_upto=landed_upto,
            behind=self.host.head().t - trailer.end.t
            > _BEHIND_SECONDS + (HOLD_SECONDS if machine.holding else 0),
            emptied=changed.emptied,
            requests=changed.requests,
            streams=self.streams,
        )

    def _streamed(self, trailer: BatchTrailer) -> set[Namespace]:
        """Captured collections that are named in the batch; a rename also names where it came from."""
        named = {n for n, count in trailer.namespaces.items() if count and n != self.signals}
        return set(filter(self.captures, named))

    def _recorded(self, batch_id: int, namespaces: Iterable[Namespace]) -> Iterable[Namespace]:
        for namespace in namespaces:
            recorded = self.tables.of(namespace).table.recorded_batch()
            if recorded is not None and recorded >= batch_id:
                yield namespace

    def _landed_upto(self, tasks: Iterable[TaskProgress]) -> Iterable[tuple[Namespace, str]]:
        for task in tasks:
            opened = self.tables.of(task.namespace)
            if task.last is not None and opened.plan is not None:
                highest = opened.table.max_key(task.frontier.key if task.frontier else None, task.last.key)
                if highest is not None:
                    yield task.namespace, highest

    def _is_empty(self, namespace: Namespace) -> bool:
        return self.tables.of(namespace).table.is_empty()

    @staticmethod
    def _landing(effects: Iterable[Effect]) -> LandBatch:
        (landing,) = [effect for effect in effects if isinstance(effect, LandBatch)]
        return landing

    def _land(
        self,
        events: DataFrame,
        trailer: BatchTrailer,
        landing: LandBatch,
        token: int,
        landed: dict[Namespace, LandedTable],
    ) -> None:
        """Every table that has something, side by side; all threads are joined before this returns or raises. What all
        of them have lost is raised together: a table whose events are committed already is not landed again."""
        closing = {c.window.namespace for c in landing.closings}
        wanted = self._streamed(trailer) | closing | landing.emptied.keys()
        work = [n for n in sorted(wanted) if n not in landed]
        if not work:
            return
        with ThreadPoolExecutor(min(self.landers, len(work)), "land") as pool:
            batches = {n: self._table_batch(n, events, trailer, landing, token) for n in work}
            futures = {n: pool.submit(self._land_one, batches[n]) for n in work}
        lost: set[WindowId] = set()
        for namespace, future in futures.items():
            error = future.exception()
            if isinstance(error, BuffersGone):
                lost |= error.windows
            elif error is None:
                landed[namespace] = future.result()
        for future in futures.values():
            if not isinstance(future.exception(), BuffersGone):
                future.result()
        if lost:
            raise BuffersGone(frozenset(lost))

    @contextmanager
    def _transactions_beside(
        self, events: DataFrame, trailer: BatchTrailer, batch_id: int, token: int
    ) -> Iterator[None]:
        """The batch's transactions land while the tables do; joined at the end."""
        if self.transactions is None or not trailer.transactional:
            yield
            return
        captured = events if self.signals is None else events.where(~_of(self.signals))
        metadata = self._metadata(trailer, batch_id, token)
        with ThreadPoolExecutor(1, "transactions", self._in_landing_pool) as pool:
            landed = pool.submit(self.transactions.land, captured, batch_id, metadata)
            yield
        landed.result()

    def _in_landing_pool(self) -> None:
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", "landing")

    def _metadata(self, trailer: BatchTrailer, batch_id: int, token: int) -> dict[str, Any]:
        """What every commit of a batch says of it."""
        return {
            "engine": self.engine,
            "run": self.host.machine.run,
            "fencing_token": token,
            "batch": batch_id,
            "position": trailer.end.to_json(),
            "resume_token": trailer.token,
        }

    def _land_one(self, batch: TableBatch) -> LandedTable:
        self._in_landing_pool()
        if self._came_and_went(batch):
            return LandedTable(batch.namespace, KEYS_SCHEMA.empty_table())
        with self.tables.landing(batch.namespace) as opened:
            return land_table(self.spark, opened, batch)

    def _came_and_went(self, batch: TableBatch) -> bool:
        """Nothing was there, and after the drop nothing is: no table is made for it."""
        if not batch.emptied or batch.events is None or self.tables.of(batch.namespace).plan is not None:
            return False
        return batch.events.where(F.col("op").isNotNull()).isEmpty()

    def _table_batch(
        self,
        namespace: Namespace,
        events: DataFrame,
        trailer: BatchTrailer,
        landing: LandBatch,
        token: int,
    ) -> TableBatch:
        closings = tuple(c for c in landing.closings if c.window.namespace == namespace)
        mine: DataFrame | None = None
        emptied = landing.emptied.get(namespace)
        if trailer.namespaces.get(namespace) or emptied is not None:
            mine = events.where(_of(namespace))
            if emptied is not None:
                mine = mine.where(F.col("ord") > emptied.ord)
            unreached = landing.unreached.get(namespace)
            if unreached is not None:
                ahead = F.col("_key") <= unreached.upto
                if unreached.after is not None:
                    ahead = ahead & (F.col("_key") > unreached.after)
                mine = mine.where(~ahead)
        return TableBatch(
            namespace=namespace,
            landing=landing,
            events=mine,
            shares=trailer.parts,
            size_bytes=trailer.sizes.get(namespace, 0),
            closings=closings,
            buffers=self.host.buffers,
            kept=tuple(self.keys.asked(namespace)) if closings else (),
            metadata={
                **self._metadata(trailer, landing.batch_id, token),
                "windows": [str(c.window.id) for c in closings],
            },
        )

    def _forget(self) -> None:
        needed: dict[Namespace, ClusterTime] = {}
        for window in self.host.machine.windows.values():
            needed[window.namespace] = min(window.floor, needed.get(window.namespace, window.floor))
        self.keys.forget(needed)


def _bare() -> Column:
    """An update that came without its full document."""
    return (F.col("op") == "u") & F.col("document").isNull()


def _of_document(row: Row) -> Namespace:
    return Namespace(row["db"], row["collection"])


def _of(namespace: Namespace) -> Column:
    return (F.col("db") == namespace.database) & (F.col("collection") == namespace.collection)
