"""The request lane: carries out what the machine asks of the source, concurrently with the batches, and reports back.

Each kind of effect has its own queue and threads, so that a slow read never keeps a watermark waiting. Effects that
pile up while one call is under way share the next call: many low watermarks are one insert, and many small chunks of a
collection are one Spark job. The only decision taken here is how long to wait before a failure is reported.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, Queue
from typing import Any, TypeVar

import bson
import structlog
from bson.timestamp import Timestamp
from pymongo import MongoClient, timeout
from pyspark.sql import SparkSession

from signals.parsing.filters import EVERYTHING, query_document
from snapshotter.core.values.chunks import KeyList, KeyRange, Target
from snapshotter.core.values.effects import (
    Discard,
    OpenCollection,
    PlanChunks,
    ReadChunk,
    WriteHigh,
    WriteLow,
)
from snapshotter.core.values.inputs import (
    ChunkRead,
    ChunksPlanned,
    CollectionFailed,
    CollectionOpened,
    HighWritten,
    Input,
    LowWritten,
    WindowFailed,
)
from snapshotter.core.values.suspension import TableUnusable
from snapshotter.core.values.window import WindowId
from snapshotter.diagnosis import diagnose
from snapshotter.errors import DefiniteError, cause_of
from snapshotter.failures import Fault, classify
from snapshotter.log import warn_of
from snapshotter.reading.chunk_reader import FETCH_BYTES, FETCH_SIZE, ReadJob, SubRange, read
from snapshotter.reading.document_errors import DocumentError, DocumentFailures
from snapshotter.reading.range_find import HIGHEST, any_order, out_of_order
from snapshotter.reading.ranges import IdProber, Probe, is_simple_collation
from snapshotter.reading.read_buffer import Buffer
from snapshotter.reading.watermarks import CausalClock, WatermarkWriter
from streaming.delta.table_folder import TableFolder
from streaming.events.envelope import JsonSerialization
from streaming.fields.document_rules import document_rules
from streaming.fields.rules import FieldRules
from streaming.keys.keys import is_sharded
from streaming.keys.shard_keys import shard_key_of
from streaming.layout import AnyLayout, TablePlan
from streaming.mongo.deployment import average_document_bytes, count_within
from streaming.namespaces import Namespace

E = TypeVar("E")
_log = structlog.get_logger("snapshotter.requests")
_DELAY_SECONDS_MAX = 30.0
_OUTAGES = {"storage-busy", "storage-failing", "network-failing", "disk-full"}
"""Conditions of what READs are written to: they tell nothing of the chunk."""
_ABANDON_SECONDS = 2.0
_ATTEMPTS = 5
_SHARED_MAX = 64
_LISTS_SHARED = 4
"""How many windows of single ids one job reads: they have few rows, so most of a job's time is spent elsewhere."""


