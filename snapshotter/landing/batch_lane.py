"""The batch lane: what happens inside one ``foreachBatch`` call.

    persist the batch, read its trailer -> signals and watermarks in it -> machine: what closes here
      -> land every table, side by side -> save progress -> (return: Spark commits the offset) -> announce

The order is the contract: a crash anywhere repeats the batch, and the repetition finds each table's recorded batch id,
the progress of the batch before, and the journal. Nothing is skipped in silence: a batch without its trailer fails.

A collection that is dropped, renamed away or replaced sends no deletes: of its table stays what follows in the batch
(`core.namespace_changes`).

What is wrong with one table alone suspends its collection (`landing.table_faults`, `core.suspension`): the batch lands
without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import bson
import pyarrow as pa
import structlog
from bson.codec_options import CodecOptions, DatetimeConversion
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from snapshotter.core.effects import Effect, LandBatch
from snapshotter.core.inputs import BatchArrived, BatchLanded, BuffersLost
from snapshotter.core.namespace_changes import Upshot
from snapshotter.core.requests import SnapshotRequest
from snapshotter.core.sharding import ShardKeys, reading, rekeyed
from snapshotter.core.streamed_keys import StreamedKeys
from snapshotter.core.suspension import TableUnusable
from snapshotter.core.tasks import TaskProgress
from snapshotter.core.watermark_ids import Strategy, edge_of, is_watermark
from snapshotter.core.window import Sighting, WindowId
from snapshotter.landing.batch_host import BatchHost
from snapshotter.landing.batch_rows import driver_rows, namespace_changes, trailer_of
from snapshotter.landing.batch_times import BatchTimes
from snapshotter.landing.batch_trailer import BatchTrailer
from snapshotter.landing.commit import KEYS_SCHEMA, BuffersGone, LandedTable, TableBatch, land_table
from snapshotter.landing.frames import for_batches
from snapshotter.landing.incomplete import Incomplete, add, collection_of, events_of, incomplete
from snapshotter.landing.left_behind import left_behind
from snapshotter.landing.table_faults import fault_of, may_be_blamed
from snapshotter.landing.tables import Tables
from snapshotter.landing.transactions import TransactionTable
from snapshotter.reading.chunk_reader import free_checkpoint, held
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from streaming.table_identity import TableMark

_log = structlog.get_logger("snapshotter.batches")
Answer = TypeVar("Answer")
_BEHIND_SECONDS = 60
HOLD_SECONDS = 120
"""How far the stream may get ahead while it waits for a blocking request: then it goes on for a batch, and what is read
after that is as of the new position. A server remembers five minutes (``minSnapshotHistoryWindowInSeconds``)."""
# Anybody may write there, also strings that are no UTF-8; a watermark's name is plain ASCII.
_LENIENT: CodecOptions[dict[str, Any]] = CodecOptions(
    unicode_decode_error_handler="replace", datetime_conversion=DatetimeConversion.DATETIME_MS
)


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
    shard_keys: Callable[[], ShardKeys] = dict
    keys: StreamedKeys[pa.Table] = field(default_factory=StreamedKeys)
    first: bool = True
    streams: bool = False
    """Whether the newest batch holds events."""
    suspects: frozenset[Namespace] = frozenset()
    """Collections whose landings have failed in several runs: what their tables meet is theirs."""
    failing: Namespace | None = None
    """The collection whose table has ended the run, where no other table met an error."""
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
        rows = driver_rows(frame, self.signals)
        trailer = trailer_of(rows, batch_id)
        self.streams = any(n for name, n in trailer.namespaces.items() if name != self.signals)
        token = self.host.check_lock()
        events = frame.where(F.col("kind") == "event")
        sightings = self._control(rows)
        changed = namespace_changes(rows, self._has_table)
        sharded = {name: key for name, key in self.shard_keys().items() if self.captures(name)}
        again = incomplete(events, rows, lambda row: self._stays(row, changed))
        moved = sorted((self._streamed(trailer) & sharded.keys()) - self.host.machine.progress.left_out)
        list(self._asked(moved, lambda n: self._add_left_behind(n, events, rows, changed, again)))
        arrived = self._arrived(batch_id, trailer, sightings, again, changed, sharded)
        landing = self._landing(self.host.step(arrived))
        landed: dict[Namespace, LandedTable] = {}
        with self._transactions_beside(events, trailer, batch_id, token):
            while True:
                lost, faults = self._land(events, trailer, landing, token, landed)
                for fault in faults:
                    landing = self._landing(self.host.suspend(fault, batch_id))
                if lost:
                    _log.warning("READ buffers lost", windows=[str(w) for w in lost], batch=batch_id)
                    landing = self._landing(self.host.step(BuffersLost(batch_id, lost)))
                if not lost and not faults:
                    break
        for namespace in landing.keep:
            if namespace in landed and landed[namespace].keys.num_rows:
                self.keys.keep(namespace, batch_id, landing.end, landed[namespace].keys)
        outcomes = {w: o for table in landed.values() for w, o in table.outcomes.items()}
        closed = {c.window.id: outcomes[c.window.id] for c in landing.closings}
        marks = {n: table.mark for n, table in landed.items() if table.mark and n not in landing.left_out}
        self.host.step(BatchLanded(batch_id, closed, self.times.land(), marks))
        self._forget()
        self.first = False
        return trailer

    def _control(self, rows: list[Row]) -> list[Sighting]:
        """Watermarks of this engine that the batch shows; signals are handed over together."""
        sightings, signals = [], []
        for row in rows:
            if row["op"] is None or self.signals != collection_of(row):
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

    def _has_table(self, namespace: Namespace) -> bool:
        return namespace != self.signals and self.captures(namespace)

    def _add_left_behind(
        self, namespace: Namespace, events: DataFrame, rows: list[Row], changed: Upshot, found: Incomplete
    ) -> None:
        """Ids whose shard key an event has changed, or may have."""
        emptied, opened = changed.emptied.get(namespace), self.tables.of(namespace)
        mine = events.where(events_of(namespace))
        if emptied is not None:
            mine = mine.where(F.col("ord") > emptied.ord)
        table = opened.table if emptied is None and opened.plan is not None else None
        told = [row for row in rows if row["moves"] and collection_of(row) == namespace]
        moved = [row for row in told if self._stays(row, changed)]
        for key, document_key in left_behind(moved, mine, table):
            add(found, namespace, key, document_key)

    def _stays(self, row: Row, changed: Upshot) -> bool:
        emptied = changed.emptied.get(collection_of(row))
        return collection_of(row) != self.signals and (emptied is None or row["ord"] > emptied.ord)

    def _arrived(
        self,
        batch_id: int,
        trailer: BatchTrailer,
        sightings: list[Sighting],
        again: Incomplete,
        changed: Upshot,
        sharded: ShardKeys,
    ) -> BatchArrived:
        machine = self.host.machine
        rekeyed = self._read_again(sharded, trailer.end)
        recorded: set[Namespace] = set()
        landed_upto: dict[Namespace, str] = {}
        if self.first:
            # Only the first batch of a run can be one that was tried before.
            list(self._asked(sorted(machine.progress.tables.keys() - machine.progress.left_out), self._look))
            named = (self._streamed(trailer) | changed.emptied.keys()) - machine.progress.left_out
            recorded = {n for n, batch in self._asked(sorted(named), self._recorded) if batch >= batch_id}
            loads = {task.namespace: task for task in machine.first_loads()}
            reached = self._asked(loads, lambda namespace: self._landed_upto(loads[namespace]))
            landed_upto = {namespace: key for namespace, key in reached if key is not None}
        beginning = list(self._asked(machine.beginning(), self._is_empty))
        return BatchArrived(
            batch_id=batch_id,
            start=machine.progress.position,
            end=trailer.end,
            sightings=tuple(sightings),
            incomplete={namespace: tuple(bounds.values()) for namespace, bounds in again.items()},
            empty_tables=frozenset(namespace for namespace, empty in beginning if empty),
            recorded=frozenset(recorded),
            landed_upto=landed_upto,
            behind=self.host.head().t - trailer.end.t
            > _BEHIND_SECONDS + (HOLD_SECONDS if machine.holding else 0),
            emptied=changed.emptied,
            requests=(*changed.requests, *rekeyed),
            streams=self.streams,
            streamed=frozenset(self._streamed(trailer)),
            shard_keys=sharded,
        )

    def _read_again(self, sharded: ShardKeys, end: ClusterTime) -> list[SnapshotRequest]:
        """For tables whose rows have keys of before a change of shard key."""
        changed = rekeyed(self.host.machine.progress.shard_keys, sharded) - {self.signals}
        captured = [n for n in sorted(changed - self.host.machine.progress.left_out) if self.captures(n)]
        found = [reading(n, end) for n, empty in self._asked(captured, self._is_empty) if not empty]
        for request in found:
            _log.warning("the shard key has changed: read again", id=request.id)
        return found

    def _streamed(self, trailer: BatchTrailer) -> set[Namespace]:
        """Captured collections that are named in the batch; a rename also names where it came from."""
        named = {n for n, count in trailer.namespaces.items() if count and n != self.signals}
        return set(filter(self.captures, named))

    def _asked(
        self, namespaces: Iterable[Namespace], ask: Callable[[Namespace], Answer]
    ) -> Iterator[tuple[Namespace, Answer]]:
        """What their tables say, asked side by side. Of one that cannot be asked the collection is suspended."""
        with ThreadPoolExecutor(self.landers, "ask") as pool:
            answers = {namespace: pool.submit(ask, namespace) for namespace in namespaces}
        for namespace, answer in answers.items():
            error = answer.exception()
            if error is None:
                yield namespace, answer.result()
            elif fault := fault_of(namespace, error, suspect=namespace in self.suspects):
                self.host.suspend(fault)
            else:
                if len(answers) > 1 and may_be_blamed(error):
                    self.failing = namespace
                raise error

    def _look(self, namespace: Namespace) -> TableMark | None:
        return self.tables.look(namespace, self.host.machine.progress.tables.get(namespace))

    def _recorded(self, namespace: Namespace) -> int:
        recorded = self.tables.of(namespace).table.recorded_batch()
        return -1 if recorded is None else recorded

    def _landed_upto(self, task: TaskProgress) -> str | None:
        opened = self.tables.of(task.namespace)
        if task.last is None or opened.plan is None:
            return None
        return opened.table.max_key(task.frontier.key if task.frontier else None, task.last.key)

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
    ) -> tuple[frozenset[WindowId], list[TableUnusable]]:
        """Every table that has something, side by side; all threads are joined before this returns or raises. What all
        of them have lost is returned together, and what is wrong with single ones: a table whose events are committed
        already is not landed again."""
        closing = {c.window.namespace for c in landing.closings}
        wanted = (self._streamed(trailer) | closing | landing.emptied.keys()) - landing.left_out
        work = [n for n in sorted(wanted) if n not in landed]
        if not work:
            return frozenset(), []
        with ThreadPoolExecutor(min(self.landers, len(work)), "land") as pool:
            batches = {n: self._table_batch(n, events, trailer, landing, token) for n in work}
            futures = {n: pool.submit(self._land_one, batches[n]) for n in work}
        lost: set[WindowId] = set()
        faults: list[TableUnusable] = []
        failed: dict[Namespace, BaseException] = {}
        for namespace, future in futures.items():
            error = future.exception()
            if error is None:
                landed[namespace] = future.result()
            elif isinstance(error, BuffersGone):
                lost |= error.windows
            elif fault := fault_of(namespace, error, suspect=namespace in self.suspects):
                faults.append(fault)
            else:
                failed[namespace] = error
        for namespace, error in failed.items():
            if landed and len(failed) == 1 and may_be_blamed(error):
                self.failing = namespace
            raise error
        return frozenset(lost), faults

    @contextmanager
    def _transactions_beside(
        self, events: DataFrame, trailer: BatchTrailer, batch_id: int, token: int
    ) -> Iterator[None]:
        """The batch's transactions land while the tables do; joined at the end."""
        if self.transactions is None or not trailer.transactional:
            yield
            return
        captured = events if self.signals is None else events.where(~events_of(self.signals))
        metadata = self._metadata(trailer, batch_id, token)
        with ThreadPoolExecutor(1, "transactions", self._in_landing_pool) as pool:
            landed = pool.submit(self.transactions.land, captured, batch_id, metadata)
            yield
        landed.result()

    def _in_landing_pool(self) -> None:
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", "landing")

    def _metadata(self, trailer: BatchTrailer, batch_id: int, token: int) -> dict[str, Any]:
        """What every commit of a batch says of it."""
        said: dict[str, Any] = {
            "engine": self.engine,
            "run": self.host.machine.run,
            "fencing_token": token,
            "batch": batch_id,
            "position": trailer.end.to_json(),
            "resume_token": trailer.token,
        }
        if suspended := self.host.machine.progress.left_out:
            said["suspended"] = sorted(map(str, suspended))
        return said

    def _land_one(self, batch: TableBatch) -> LandedTable:
        self._in_landing_pool()
        if self._came_and_went(batch):
            return LandedTable(batch.namespace, KEYS_SCHEMA.empty_table())
        before = self._look(batch.namespace)
        with self.tables.landing(batch.namespace) as opened:
            landed = land_table(self.spark, opened, batch)
        # Behind what was seen before lies this landing, and perhaps what somebody else has committed: found here.
        landed.mark = self.tables.look(batch.namespace, before)
        return landed

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
            mine = events.where(events_of(namespace))
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
