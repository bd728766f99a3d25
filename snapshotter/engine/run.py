"""One run: one start of the streaming query, with the machine and the two lanes around it.

    change stream --micro-batch--> BatchLane --inputs--> Machine --effects--> Lane --> MongoDB, chunk reads
                                                            ^------inputs-------'

Threads: Spark's (``foreachBatch``), the lane's, and the control loop's, which hands over requests. All step the machine
under one lock, and a step never waits. The machine is made in the first batch, for only then is it known which batch
comes first, and so which saved progress to start from; until then requests wait in the journal.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from pymongo import MongoClient
from pyspark.sql import DataFrame, SparkSession

from snapshotter.control.catalogue import captured_collections
from snapshotter.control.post_images import PostImages
from snapshotter.core.controls import Controls
from snapshotter.core.effects import Announce, Effect, LandBatch, MakeBatch, SaveControls, SaveProgress
from snapshotter.core.inputs import CollectionSuspended, Draining, Input, SignalsTaken
from snapshotter.core.machine import Machine
from snapshotter.core.progress import Progress, RequestProgress
from snapshotter.core.requests import SnapshotRequest
from snapshotter.core.suspension import TableUnusable
from snapshotter.core.window import Window, WindowId
from snapshotter.engine.first_load import FirstLoad
from snapshotter.engine.hints import HintsWriter
from snapshotter.engine_config import EngineConfig
from snapshotter.landing.batch_lane import HOLD_SECONDS, BatchLane
from snapshotter.landing.batch_trailer import BatchTrailer
from snapshotter.landing.tables import Tables
from snapshotter.landing.transactions import FOLDER, TransactionTable
from snapshotter.notifying.telling import Telling
from snapshotter.notifying.window_log import WindowLog
from snapshotter.reading.chunk_reader import Buffer
from snapshotter.reading.request_lane import Lane
from snapshotter.reading.watermarks import CausalClock, WatermarkWriter
from snapshotter.state.journal import Journal
from snapshotter.state.progress_store import ProgressStore
from streaming import admission
from streaming.change_options import ChangeOptions
from streaming.namespaces import Namespace
from streaming.positions import ORIGIN, ClusterTime
from streaming.shard_keys import shard_keys

_log = structlog.get_logger("snapshotter.run")
_NO_END = 1 << 31
_OPENING_SECONDS = 10.0
_CHUNK_MARGIN = 4
"""By how much the first chunks, planned by the size of an average document, may be larger than what chunks aim at."""


class StopRequested(Exception):
    """Raised inside ``foreachBatch`` before any effect, to stop between two batches."""


@dataclass(slots=True)
class World:
    """What a run works on; it outlives the run."""

    spark: SparkSession
    client: MongoClient[Any]
    config: EngineConfig
    store: ProgressStore
    journal: Journal
    hints: HintsWriter
    check_lock: Callable[[], int]
    accept: Callable[[Sequence[bytes]], None]
    telling: Telling
    first_load: FirstLoad
    saved: Callable[[Progress], None]
    tables: Tables
    windows: WindowLog


@dataclass(slots=True)
class Run:
    """``id`` is new for every start of the query, in process or not. ``streams_at``: until then (by the monotonic
    clock) the position stands still where the first batch has put it. ``fresh``: no batch has been saved yet, and
    changes wait since the position was taken: a first load is opened before they land, for into a table that is empty
    it is appended."""

    id: str
    world: World
    writer: WatermarkWriter
    clock: CausalClock
    lane: Lane = field(init=False)
    batches: BatchLane = field(init=False)
    suspects: frozenset[Namespace] = frozenset()
    error: BaseException | None = None
    events: int = 0
    known_head: ClusterTime = ORIGIN
    streams_at: float = 0.0
    fresh: bool = False
    _opens_by: float = math.inf
    _ended: ClusterTime | None = None
    _bytes_per_event: float = field(init=False)
    _before: Progress = field(default_factory=Progress)
    _machine: Machine | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _refusing: threading.Event = field(default_factory=threading.Event)
    _images: PostImages | None = None
    _astray: bool = False
    """Progress has not been saved, or could not be."""
    _in_batch: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        world, config = self.world, self.world.config
        exact = config.limits.chunk_docs
        self._bytes_per_event = ChangeOptions.parse(config.source_options).bytes_per_event
        self.lane = Lane(
            spark=world.spark,
            client=world.client,
            uri=config.uri,
            writer=self.writer,
            clock=self.clock,
            plan_for=world.tables.plan,
            report=self.report,
            suspend=self.suspend,
            readers=config.limits.readers,
            reads_shared=1 if exact is None else max(1, 32_000 // exact),
            fetch_size=config.fetch_size,
            chunk_bytes=None if exact is not None else _CHUNK_MARGIN * config.limits.chunk_bytes_target,
        )
        self.batches = BatchLane(
            host=self,
            spark=world.spark,
            engine=config.name,
            strategy=config.strategy,
            signals=config.signals,
            tables=world.tables,
            captures=config.scope.captures,
            landers=config.landers,
            transactions=self._transactions(),
            suspects=self.suspects,
            shard_keys=lambda: shard_keys(world.client),
        )
        if config.needs_post_images:
            self._images = PostImages(world.client, config.post_images_enable)
        self.lane.start()

    # What Spark calls

    def foreach_batch(self, frame: DataFrame, batch_id: int) -> None:
        with self._in_batch:
            if self._refusing.is_set():
                raise StopRequested(f"stopped before batch {batch_id}")
            try:
                if self._machine is None:
                    self._begin(batch_id)
                self.world.telling.committed(batch_id - 1)
                self._learn(self.batches.process(frame, batch_id))
            except BaseException as error:
                self.error = error
                raise

    def _learn(self, trailer: BatchTrailer) -> None:
        """Statistics of a batch that has landed: for the display, and for the size of the next batch."""
        self.events += trailer.events
        if self._images is not None:
            captures = self.world.config.scope.captures
            self._images.look(n for n, count in trailer.namespaces.items() if count and captures(n))
        if self._ended is not None:
            weight = admission.weight(trailer.events, trailer.size_bytes, self._bytes_per_event)
            self.world.hints.learn(weight, trailer.end.t - self._ended.t)
        self._ended = trailer.end

    def _begin(self, batch_id: int) -> None:
        config = self.world.config
        if self._images is not None:
            self._images.look(captured_collections(self.world.client, config.scope.captures))
        progress = self.world.store.load_before(batch_id).capturing(config.scope.captures)
        removed = self.writer.clean_up(self.id)
        if removed:
            _log.info("removed watermark documents of earlier runs", count=removed)
        self.world.telling.begin(progress)
        found = self.world.first_load.look(progress)
        with self._lock:
            # Under the lock: what is decided from here on reaches the machine, what was before is in the journal.
            in_stream, controls = config.strategy.in_stream, self.world.journal.controls
            progress, loads = self.world.first_load.begin(progress, self.world.store.generation, found)
            machine = Machine(self.id, progress, config.limits, in_stream=in_stream, controls=controls)
            self._machine, self._before = machine, progress
            self._opens_by = time.monotonic() + _OPENING_SECONDS
            self.report(SignalsTaken((*loads, *self.world.journal.requests), controls))

    def _transactions(self) -> TransactionTable | None:
        world = self.world
        if not world.config.tells_transactions:
            return None
        path = f"{world.config.state_location}/{FOLDER}"
        return TransactionTable(world.spark, path, world.tables.application_id)

    # What the lanes and the control loop call

    @property
    def machine(self) -> Machine:
        if self._machine is None:
            raise RuntimeError("no batch has arrived yet")
        return self._machine

    @property
    def progress(self) -> Progress:
        """As far as the machine has come, with all that its last step led to: a batch that it counts is saved."""
        with self._lock:
            return self._machine.progress if self._machine is not None else Progress()

    @property
    def position(self) -> ClusterTime:
        return self.progress.position

    @property
    def windows(self) -> tuple[Window, ...]:
        with self._lock:
            return tuple(self._machine.windows.values()) if self._machine is not None else ()

    @property
    def started(self) -> bool:
        return self._machine is not None

    @property
    def buffers(self) -> Mapping[WindowId, Buffer]:
        return self.lane.buffers

    def report(self, happened: Input) -> None:
        self.step(happened)

    def step(self, happened: Input) -> tuple[Effect, ...]:
        """Step the machine and carry out everything but landings, in order."""
        with self._lock:
            machine = self.machine
            effects = machine.step(happened)
            for effect in effects:
                self._carry_out(effect)
            self.world.windows.note(happened, effects)
            self.steer()
        return effects

    def steer(self) -> None:
        """Tell the source how soon the next batch is wanted, and whether the position may move."""
        with self._lock:
            machine, hints, config = self._machine, self.world.hints, self.world.config
            if time.monotonic() < self.streams_at or self._opening:
                hints.hold(_NO_END)
                return
            if machine is None:
                return
            # Without events a batch is as cheap as its READs, and the sooner the better.
            enough = machine.limits.commit_rows_target
            waits = machine.flight.worth_waiting(machine.landing, enough) and not machine.draining
            # The source counts from the end of the newest batch, so from the moment when that began.
            longest = config.wait_seconds + math.ceil(self.batches.times.seconds)
            hints.wait(longest if waits and self.batches.streams and config.wait_seconds else 0)
            hints.hold(HOLD_SECONDS if machine.holding else 0)

    @property
    def _opening(self) -> bool:
        if not self.fresh or self._machine is None:
            return self.fresh
        return self._machine.opening and time.monotonic() < self._opens_by

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case LandBatch():
                return  # by the batch lane, which gets it returned
            case SaveProgress(progress):
                self._astray = True
                self.world.store.save(progress)
                self._astray = False
                # This batch may be replayed, from the state before it: only what had ended there is never asked again.
                self.world.journal.forget(self._before)
                self._before = progress
                self.world.saved(progress)
            case SaveControls(controls):
                self.world.journal.decide(controls)
            case Announce():
                self.world.telling.add(self._before, effect)  # the state that was saved just before
            case MakeBatch():
                self.world.hints.bump()
            case _:
                self.lane.submit(effect)

    def suspend(self, fault: TableUnusable, batch_id: int | None = None) -> tuple[Effect, ...]:
        """Nothing of this collection lands any more, and it is said; where it may be, it is read again at once."""
        repair = fault.repairable and self.world.config.repairs_tables
        _log.error(
            "collection suspended",
            collection=str(fault.namespace),
            cause=fault.cause,
            error=fault.error,
            next_step="it is read again by itself" if repair else fault.next_step,
        )
        self.world.tables.forget(fault.namespace)
        told = fault.cause, fault.error, fault.next_step
        return self.step(CollectionSuspended(fault.namespace, *told, batch_id, repair))

    def receive_signals(self, documents: Sequence[bytes]) -> None:
        self.world.accept(documents)

    def take(self, requests: Iterable[SnapshotRequest], controls: Controls) -> None:
        """What signals have led to: durable at once, before anything follows from it. Before the first batch, and
        behind the last, it waits in the journal."""
        with self._lock:
            new = tuple(requests)
            self.world.journal.take(new, controls)
            if self._counts:
                self.report(SignalsTaken(new, controls))

    def known(self) -> list[RequestProgress]:
        """The requests that exist; before the first batch, and behind the last, as far as they are durable: what a run
        that ended has not saved, the next one does not know."""
        with self._lock:
            if self._counts:
                return list(self.machine.progress.requests)
            return self.world.journal.existing(self.world.store.newest() or Progress())

    @property
    def _counts(self) -> bool:
        """Whether what the machine knows is what is, and will be."""
        return self._machine is not None and not self._astray and not self._refusing.is_set()

    def check_lock(self) -> int:
        return self.world.check_lock()

    def head(self) -> ClusterTime:
        return self.known_head

    @property
    def holding(self) -> bool:
        """Whether the stream waits for a blocking request."""
        with self._lock:
            return self._machine is not None and self._machine.holding

    # How it ends

    def drain(self) -> None:
        with self._lock:
            if self._machine is not None:
                self.report(Draining())

    @property
    def quiet(self) -> bool:
        with self._lock:
            return self._machine is None or self._machine.quiet

    def refuse(self) -> None:
        """No batch begins from here on; returns once none is under way."""
        self._refusing.set()
        with self._in_batch:
            return

    def close(self) -> None:
        self.lane.stop()