@dataclass(slots=True)
class Lane:
    """Where effects go in (``submit``) and inputs come out (``report``). Call ``start`` once, ``stop`` once."""

    spark: SparkSession
    client: MongoClient[Any]
    uri: str = field(repr=False)
    writer: WatermarkWriter
    clock: CausalClock
    layout: AnyLayout
    plan_for: Callable[[Namespace], TablePlan]
    rows_in: Callable[[Namespace, Target], Sequence[str]]
    captures: Callable[[Namespace], bool]
    report: Callable[[Input], object]
    suspend: Callable[[TableUnusable], object]
    failures: DocumentFailures
    readers: int = 2
    reads_shared: int = 1
    fetch_size: int = FETCH_SIZE
    fields: FieldRules = field(default_factory=FieldRules)
    folder_for: Callable[[Namespace], TableFolder | None] = lambda _: None
    """The folder of a collection's table, where workers write READs as its files; None: they hold them as rows."""
    tells: JsonSerialization | None = None
    """How READs are told beside their columns; None where nobody tells them."""
    chunk_bytes: int | None = None
    """The most that a chunk is planned with, by the average size of documents; None: as many as were asked for."""
    buffers: dict[WindowId, Buffer] = field(default_factory=dict)
    _queues: dict[type, Queue[Any]] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _given_up: set[WindowId] = field(default_factory=set)
    _failures: int = 0
    _tag: str = field(default_factory=lambda: f"snapshotter-chunks-{uuid.uuid4().hex}")
    _document_bytes: dict[Namespace, int] = field(default_factory=dict)

    def start(self) -> None:
        handlers: list[tuple[type, Callable[[Sequence[Any]], None], int]] = [
            (WriteLow, self._write_lows, 1),
            (WriteHigh, self._write_highs, 1),
            (OpenCollection, self._each(self._open), 1),
            (PlanChunks, self._each(self._plan), 1),
            (Discard, self._discard, 1),
            (ReadChunk, self._read, self.readers),
        ]
        for kind, handle, threads in handlers:
            queue = self._queues[kind] = Queue()
            for number in range(threads):
                name = f"{kind.__name__}-{number}"
                thread = threading.Thread(target=self._work, args=(queue, handle), name=name, daemon=True)
                thread.start()
                self._threads.append(thread)

    def stop(self) -> None:
        """Stop once the calls under way have ended; nothing is reported from here on. Chunks that are being read are
        broken off, for nobody waits for them. The signal collection is left clean."""
        self._stopped.set()
        with suppress(Exception):  # Spark may be gone, and with it what is broken off here
            self.spark.sparkContext.cancelJobsWithTag(self._tag)
        for thread in self._threads:
            thread.join()
        discards = self._queues[Discard]
        while not discards.empty():
            self._discard(self._gather(discards, discards.get_nowait()))
        for window, buffer in list(self.buffers.items()):
            buffer.release(window)
        self.buffers.clear()

    def break_off(self) -> None:
        """Report nothing from here on: Spark is about to go, and whatever fails then is of no interest."""
        self._stopped.set()

    def abandon(self, windows: Sequence[WindowId]) -> None:
        """Remove what these windows have in the signal collection, if the server answers at once."""
        if windows:
            with timeout(_ABANDON_SECONDS):
                self._remove(windows)

    def submit(self, effect: object) -> None:
        self._queues[type(effect)].put(effect)

    def _work(self, queue: Queue[Any], handle: Callable[[Sequence[Any]], None]) -> None:
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", "chunks")
        self.spark.sparkContext.addJobTag(self._tag)
        while not self._stopped.is_set():
            try:
                first = queue.get(timeout=0.2)
            except Empty:
                continue
            handle(self._gather(queue, first))

    def _gather(self, queue: Queue[E], first: E) -> list[E]:
        """``first``, and the effects right behind it that the same call can serve."""
        gathered = [first]
        room = _SHARED_MAX
        if isinstance(first, ReadChunk):
            few = _LISTS_SHARED if isinstance(first.target, KeyList) else 1
            room = max(self.reads_shared, few)
        while len(gathered) < room:
            with queue.mutex:
                alike = bool(queue.queue) and _alike(first, queue.queue[0])
            if not alike:
                break
            try:
                gathered.append(queue.get_nowait())
            except Empty:
                break
        return gathered

    def _report(self, happened: Input) -> None:
        if not self._stopped.is_set():
            self.report(happened)

    def _failed(self, windows: Sequence[WindowId], error: Exception) -> None:
        if self._stopped.is_set():
            return  # it was broken off
        found = diagnose(error)
        definite = found.fault is Fault.DEFINITE
        passing = found.fault is Fault.TRANSIENT or (not definite and found.condition.name in _OUTAGES)
        if not definite:
            self._failures += 1
            seconds = min(2.0 ** (self._failures - 1), _DELAY_SECONDS_MAX)
            warn_of(_log, "windows fail, and are read again", error, wait_seconds=seconds)
            self._stopped.wait(seconds)
        for window in windows:
            self._report(WindowFailed(window, _text_of(error), definite, passing))

    def _write_lows(self, effects: Sequence[WriteLow]) -> None:
        windows = [e.window for e in effects]
        try:
            time = self.writer.low(windows)
        except Exception as error:  # noqa: BLE001 - whatever it is, it fails the windows, not the lane
            self._failed(windows, error)
            return
        self._remove_late(windows)
        for window in windows:
            self._report(LowWritten(window, time))

    def _write_highs(self, effects: Sequence[WriteHigh]) -> None:
        windows = [e.window for e in effects]
        try:
            time = self.writer.high(windows, max(e.not_before for e in effects))
        except Exception as error:  # noqa: BLE001 - whatever it is, it fails the windows, not the lane
            self._failed(windows, error)
            return
        self._remove_late(windows)
        for window in windows:
            self._report(HighWritten(window, time))

    def _read(self, effects: Sequence[ReadChunk]) -> None:
        windows = [e.window for e in effects]
        started = time.monotonic()
        try:
            self._check_captured(effects[0].namespace)
            buffer = read(self.spark, self._job(effects))
        except TableUnusable as fault:
            if not self._stopped.is_set():
                self.suspend(fault)
            return
        except DocumentError as error:
            self.failures.stop_at(error)  # the windows are read again by whoever goes on
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it fails the windows, not the lane
            self._failed(windows, error)
            return
        self._failures = 0
        seconds = (time.monotonic() - started) / len(effects)
        # All hold the buffer before any lets go of it: the last holder to go frees it.
        for window in windows:
            buffer.hold(window)
        self.buffers |= dict.fromkeys(windows, buffer)
        for window in windows:
            if window in self._given_up:
                self._release(window)
                continue
            parts = buffer.trailers_of(window)
            for part in parts:
                self.clock.observe(part.signed)
            ended = max(part.ended for part in parts)
            rows, size = sum(p.rows for p in parts), sum(p.size_bytes for p in parts)
            self._report(ChunkRead(window, ended, rows, size, seconds))

    def _job(self, effects: Sequence[ReadChunk]) -> ReadJob:
        first = effects[0]
        ordered = is_simple_collation(self.client, first.namespace)
        targets = [e.target if ordered else self._whole(e.namespace, e.target) for e in effects]
        ranges = tuple(
            SubRange(
                e.window.number,
                target,
                e.after_time,
                e.exact,
                self.rows_in(e.namespace, target) if e.rows_too else (),
            )
            for e, target in zip(effects, targets, strict=True)
        )
        signed = bson.encode(self.clock.signed) if self.clock.signed is not None else None
        plan = self.plan_for(first.namespace)
        query = query_of(first.filter)
        size = self._document_bytes.get(first.namespace, 0)
        fetch = count_within(self.fetch_size, FETCH_BYTES, size)
        keyed = shard_key_of(self.client, first.namespace)
        rules = document_rules(self.fields, first.namespace, keyed)
        folder = self.folder_for(first.namespace)
        source = self.uri, first.namespace, query, self.layout, plan, ranges, signed
        return ReadJob(*source, fetch, keyed, rules, self.tells, self.failures.fails, folder)

    def _whole(self, namespace: Namespace, target: Target) -> Target:
        """Under a collation that orders ids otherwise than keys, the collection is one chunk, read without bounds."""
        if isinstance(target, KeyRange) and target.upto is not None:
            prober = IdProber(self.client)
            if not prober.can_split(namespace, target.upto):
                return KeyRange(None, None)
        return target

    def _open(self, effect: OpenCollection) -> None:
        query = query_of(effect.filter)
        with self.client.start_session(causal_consistency=True) as session:
            if self.clock.signed is not None:
                session.advance_cluster_time(self.clock.signed)
            session.advance_operation_time(Timestamp(effect.after_time.t, effect.after_time.i))
            last = IdProber(self.client).max_bound(effect.namespace, query, session, effect.within)
        collection = self.client[effect.namespace.database][effect.namespace.collection]
        whole = query is None and effect.within is None
        estimated = collection.estimated_document_count() if whole else None
        ordered = is_simple_collation(self.client, effect.namespace)
        if not ordered and effect.within is not None and not any_order(effect.within):
            raise ValueError(out_of_order(effect.namespace))
        if effect.reconcile:
            last = (effect.within.upto if effect.within is not None else None) or HIGHEST
        sharded = bool(shard_key_of(self.client, effect.namespace))
        self._report(CollectionOpened(effect.request_id, effect.namespace, last, estimated, ordered, sharded))

    def _plan(self, effect: PlanChunks) -> None:
        prober = IdProber(self.client)
        probe = Probe([effect.upto], exhausted=True)
        document_bytes = average_document_bytes(self.client, effect.namespace)
        self._document_bytes[effect.namespace] = document_bytes
        docs = effect.docs
        if self.chunk_bytes is not None and document_bytes:
            docs = min(docs, max(1, self.chunk_bytes // document_bytes))
        if prober.can_split(effect.namespace, effect.upto):
            size, query = (docs, effect.count), query_of(effect.filter)
            probe = prober.next_bounds(
                effect.namespace, effect.after, effect.upto, *size, query, closed=effect.closed
            )
        # Bounds are of the kind that the scan's own end is: the shard key may have changed since the scan began.
        sharded = is_sharded(effect.upto.key)
        bounds = tuple(bound.past_id() if sharded else bound for bound in probe.bounds)
        task = effect.request_id, effect.namespace
        sizes = docs, document_bytes
        self._report(ChunksPlanned(*task, bounds, probe.exhausted, effect.resumed, *sizes))

    def _check_captured(self, namespace: Namespace) -> None:
        """A request is accepted for what is captured then; an engine that starts under other lists finds it there."""
        if not self.captures(namespace):
            raise DefiniteError(
                f"{namespace} is not captured any more, so no change would keep right what is read: include it again "
                f"and resume the request, or leave it"
            )

    def _release(self, window: WindowId) -> None:
        buffer = self.buffers.pop(window, None)
        if buffer is not None:
            buffer.release(window)

    def _each(self, handle: Callable[[Any], None]) -> Callable[[Sequence[Any]], None]:
        """Try again while MongoDB is unreachable, and a few times where something else may pass; then the
        collection's task ends."""

        def run(effects: Sequence[OpenCollection | PlanChunks]) -> None:
            for effect in effects:
                delay, failed = 0.5, 0
                while not self._stopped.is_set():
                    try:
                        self._check_captured(effect.namespace)
                        handle(effect)
                        break
                    except Exception as error:  # noqa: BLE001 - whatever it is, it ends this task, not the lane
                        fault, failed = classify(error), failed + 1
                        if fault is Fault.DEFINITE or (fault is not Fault.TRANSIENT and failed >= _ATTEMPTS):
                            self._report(
                                CollectionFailed(effect.request_id, effect.namespace, _text_of(error))
                            )
                            break
                        waits = {"namespace": str(effect.namespace), "wait_seconds": delay}
                        warn_of(_log, "a request waits for the source", error, **waits)
                        self._stopped.wait(delay)
                        delay = min(2 * delay, _DELAY_SECONDS_MAX)

        return run

    def _discard(self, effects: Sequence[Discard]) -> None:
        for effect in effects:
            if effect.why:
                _log.warning(
                    "window given up",
                    window=str(effect.window),
                    collection=str(effect.namespace),
                    why=effect.why,
                )
            # A window may be given up while its read is still under way, or one of its watermarks: its buffer is
            # dropped, and its document removed, when it comes.
            if not effect.landed:
                self._given_up.add(effect.window)
            self._release(effect.window)
        self._remove([e.window for e in effects])

    def _remove_late(self, windows: Sequence[WindowId]) -> None:
        if late := [window for window in windows if window in self._given_up]:
            self._remove(late)

    def _remove(self, windows: Sequence[WindowId]) -> None:
        try:
            self.writer.discard(windows)
        except Exception as error:  # noqa: BLE001 - no window depends on it
            # They are removed at the next start at the latest; no window depends on it.
            warn_of(_log, "watermark documents are left behind", error, count=len(windows))


def query_of(text: str | None) -> dict[str, Any] | None:
    """A filter (Extended JSON text) as a query document; None where it leaves nothing out."""
    return None if text is None or text == EVERYTHING else dict(query_document(text))


def _text_of(error: Exception) -> str:
    """Why a window or a collection failed, for progress, status and log: they keep no stacks."""
    return f"{type(error).__name__}: {cause_of(error)}"


def _alike(first: object, other: object) -> bool:
    if isinstance(first, ReadChunk) and isinstance(other, ReadChunk):
        kinds = type(first.target), type(other.target)
        return (first.namespace, first.filter) == (other.namespace, other.filter) and kinds[0] is kinds[1]
    return True
