"""The machine: what to read next, and what closes in which batch.

``step(input)`` is the only door. It changes the machine and returns effects; it never waits, never reads a
clock and never draws a random number, so the same inputs always give the same effects (tests/traces shows
them).

Theory of operation. Requests stand in one queue (`core.rules.queue`); in each collection one task at a time has its
turn, so the READs of one commit never hold a key twice. What operators decide meanwhile is in `core.values.controls`.
A task is *opened* (its largest id is read), *begun* by the next batch (only there is it known, between two landings,
whether its table is empty), and then scanned: chunk ends are planned ahead, windows are registered and run while
batches land, and each batch closes the windows whose high watermark lies at or before its end, in the order of the
scan. What landed moves the frontier, which is saved with the batch.

Invariants
- Nothing is asked of the source before the first batch of the run: only that says how far the tables reach,
  and from when the stream carries every change.
- low before read before high: each is asked for only in answer to the one before.
- land before save before announce: they are returned in this order, in one tuple.
- A window that fails takes nothing with it: its chunk waits for a new window.
- What cannot be (a batch that progress already covers, an answer nobody asked for) is refused with ValueError
  or ``WindowMisuse`` before anything has changed.

Pure: standard library only.
"""

from __future__ import annotations

from dataclasses import replace

from snapshotter.core.rules import announcements, batches, proofs, queue
from snapshotter.core.rules.in_flight import InFlight
from snapshotter.core.scheduler import Scheduler
from snapshotter.core.values import inputs
from snapshotter.core.values.chunks import KeyList, end_of
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.effects import (
    Discard,
    Effect,
    LandBatch,
    MakeBatch,
    ReadChunk,
    SaveControls,
    SaveProgress,
    Unreached,
    WriteHigh,
)
from snapshotter.core.values.gaps import opening
from snapshotter.core.values.limits import Limits
from snapshotter.core.values.outcome import Outcome, Uncounted
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.sharding import ShardKeys, rekeyed
from snapshotter.core.values.suspension import Suspension, repairing
from snapshotter.core.values.tasks import TaskProgress, TaskState
from snapshotter.core.values.window import Window, WindowError, WindowId
from streaming.namespaces import Namespace


