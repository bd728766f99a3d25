"""One run: one start of the streaming query, with the machine and the request lane around it.

    change stream --micro-batch--> foreach_batch --inputs--> Machine --effects--> Lane --> MongoDB, chunk reads
                                                                ^------inputs-------'

``Run.foreach_batch`` is the life of a batch, from top to bottom. The order is the contract: a crash anywhere repeats
the batch, and the repetition finds each table's recorded batch id, the progress of the batch before, and the journal.

Threads: Spark's (``foreachBatch``), the lane's, and the control loop's, which hands over requests. All step the machine
under one lock, and a step never waits. The machine is made in the first batch, for only then is it known which batch
comes first, and so which saved progress to start from; until then requests wait in the journal.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog
from pyspark.sql import DataFrame

from snapshotter.core.machine import Machine
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.effects import Announce, Effect, LandBatch, MakeBatch, SaveControls, SaveProgress
from snapshotter.core.values.inputs import (
    BatchArrived,
    BatchLanded,
    BuffersLost,
    CollectionSuspended,
    Draining,
    GapFound,
    Input,
    SignalsTaken,
)
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.requests import SnapshotRequest
from snapshotter.core.values.suspension import TableUnusable
from snapshotter.core.values.window import Window
from snapshotter.engine.lost_positions import SourceWatch
from snapshotter.engine.other_targets import lander_of
from snapshotter.engine.reading_lane import how_to_read
from snapshotter.engine.run_context import RunContext
from snapshotter.engine.source_head import SourceHead
from snapshotter.engine.source_pacing import HOLD_SECONDS, SourcePacing
from snapshotter.intake.signal_documents import actions_in
from snapshotter.intake.signal_handler import Standing, Waiting, take_signals
from snapshotter.intake.signals_ahead import SignalsAhead
from snapshotter.landing.contents import BatchContents, StreamScope, opened
from snapshotter.landing.frames import for_batches
from snapshotter.landing.land import Lander
from snapshotter.landing.origin import Origin, origin_of, scope_digest
from snapshotter.landing.survey import Survey, survey
from snapshotter.landing.table_faults import Blame
from snapshotter.landing.targets.target import Landed
from snapshotter.log import warn_of
from snapshotter.metrics.tally import Phases
from snapshotter.reading.catalogue import captured_collections
from snapshotter.reading.request_lane import Lane
from snapshotter.reading.stored_images import StoredImages, lost_without
from snapshotter.reading.watermarks import CausalClock, WatermarkWriter
from snapshotter.spark_planners import end_planners
from streaming.delta.row_writer import Choice
from streaming.keys.shard_keys import shard_keys
from streaming.mongo import errors as mongo_errors
from streaming.mongo.deployment import majority_time
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

_log = structlog.get_logger("snapshotter.run")
_BEHIND_SECONDS = 60


class StopRequested(Exception):
    """Raised inside ``foreachBatch`` before any effect, to stop between two batches."""


@dataclass(slots=True)
class Run:
    """``id`` is new for every start of the query. ``begins``: the position that it begins at, where none is saved."""

    id: str
    context: RunContext
    writer: WatermarkWriter
    clock: CausalClock
    blame: Blame
    pacing: SourcePacing
    lane: Lane = field(init=False)
    lander: Lander = field(init=False)
    ahead: SignalsAhead | None = None
    error: BaseException | None = None
    begins: ClusterTime | None = None
    events: int = 0
    head: SourceHead = field(default_factory=SourceHead)
    _scope: StreamScope = field(init=False)
    _first: bool = True
    _before: Progress = field(default_factory=Progress)
    _machine: Machine | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _refusing: threading.Event = field(default_factory=threading.Event)
    _images: StoredImages | None = None
    _astray: bool = False
    """Progress has not been saved, or could not be."""
    _in_batch: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        context, config = self.context, self.context.config
        self.lane = Lane(
            writer=self.writer,
            clock=self.clock,
            report=self.step,
            suspend=self.suspend,
            **how_to_read(context),
        )
        named = config.name, config.strategy, config.signals, config.captures_data
        self._scope = StreamScope(*named, config.failures.fails)
        self.lander = lander_of(context, self.blame)
        if lost := lost_without(before=config.needs_pre_images, after=config.needs_post_images):
            self._images = StoredImages(context.client, config.post_images_enable, lost)
        context.tally.run_begins()
        self.lane.start()

    # What Spark calls

    def foreach_batch(self, frame: DataFrame, batch_id: int) -> None:
        """The life of a batch: read, its signals taken, the machine stepped, landed, saved, reported. Spark commits it
        when this returns."""
        with self._turn(batch_id):
            if self._machine is None:
                self._begin(batch_id)
            self.context.announcer.committed(batch_id - 1)  # or Spark would not bring this one
            self.pacing.times.begin()
            phases = Phases()
            if self._first:
                for_batches(frame.sparkSession)
                end_planners(frame.sparkSession)
            with opened(frame, batch_id, self._scope) as batch:
                phases.end("read")
                self.context.tally.batch_arrived(batch.trailer)
                self.pacing.streams = batch.streams
                # Before the first effect: an engine that has lost its lock must leave nothing behind.
                token = self.context.lock.check()
                self._take_signals(batch)
                found = self._survey(batch)
                landing = _landing_in(self.step(self._arrived(batch, found)))
                phases.end("survey")
                landing, landed = self._land(batch, landing, token)
                phases.end("land")
                outcomes, marks = landed.outcomes(landing), landed.marks(landing)
                self.step(BatchLanded(batch_id, outcomes, self.pacing.land(landed), marks))
                phases.end("save")
            self._first = False
            self._learn(batch)
            self._count(batch, landed, phases)

    @contextmanager
    def _turn(self, batch_id: int) -> Iterator[None]:
        """One batch at a time, and none once the run ends."""
        with self._in_batch:
            if self._refusing.is_set():
                raise StopRequested(f"stopped before batch {batch_id}")
            try:
                self.lane.failures.check()
                yield
            except BaseException as error:
                self.error = error
                raise

    def _take_signals(self, batch: BatchContents) -> None:
        """Those that were not taken ahead of the stream already."""
        documents = batch.signals if self.ahead is None else self.ahead.not_yet(batch.signals)
        if documents:
            for signal_id, seconds in batch.asked.items():
                self.context.outcomes.times.asked(signal_id, seconds)
            take_signals(self.context.signals, self, *actions_in(documents, self._scope.signals))

    def _survey(self, batch: BatchContents) -> Survey:
        """What the tables say. A collection whose table cannot be asked is suspended."""
        context = self.context
        keys, threads = shard_keys(context.client), context.config.landers
        asked = context.tables, self.lander.events
        found = survey(batch, self.machine, *asked, keys, self.blame, threads=threads, first=self._first)
        for fault in found.faults:
            self.suspend(fault)
        return found

    def _arrived(self, batch: BatchContents, found: Survey) -> BatchArrived:
        machine, end = self.machine, batch.trailer.end
        return BatchArrived(
            batch_id=batch.batch_id,
            start=machine.progress.position,
            end=end,
            observations=batch.observations,
            incomplete={namespace: tuple(bounds.values()) for namespace, bounds in found.again.items()},
            empty_tables=found.empty,
            recorded=found.recorded,
            landed_upto=found.landed_upto,
            behind=self.known_head.t - end.t > _BEHIND_SECONDS + (HOLD_SECONDS if machine.holding else 0),
            truncated=batch.changed.truncated,
            requests=(*batch.changed.requests, *found.rekeyed),
            streams=batch.streams,
            streamed=batch.streamed,
            shard_keys=found.shard_keys,
            uncounted=found.uncounted,
        )

    def _land(self, batch: BatchContents, landing: LandBatch, token: int) -> tuple[LandBatch, Landed]:
        """Land every table. What could not be landed goes to the machine, and what it leaves of the batch is landed
        then; tables that are committed stay so. Returns what was landed at last."""
        landed, lander = Landed(), self.lander
        origin = self._origin(landing)
        with lander.landing_others(
            batch, batch.metadata(self.id, token, self.machine.progress.left_out, origin)
        ):
            while True:
                metadata = batch.metadata(self.id, token, self.machine.progress.left_out, origin)
                lander.land(batch, landing, landed, self.machine.progress, self.lane.buffers, metadata)
                if landed.complete:
                    break
                for fault in landed.faults:
                    landing = _landing_in(self.suspend(fault, batch.batch_id))
                if landed.lost:
                    lost = [str(window) for window in landed.lost]
                    _log.warning("READ buffers lost", windows=lost, batch=batch.batch_id)
                    landing = _landing_in(self.step(BuffersLost(batch.batch_id, landed.lost)))
        lander.finish(batch, landing, landed, self.lane.buffers, metadata)
        return landing, landed

    def _origin(self, landing: LandBatch) -> Origin:
        """Where the batch began, for whoever has nothing but the tables."""
        number, scope = self.context.store.generation.number, scope_digest(self.context.config.source_options)
        return origin_of(self.machine.progress, landing.start, number, scope)

    def _learn(self, batch: BatchContents) -> None:
        """Statistics of a batch that has landed: for the display, and for the size of the next batch."""
        trailer = batch.trailer
        self.events += trailer.events
        self._forget_keys()
        if self._images is not None:
            captures = self.context.config.scope.captures
            self._images.look(n for n, count in trailer.namespaces.items() if count and captures(n))
        self.pacing.learn(trailer)

    def _count(self, batch: BatchContents, landed: Landed, phases: Phases) -> None:
        tally = self.context.tally
        tally.batch_landed(batch.trailer, self._scope.signals, landed, phases)
        if self.context.config.tells_transactions:
            tally.add("transactions", self.lander.transactions)

    def _forget_keys(self) -> None:
        """Keep only those streamed keys that a window in flight may ask for."""
        needed: dict[Namespace, ClusterTime] = {}
        for window in self.windows:
            needed[window.namespace] = min(window.floor, needed.get(window.namespace, window.floor))
        self.lander.forget(needed)

    def _begin(self, batch_id: int) -> None:
        config = self.context.config
        if self._images is not None:
            self._images.look(captured_collections(self.context.client, config.scope.captures))
        progress = self.context.store.load_before(batch_id).capturing(config.scope.captures)
        removed = self.writer.clean_up(self.id)
        if removed:
            _log.info("removed watermark documents of earlier runs", count=removed)
        self.context.announcer.begin(progress)
        found = self.context.first_load.look(progress)
        self.context.first_load.check_events(progress, found)
        makes = self.context.first_load.tables_to_make(progress, found)
        # Before the first of them is read.
        learnt = self.context.tables.learn_all(found.ruled, config.landers)
        with self._lock:
            # Under the lock: what is decided from here on reaches the machine, what was before is in the journal.
            in_stream, controls = config.strategy.in_stream, self.context.journal.controls
            progress, loads = self.context.first_load.begin(progress, self.context.store.generation, found)
            machine = Machine(self.id, progress, config.limits, in_stream=in_stream, controls=controls)
            self._machine, self._before = machine, progress
            self.pacing.begin()
            if (gap := self.context.store.generation.gap) is not None:
                left = found.left_by(heals=gap.heals)
                self.step(GapFound(gap.begun(gap.upto or self.begins, left)))
            self.step(SignalsTaken((*loads, *self.context.journal.requests), controls))
        for fault in (*learnt, *self.context.tables.make_all(makes, config.landers)):
            self.suspend(fault)

    # What the request lane and the control loop call

    @property
    def machine(self) -> Machine:
        if self._machine is None:
            raise RuntimeError("no batch has arrived yet")
        return self._machine

    @property
    def progress(self) -> Progress:
        """How far the machine has come, with all that its last step led to: a batch that it counts is saved."""
        with self._lock:
            return self._machine.progress if self._machine is not None else Progress()

    @property
    def position(self) -> ClusterTime:
        return self.progress.position

    @property
    def known_head(self) -> ClusterTime:
        return self.head.newest

    @property
    def windows(self) -> tuple[Window, ...]:
        with self._lock:
            return tuple(self._machine.windows.values()) if self._machine is not None else ()

    @property
    def written_by(self) -> dict[Namespace, Choice]:
        """How the newest landing of each table was written, and why so."""
        return self.context.tables.written_by()

    @property
    def landed(self) -> bool:
        """Whether it has landed a batch, be it an empty one."""
        return not self._first

    @property
    def started(self) -> bool:
        return self._machine is not None

    def step(self, happened: Input) -> tuple[Effect, ...]:
        """Step the machine and carry out everything but landings, in order."""
        with self._lock:
            machine = self.machine
            effects = machine.step(happened)
            for effect in effects:
                self._carry_out(effect)
            self.context.windows.note(happened, effects)
            self.context.tally.note(happened, effects)
            self.pace_source()
        return effects

    def pace_source(self) -> None:
        """Tell the source, by its file, what is wanted now."""
        with self._lock:
            self.pacing.update(self._machine)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case LandBatch():
                return  # by the batch that gets it returned
            case SaveProgress(progress):
                self._astray = True
                self.context.store.save(progress)
                self._astray = False
                # This batch may be replayed, from the state before it: only what had ended there is never asked again.
                self.context.journal.forget(self._before)
                self._before = progress
                self.context.outcomes.saved(progress)
            case SaveControls(controls):
                self.context.journal.decide(controls)
            case Announce():
                self.context.announcer.add(self._before, effect)  # the state that was saved just before
            case MakeBatch():
                self.context.hints.request_batch()
            case _:
                self.lane.submit(effect)

    def look_at_source(self, source: SourceWatch) -> None:
        """How far there is to go. A ``source`` that is out of reach for now is waited for; raises PositionLostError
        where it no longer has what has landed."""
        try:
            head = majority_time(self.context.client)
            self.head.look(head)
            source.check_head(head, self.position)
        except Exception as error:
            if not mongo_errors.classify(error).retriable:
                raise
            warn_of(_log, "the source is not reachable", error)

    def suspend(self, fault: TableUnusable, batch_id: int | None = None) -> tuple[Effect, ...]:
        """Land nothing of this collection any more, and log that; where allowed, it is read again at once.
        ``batch_id``: the batch that is being landed, if it was found there. Returns the machine's effects, among them
        what is left to land of that batch."""
        repair = fault.repairable and self.context.config.repairs_tables
        _log.error(
            "collection suspended",
            collection=str(fault.namespace),
            cause=fault.cause,
            error=fault.error,
            next_step="it is read again by itself" if repair else fault.next_step,
        )
        self.context.tables.forget(fault.namespace)
        why = fault.cause, fault.error, fault.next_step
        return self.step(CollectionSuspended(fault.namespace, *why, batch_id, repair))

    def take(self, requests: Iterable[SnapshotRequest], controls: Controls) -> None:
        """What signals have led to: durable at once, before anything follows from it. Before the first batch, and
        behind the last, it waits in the journal."""
        with self._lock:
            new = tuple(requests)
            self.context.journal.take(new, controls)
            if self._counts:
                self.step(SignalsTaken(new, controls))

    def standing(self) -> Standing:
        """What holds now: before the first batch, and behind the last, what is durable, for the next run knows that."""
        with self._lock:
            if self._counts:
                return Standing(self.machine.progress.requests, self.machine.progress.position)
            return Waiting(self.context.journal, self.context.store).standing()

    @property
    def _counts(self) -> bool:
        """Whether what the machine knows is true, and will last: it is there, saved, and not about to end."""
        return self._machine is not None and not self._astray and not self._refusing.is_set()

    @property
    def holding(self) -> bool:
        """Whether the stream waits: for a blocking request, or for the time of its next landing."""
        with self._lock:
            return self._machine is not None and (self._machine.holding or self.pacing.waits(self._machine))

    # How it ends

    def drain(self) -> None:
        with self._lock:
            if self._machine is not None:
                self.step(Draining())

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
        self.abandon()

    def abandon(self) -> None:
        """Leave nothing of the windows in flight in the signal collection: nobody will close them."""
        self.lane.abandon([window.id for window in self.windows])


def _landing_in(effects: Iterable[Effect]) -> LandBatch:
    (landing,) = [effect for effect in effects if isinstance(effect, LandBatch)]
    return landing