class Machine:
    """One run of the engine. ``run`` names it; ``progress`` is what it starts from; ``limits`` say how much is done at
    once; ``in_stream``: watermarks travel in the change stream; ``controls`` are operators' decisions, from the
    journal. Its scheduler keeps the requests."""

    def __init__(
        self,
        run: str,
        progress: Progress,
        limits: Limits,
        *,
        in_stream: bool,
        controls: Controls | None = None,
    ) -> None:
        self.run = run
        self.scheduler = Scheduler(run, progress, limits, in_stream=in_stream, controls=controls)
        self._arrived: inputs.BatchArrived | None = None

    def step(self, happened: inputs.Input) -> tuple[Effect, ...]:
        """Take one input; return what is to be done because of it, in order."""
        needed = self._needs_batch
        effects = [*self._done_for(happened), *self._settle_suspensions(), *self.scheduler.next_requests()]
        # A task whose turn has only now come is begun by a batch, and a stream that waits brings none by itself.
        if self._needs_batch and not needed and not any(isinstance(effect, MakeBatch) for effect in effects):
            effects.append(MakeBatch())
        return tuple(effects)

    def _done_for(self, happened: inputs.Input) -> list[Effect]:
        effects: list[Effect] = []
        match happened:
            case inputs.SignalsTaken():
                effects = self.scheduler.signals_taken(happened)
            case inputs.GapFound():
                gaps = opening(self.progress.gaps, happened.gap)
                self.scheduler.progress = replace(self.progress, gaps=gaps)
            case inputs.CollectionOpened():
                effects = self.scheduler.collection_opened(happened)
            case inputs.CollectionFailed():
                effects = self.scheduler.collection_failed(happened)
            case inputs.ChunksPlanned():
                effects = self.scheduler.chunks_planned(happened)
            case inputs.LowWritten():
                effects = self._low_written(happened)
            case inputs.ChunkRead():
                effects = self._chunk_read(happened)
            case inputs.HighWritten():
                effects = self._high_written(happened)
            case inputs.WindowFailed():
                effects = self._window_failed(happened)
            case inputs.BatchArrived():
                effects = self._batch_arrived(happened)
            case inputs.BatchLanded():
                effects = self._batch_landed(happened)
            case inputs.BuffersLost():
                effects = self._buffers_lost(happened)
            case inputs.CollectionSuspended():
                effects = self._collection_suspended(happened)
            case inputs.Draining():
                self.scheduler.draining, self.scheduler.limits = True, self.limits.draining()
        return effects

    @property
    def _needs_batch(self) -> bool:
        return self.landing is None and self.holding and bool(self.beginning())

    # What the engine may ask

    @property
    def progress(self) -> Progress:
        """How far every request has come, saved or not."""
        return self.scheduler.progress

    @property
    def limits(self) -> Limits:
        return self.scheduler.limits

    @property
    def controls(self) -> Controls:
        """What operators have decided by now."""
        return self.scheduler.controls

    @property
    def in_flight(self) -> InFlight:
        return self.scheduler.in_flight

    @property
    def windows(self) -> dict[WindowId, Window]:
        """The windows in flight. Streamed keys are needed from the lowest ``floor`` of each collection on."""
        return self.scheduler.in_flight.windows

    @property
    def landing(self) -> LandBatch | None:
        """What is being landed."""
        return self.scheduler.landing

    @property
    def holding(self) -> bool:
        """Whether the stream should wait for a blocking request."""
        return self.scheduler.holding

    def beginning(self) -> tuple[Namespace, ...]:
        """Collections for which the next batch must say whether their table is empty."""
        return self.scheduler.beginning()

    def first_loads(self) -> tuple[TaskProgress, ...]:
        """First loads that an earlier run began: the next batch must say how far their tables reach."""
        return self.scheduler.first_loads()

    @property
    def quiet(self) -> bool:
        """No window is in flight and no batch is landing: a good moment to stop."""
        return not self.windows and self.landing is None

    @property
    def opening(self) -> bool:
        """Whether the source has been asked what is the largest id of a collection, and has not answered."""
        return bool(self.scheduler.opening)

    @property
    def finished(self) -> bool:
        """Every request has ended, or waits for an operator, and that is saved and announced."""
        accepted, saved = self.progress.requests, self.scheduler.saved.requests
        over = accepted == saved and all(r.ended or r.paused or self.progress.resting(r) for r in accepted)
        return over and self.quiet and not self.progress.rereads

    # Windows

    def _low_written(self, happened: inputs.LowWritten) -> list[Effect]:
        window = self.windows.get(happened.window)
        if window is None:
            return []
        window = self.windows[window.id] = window.low_written(happened.time)
        return [ReadChunk.of(window, window.read_after)]

    def _chunk_read(self, happened: inputs.ChunkRead) -> list[Effect]:
        window = self.windows.get(happened.window)
        if window is None:
            return []
        try:
            window = self.windows[window.id] = window.chunk_read(happened.ended, happened.rows)
        except WindowError as error:
            return self._fail_window(window, str(error))
        scan = self.scheduler.scans.get((window.request_id or "", window.namespace))
        if scan is not None and window.request_id is not None:
            if happened.rows >= scan.docs // 2:  # a small one shows overhead, not pace
                self.scheduler.pace = self.scheduler.pace.expected(
                    happened.rows, happened.seconds, self.limits
                )
            if happened.rows:
                scan.document_bytes = happened.size_bytes // happened.rows
            scan.docs = self.limits.next_docs(
                scan.docs, rows=happened.rows, size_bytes=happened.size_bytes, seconds=happened.seconds
            )
        if window.exact:
            self.windows[window.id] = window.high_written(happened.ended)
            return [MakeBatch()]
        return [WriteHigh(window.id, window.namespace, happened.ended)]

    def _high_written(self, happened: inputs.HighWritten) -> list[Effect]:
        window = self.windows.get(happened.window)
        if window is None:
            return []
        try:
            window = self.windows[window.id] = window.high_written(happened.time)
        except WindowError as error:
            return self._fail_window(window, str(error))
        # The batch that showed the high watermark may be over already, or no write moved the stream at all.
        return [MakeBatch()] if window.high_seen is not None else []

    def _window_failed(self, happened: inputs.WindowFailed) -> list[Effect]:
        window = self.windows.get(happened.window)
        if window is None:
            return []
        return self._fail_window(window, happened.error, definite=happened.definite, passing=happened.passing)

    def _fail_window(
        self, window: Window, error: str, *, definite: bool = False, passing: bool = False
    ) -> list[Effect]:
        tries = None if definite else window.tries.failing(passing=passing)
        return self.scheduler.fail_window(window, error, tries)

    # Batches

    def _batch_arrived(self, happened: inputs.BatchArrived) -> list[Effect]:
        if self.landing is not None or happened.batch_id <= self.progress.batch_id:
            raise ValueError(
                f"batch {happened.batch_id} arrived, but progress is of batch {self.progress.batch_id} and "
                f"{self._in_hand}: a batch starts, in a new run, from the state of one before it"
            )
        self.scheduler.accept(happened.requests)
        self.scheduler.count(happened.uncounted)
        self._rekey(happened.shard_keys)
        self._begin(happened.empty_tables)
        self.in_flight.note_truncated(happened.truncated)
        self.scheduler.landed_upto = {**happened.landed_upto, **self.scheduler.landed_upto}
        self.in_flight.windows, failed = batches.observe(self.windows, happened.observations, happened.end)
        effects: list[Effect] = []
        for window, error, definite in (failure for failure in failed if failure.window.id in self.windows):
            effects += self._fail_window(window, error, definite=definite)
        unreached = self._unreached()
        effects += self._leave_to_first_loads(unreached)
        landing = self.scheduler.landing = batches.plan_landing(
            happened,
            self.windows,
            batches.closable(self.windows, self.scheduler.scans, happened.end, self.limits),
            unreached,
            [task.namespace for task in self.first_loads()],
            self.scheduler.landed_upto,
            self.in_flight.truncated_at,
            self.progress.left_out,
        )
        self._arrived, self.scheduler.behind, self.scheduler.ready = happened, happened.behind, True
        self.scheduler.streams = happened.streams
        self.scheduler.yields = happened.streams and self._lasts(happened)
        self.scheduler.in_flight.floor = happened.end
        self.scheduler.rereads_rest.clear()
        for namespace, bounds in happened.incomplete.items():
            keys = frozenset(bound.key for bound in bounds)
            for window in self.in_flight.reading_ids(namespace):
                self.scheduler.missed[window.id] = self.scheduler.missed.get(window.id, frozenset()) | keys
        return [*effects, landing]

    def _lasts(self, batch: inputs.BatchArrived) -> bool:
        """Whether changes wait long for batches: this one's span shows how long the batch before it took."""
        least = self.limits.yield_seconds
        return least is not None and batch.end.t - batch.start.t >= least

    def _rekey(self, now: ShardKeys) -> None:
        """A first load appends because its keys are new; where the shard key has changed they may not be: it merges."""
        changed = rekeyed(self.progress.shard_keys, now)
        for request, task in list(queue.first_loads(self.progress)):
            if task.namespace in changed:
                self.scheduler.put(request.id, task.merging())

    def _begin(self, empty_tables: frozenset[Namespace]) -> None:
        for request, task in self.scheduler.turns():
            if task.state is TaskState.OPENED:
                self.scheduler.put(request.id, task.begun(table_empty=task.namespace in empty_tables))
                # The task that has the turn in a suspended collection reads all of it: events land again from here on.
                self.scheduler.progress = self.progress.restoring(task.namespace, request.id)

    def _unreached(self) -> dict[Namespace, Unreached]:
        loads = list(queue.first_loads(self.progress))
        reached = {task.namespace: task.frontier for _, task in loads}
        for request, task in loads:
            if (scan := self.scheduler.scans.get((request.id, task.namespace))) is not None:
                reached[task.namespace] = scan.reached
        return batches.unreached([task for _, task in loads], reached, self.scheduler.landed_upto)

    def _leave_to_first_loads(self, unreached: dict[Namespace, Unreached]) -> list[Effect]:
        """Drop ids to read again that a first load will read anyway. Landed ahead of it, they would miss the events
        that do not land because of it, and its append would meet their rows."""
        effects: list[Effect] = []
        for namespace, keys in unreached.items():
            known = frozenset(filter(keys.holds, self.progress.rereads.of(namespace)))
            self.scheduler.progress = self.progress.without_rereads(namespace, known)
            for window in self.in_flight.giving_way(namespace, keys.holds):
                effects += self.scheduler.drop(window)
        return effects

    def _buffers_lost(self, happened: inputs.BuffersLost) -> list[Effect]:
        if self.landing is None or self.landing.batch_id != happened.batch_id:
            raise ValueError(f"buffers lost for batch {happened.batch_id}, but {self._in_hand}")
        self.scheduler.landing = batches.without(self.landing, happened.windows)
        effects: list[Effect] = []
        for lost in sorted(happened.windows):
            if (window := self.windows.get(lost)) is not None:
                error = "its READ buffer was recomputed after its high watermark"
                effects += self._fail_window(window, error)
        return [*effects, self.landing]

    def _collection_suspended(self, happened: inputs.CollectionSuspended) -> list[Effect]:
        """Give up what was under way in the collection. Its requests wait, except one that comes later and reads all
        of it again."""
        namespace, progress, landing = happened.namespace, self.progress, happened.batch_id is not None
        if landing:
            if self.landing is None or self.landing.batch_id != happened.batch_id:
                raise ValueError(
                    f"{namespace} is suspended in batch {happened.batch_id}, but {self._in_hand}"
                )
            self.scheduler.landing = batches.leaving_out(self.landing, namespace)
        effects = self.scheduler.rest(namespace)
        suspended = progress.suspended.get(namespace)
        if suspended is None or suspended.lands:
            known = {r.id for r in self.scheduler.saved.requests}
            # One that has failed may go on by `resume`, behind what it had read by then.
            over = (TaskState.DONE, TaskState.STOPPED)
            there = [
                (r.id, task)
                for r in progress.requests
                if (task := r.task(namespace)) is not None and task.state not in over
            ]
            waiting = [i for i, task in there if i in known or task.state is not TaskState.WAITING]
            why = happened.cause, happened.error, happened.next_step, progress.position
            self.scheduler.progress = progress.suspending(namespace, Suspension(*why, frozenset(waiting)))
            if happened.repair:
                ids = {r.id for r in progress.requests}
                self.scheduler.accept([repairing(namespace, progress.position, ids)])
        if landing and self.landing is not None:
            return [*effects, self.landing]
        # A suspension is saved with a batch, and an idle stream brings none by itself.
        return [*effects, MakeBatch()]

    def _settle_suspensions(self) -> list[Effect]:
        """A read that was to restore a collection may have ended."""
        before, self.scheduler.progress = self.progress.left_out, self.progress.restored()
        again = self.progress.left_out - before
        return [effect for namespace in sorted(again) for effect in self.scheduler.rest(namespace)]

    def _batch_landed(self, happened: inputs.BatchLanded) -> list[Effect]:
        landing, arrived = self.landing, self._arrived
        if landing is None or arrived is None or landing.batch_id != happened.batch_id:
            raise ValueError(f"batch {happened.batch_id} landed, but {self._in_hand}")
        if unknown := [str(c.window.id) for c in landing.closings if c.window.id not in happened.outcomes]:
            raise ValueError(f"batch {happened.batch_id} landed without an outcome of {', '.join(unknown)}")
        self._keep_pace(landing, arrived, happened)
        discards: list[Effect] = []
        for closing in landing.closings:
            window, outcome = closing.window, happened.outcomes[closing.window.id]
            window.ends("landed")
            discards.append(Discard(window.id, window.namespace, landed=True))
            if self.windows.pop(window.id, None) is not None:
                self._window_landed(window, outcome)
            elif window.request_id is not None and (upto := end_of(window.target)) is not None:
                # Its task ended while it landed: these rows are in the table, behind the frontier, and may come again.
                found = Uncounted(window.request_id, outcome, upto)
                self.scheduler.count({window.namespace: (found,)})
        left_out = landing.left_out | self.progress.left_out  # suspended before it was planned, or since
        for namespace, bounds in arrived.incomplete.items():
            if namespace in left_out:
                continue
            missed = batches.reached_only(bounds, landing.unreached.get(namespace))
            self.scheduler.progress = self.progress.with_reread(namespace, missed)
        discards += self.scheduler.read_whole(landing.end)
        self._end_tasks()
        moved = replace(self.progress, batch_id=landing.batch_id, position=landing.end)
        self.scheduler.progress = replace(
            moved,
            tables={**moved.tables, **happened.tables},
            shard_keys=arrived.shard_keys,
            coverage=proofs.covered(self.scheduler.saved, moved, arrived),
            gaps=proofs.gaps(self.scheduler.saved, moved, arrived),
        )
        discards += self._settle_suspensions()
        announced = list(announcements.between(self.scheduler.saved, self.progress))  # before forgetting
        self.scheduler.progress = self.progress.forgetting(self.limits.ended_requests_kept)
        settled = self.controls.settled(self.scheduler.saved, self.progress)
        saves: list[Effect] = [SaveProgress(self.progress)]
        if settled != self.controls:
            saves.append(SaveControls(settled))
        self.scheduler.saved, self.scheduler.controls = self.progress, settled
        self.scheduler.landing = self._arrived = None
        if batches.closable(self.windows, self.scheduler.scans, landing.end, self.limits):
            discards.append(MakeBatch())
        return [*saves, *announced, *discards]

    def _keep_pace(
        self, landing: LandBatch, arrived: inputs.BatchArrived, happened: inputs.BatchLanded
    ) -> None:
        rows = sum(closing.window.rows for closing in landing.closings)
        if happened.waited is not None and arrived.streams and rows:
            self.scheduler.pace = self.scheduler.pace.after(happened.waited, rows, self.limits)

    def _window_landed(self, window: Window, outcome: Outcome) -> None:
        if window.request_id is None:
            # An id whose document the stream missed again meanwhile may have been read before that change.
            missed = self.scheduler.missed.pop(window.id, frozenset())
            assert isinstance(window.target, KeyList)
            self.scheduler.progress = self.progress.without_rereads(
                window.namespace, window.target.keys - missed
            )
            return
        upto = end_of(window.target)
        assert upto is not None
        scan = self.scheduler.scans[window.request_id, window.namespace]
        scan.next_close = window.order + 1
        task = self.scheduler.task(window.request_id, window.namespace)
        self.scheduler.put(window.request_id, task.advanced(upto, outcome))

    def _end_tasks(self) -> None:
        for (request_id, namespace), scan in list(self.scheduler.scans.items()):
            if scan.complete:
                self.scheduler.put(request_id, self.scheduler.task(request_id, namespace).finished())
                del self.scheduler.scans[request_id, namespace]

    @property
    def _in_hand(self) -> str:
        return (
            f"batch {self.landing.batch_id} is being landed" if self.landing else "no batch is being landed"
        )
