"""The machine: what to read next, and what closes in which batch.

``step(input)`` is the only door. It changes the machine and returns effects; it never waits, never reads a
clock and never draws a random number, so the same inputs always give the same effects (tests/traces shows
them).

Theory of operation. Requests stand in one queue; for each collection only the first unfinished task is
active, so the READs of one commit never hold a key twice. A task is *opened* (its largest id is read),
*begun* by the next batch (only there is it known, between two landings, whether its table is empty), and then
scanned: chunk ends are planned ahead, windows are registered and run while batches land, and each batch
closes the windows whose high watermark lies at or before its end, in the order of the scan. What landed moves
the frontier, which is saved with the batch.

Invariants
- Nothing is asked for before the first batch of the run: only it tells how far the tables reach, and from
  when on the stream carries every change.
- low before read before high: each is asked for only in answer to the one before.
- land before save before announce: they are returned in this order, in one tuple.
- A window that fails takes nothing with it: its chunk waits for a new window.
- What cannot be (a batch that progress already covers, an answer nobody asked for) is refused with ValueError
  or ``WindowMisuse`` before anything has changed.

Pure: standard library only.
"""

from __future__ import annotations

from dataclasses import replace

from snapshotter.core import announcements, batches, inputs, queue
from snapshotter.core.chunks import Bound, KeyList, KeyRange
from snapshotter.core.effects import (
    Discard,
    Effect,
    LandBatch,
    MakeBatch,
    OpenCollection,
    PlanChunks,
    ReadChunk,
    SaveProgress,
    Unreached,
    WriteHigh,
    WriteLow,
)
from snapshotter.core.flight import Flight
from snapshotter.core.limits import Limits
from snapshotter.core.progress import Progress, RequestProgress, TaskProgress, TaskState
from snapshotter.core.scan import Planned, Scan
from snapshotter.core.window import Window, WindowError, WindowId
from streaming.namespaces import Namespace


class Machine:
    """One run of the engine. ``run`` names it; ``in_stream`` says that watermarks travel in the change
    stream."""

    def __init__(self, run: str, progress: Progress, limits: Limits, *, in_stream: bool) -> None:
        self.run = run
        self.progress = progress
        self.limits = limits
        self.flight = Flight(run, in_stream)
        self.scans: dict[tuple[str, Namespace], Scan] = {}
        self.landed_upto: dict[Namespace, str] = {}
        self.landing: LandBatch | None = None
        self.draining = False
        self._arrived: inputs.BatchArrived | None = None
        self._opening: set[tuple[str, Namespace]] = set()
        self._missed: dict[WindowId, frozenset[str]] = {}
        self._rereads_rest: set[Namespace] = set()
        self._saved = progress
        self._ready = False
        self._behind = False

    def step(self, happened: inputs.Input) -> tuple[Effect, ...]:
        """Take one input; return what is to be done because of it, in order."""
        effects: list[Effect] = []
        match happened:
            case inputs.RequestReceived():
                effects = self._request_received(happened)
            case inputs.CollectionOpened():
                effects = self._collection_opened(happened)
            case inputs.CollectionFailed():
                effects = self._fail_task(happened.request_id, happened.namespace, happened.error)
            case inputs.ChunksPlanned():
                effects = self._chunks_planned(happened)
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
            case inputs.Draining():
                self.draining, self.limits = True, self.limits.draining()
        return (*effects, *self._next_requests())

    # What the engine may ask

    @property
    def windows(self) -> dict[WindowId, Window]:
        """The windows in flight. Streamed keys are needed from the lowest ``floor`` of each collection on."""
        return self.flight.windows

    @property
    def quiet(self) -> bool:
        """No window is in flight and no batch is landing: a good moment to stop."""
        return not self.windows and self.landing is None

    @property
    def finished(self) -> bool:
        """Nothing is asked for that has not ended, and the ends are saved and announced."""
        asked, saved = self.progress.requests, self._saved.requests
        return self.quiet and not self.progress.rereads and asked == saved and all(r.ended for r in asked)

    def beginning(self) -> tuple[Namespace, ...]:
        """Collections for which the next batch must say whether their table is empty."""
        return tuple(t.namespace for _, t in self._active() if t.state is TaskState.OPENED)

    def first_loads(self) -> tuple[TaskProgress, ...]:
        """First loads that an earlier run began: the next batch must say how far their tables reach."""
        return tuple(t for _, t in self._active() if t.state is TaskState.RUNNING and t.first_load)

    # Requests

    def _request_received(self, happened: inputs.RequestReceived) -> list[Effect]:
        if self.progress.request(happened.request.id) is not None:
            return []
        self.progress = self.progress.with_request(RequestProgress.accepted(happened.request))
        return []

    def _collection_opened(self, happened: inputs.CollectionOpened) -> list[Effect]:
        task = self._task(happened.request_id, happened.namespace)
        task = task.opened(happened.last, happened.estimated, ordered_keys=happened.ordered_keys)
        self._put(happened.request_id, task)
        self._opening.discard((happened.request_id, happened.namespace))
        # Whether its table is empty, or (an empty collection) that it is done already: a batch tells.
        return [MakeBatch()]

    def _chunks_planned(self, happened: inputs.ChunksPlanned) -> list[Effect]:
        if (scan := self.scans.get((happened.request_id, happened.namespace))) is not None:
            scan.plan(happened.bounds, exhausted=happened.exhausted)
        return []

    # Windows

    def _low_written(self, happened: inputs.LowWritten) -> list[Effect]:
        window = self.windows.get(happened.window)
        if window is None:
            return []
        window = self.windows[window.id] = window.low_written(happened.time)
        return [ReadChunk(window.id, window.namespace, window.target, window.filter, window.read_after)]

    def _chunk_read(self, happened: inputs.ChunkRead) -> list[Effect]:
        window = self.windows.get(happened.window)
        if window is None:
            return []
        self.windows[window.id] = window.chunk_read(happened.ended, happened.rows)
        scan = self.scans.get((window.request_id or "", window.namespace))
        if scan is not None and window.request_id is not None:
            scan.docs = self.limits.next_docs(
                scan.docs, rows=happened.rows, size_bytes=happened.size_bytes, seconds=happened.seconds
            )
        return [WriteHigh(window.id, window.namespace, happened.ended)]

    def _high_written(self, happened: inputs.HighWritten) -> list[Effect]:
        window = self.windows.get(happened.window)
        if window is None:
            return []
        try:
            window = self.windows[window.id] = window.high_written(happened.time)
        except WindowError as error:
            return self._fail_window(window, str(error), definite=False)
        # The batch that showed the high watermark may be over already, or no write moved the stream at all.
        return [MakeBatch()] if window.high_seen is not None else []

    def _window_failed(self, happened: inputs.WindowFailed) -> list[Effect]:
        window = self.windows.get(happened.window)
        return [] if window is None else self._fail_window(window, happened.error, definite=happened.definite)

    def _fail_window(self, window: Window, error: str, *, definite: bool) -> list[Effect]:
        effects = self._drop(window, error)
        if window.request_id is None:
            # Its ids are still in progress.rereads. The next batch is soon enough: an error that stays must
            # not spin.
            self._rereads_rest.add(window.namespace)
        elif definite or window.attempt >= self.limits.attempts:
            effects += self._fail_task(window.request_id, window.namespace, error)
        else:
            assert isinstance(window.target, KeyRange)
            scan = self.scans[window.request_id, window.namespace]
            scan.retry(Planned(window.order, window.target, window.attempt + 1))
        return effects

    def _fail_task(self, request_id: str, namespace: Namespace, error: str) -> list[Effect]:
        task = self._task(request_id, namespace)
        if task.ended:
            return []
        self._put(request_id, task.failed(error))
        self._opening.discard((request_id, namespace))
        self.scans.pop((request_id, namespace), None)
        effects: list[Effect] = []
        for window in self.flight.of_task(request_id, namespace):
            effects += self._drop(window)
        return [*effects, MakeBatch()]

    def _drop(self, window: Window, why: str = "") -> list[Effect]:
        """Take a window out of flight. The buffer of one that is being landed stays until that is over."""
        del self.windows[window.id]
        self._missed.pop(window.id, None)
        landing = self.landing is not None and any(c.window.id == window.id for c in self.landing.closings)
        return [] if landing else [Discard(window.id, window.namespace, landed=False, why=why)]

    # Batches

    def _batch_arrived(self, happened: inputs.BatchArrived) -> list[Effect]:
        if self.landing is not None or happened.batch_id <= self.progress.batch_id:
            raise ValueError(
                f"batch {happened.batch_id} arrived, but progress is of batch {self.progress.batch_id} and "
                f"{self._in_hand}: a batch starts, in a new run, from the state of one before it"
            )
        for request in happened.requests:
            self._request_received(inputs.RequestReceived(request))
        self._begin(happened.empty_tables)
        self.flight.note_emptied(happened.emptied)
        self.landed_upto = {**happened.landed_upto, **self.landed_upto}
        self.flight.windows, failed = batches.sight(self.windows, happened.sightings, happened.end)
        effects: list[Effect] = []
        for window, error, definite in failed:
            if window.id in self.windows:
                effects += self._fail_window(window, error, definite=definite)
        unreached = self._unreached()
        effects += self._leave_to_first_loads(unreached)
        self.landing = batches.plan_landing(
            happened,
            self.windows,
            batches.closable(self.windows, self.scans, happened.end, self.limits),
            unreached,
            [task.namespace for task in self.first_loads()],
            self.landed_upto,
            self.flight.emptied_at,
        )
        self._arrived, self._behind, self._ready = happened, happened.behind, True
        self.flight.floor = happened.end
        self._rereads_rest.clear()
        for namespace, bounds in happened.incomplete.items():
            for window in self.flight.reading_ids(namespace):
                keys = frozenset(bound.key for bound in bounds)
                self._missed[window.id] = self._missed.get(window.id, frozenset()) | keys
        return [*effects, self.landing]

    def _begin(self, empty_tables: frozenset[Namespace]) -> None:
        for request, task in self._active():
            if task.state is TaskState.OPENED:
                self._put(request.id, task.begun(table_empty=task.namespace in empty_tables))

    def _unreached(self) -> dict[Namespace, Unreached]:
        tasks = [task for _, task in self._active()]
        reached = {task.namespace: task.frontier for task in tasks}
        reached |= {namespace: scan.reached for (_, namespace), scan in self.scans.items()}
        return batches.unreached(tasks, reached, self.landed_upto)

    def _leave_to_first_loads(self, unreached: dict[Namespace, Unreached]) -> list[Effect]:
        """Ids to read again that a first load will read anyway: landed by themselves, ahead of it, they would
        miss the events that it keeps from landing, and its append would meet them."""
        effects: list[Effect] = []
        for namespace, keys in unreached.items():
            known = [b.key for n, b in self.progress.rereads if n == namespace and keys.holds(b.key)]
            self.progress = self.progress.without_rereads(namespace, frozenset(known))
            for window in self.flight.giving_way(namespace, keys.holds):
                effects += self._drop(window)
        return effects

    def _buffers_lost(self, happened: inputs.BuffersLost) -> list[Effect]:
        if self.landing is None or self.landing.batch_id != happened.batch_id:
            raise ValueError(f"buffers lost for batch {happened.batch_id}, but {self._in_hand}")
        self.landing = batches.without(self.landing, happened.windows)
        effects: list[Effect] = []
        for lost in sorted(happened.windows):
            if (window := self.windows.get(lost)) is not None:
                error = "its READ buffer was recomputed after its high watermark"
                effects += self._fail_window(window, error, definite=False)
        return [*effects, self.landing]

    def _batch_landed(self, happened: inputs.BatchLanded) -> list[Effect]:
        landing, arrived = self.landing, self._arrived
        if landing is None or arrived is None or landing.batch_id != happened.batch_id:
            raise ValueError(f"batch {happened.batch_id} landed, but {self._in_hand}")
        if unknown := [str(c.window.id) for c in landing.closings if c.window.id not in happened.outcomes]:
            raise ValueError(f"batch {happened.batch_id} landed without an outcome of {', '.join(unknown)}")
        discards: list[Effect] = []
        for closing in landing.closings:
            window, outcome = closing.window, happened.outcomes[closing.window.id]
            discards.append(Discard(window.id, window.namespace, landed=True))
            if self.windows.pop(window.id, None) is not None:
                self._window_landed(window, outcome.kept, outcome.dropped)
        for namespace, bounds in arrived.incomplete.items():
            missed = batches.reached_only(bounds, landing.unreached.get(namespace))
            self.progress = self.progress.with_reread(namespace, missed)
        self._end_tasks()
        self.progress = replace(self.progress, batch_id=landing.batch_id, position=landing.end)
        announced = list(announcements.between(self._saved, self.progress))
        self.progress = self._saved = self.progress.forgetting(self.limits.ended_requests_kept)
        self.landing = self._arrived = None
        if batches.closable(self.windows, self.scans, landing.end, self.limits):
            discards.append(MakeBatch())
        return [SaveProgress(self.progress), *announced, *discards]

    def _window_landed(self, window: Window, kept: int, dropped: int) -> None:
        if isinstance(window.target, KeyList):
            # An id that the stream missed again, meanwhile, was perhaps read before that change.
            missed = self._missed.pop(window.id, frozenset())
            keys = frozenset(bound.key for bound in window.target.ids) - missed
            self.progress = self.progress.without_rereads(window.namespace, keys)
            return
        assert window.request_id is not None
        assert window.target.upto is not None
        scan = self.scans[window.request_id, window.namespace]
        scan.next_close = window.order + 1
        task = self._task(window.request_id, window.namespace)
        self._put(window.request_id, task.advanced(window.target.upto, rows=kept, dropped=dropped))

    def _end_tasks(self) -> None:
        for (request_id, namespace), scan in list(self.scans.items()):
            if scan.complete:
                self._put(request_id, self._task(request_id, namespace).finished())
                del self.scans[request_id, namespace]

    # What to do next

    def _next_requests(self) -> list[Effect]:
        if not self._ready:
            return []
        effects: list[Effect] = []
        for request, task in self._active()[: self.limits.tasks_ahead]:
            key = (request.id, task.namespace)
            if task.state is TaskState.RUNNING:
                effects += self._scan(request.id, task)
            elif task.state is TaskState.WAITING and not self.draining and key not in self._opening:
                self._opening.add(key)
                effects.append(OpenCollection(*key, task.filter, self.flight.floor))
        return effects if self.draining or self._behind else effects + self._reread()

    def _scan(self, request_id: str, task: TaskProgress) -> list[Effect]:
        assert task.last is not None
        key = (request_id, task.namespace)
        if key not in self.scans:
            self.scans[key] = Scan(task.frontier, task.last, self.limits.first_docs(), task.ordered_keys)
        scan = self.scans[key]
        slots = self.limits.slots(scan.docs)
        effects: list[Effect] = []
        # While draining, a chunk that failed still gets its window: those behind it in the scan wait for it.
        begun_only = self.draining
        while (
            not self._behind and len(self.windows) < slots and (planned := scan.take(begun_only=begun_only))
        ):
            window = self.flight.chunk(request_id, task, planned)
            for other in self.flight.giving_way(task.namespace, window.may_read):
                effects += self._drop(other)
            effects.append(WriteLow(window.id, window.namespace))
        if not (scan.planning or scan.exhausted or self.draining) and len(scan.ready) < slots:
            scan.planning = True
            effects.append(
                PlanChunks(request_id, task.namespace, task.filter, scan.tail, task.last, scan.docs, slots)
            )
        return effects

    def _reread(self) -> list[Effect]:
        """One window of single ids at a time for a collection."""
        waiting: dict[Namespace, list[Bound]] = {}
        for namespace, bound in self.progress.rereads:
            if namespace not in self._rereads_rest and self.flight.free(namespace, bound.key):
                waiting.setdefault(namespace, []).append(bound)
        effects: list[Effect] = []
        for namespace, bounds in waiting.items():
            if not self.flight.reading_ids(namespace):
                window = self.flight.single_ids(namespace, tuple(bounds[: self.limits.reread_ids]))
                effects.append(WriteLow(window.id, namespace))
        return effects

    @property
    def _in_hand(self) -> str:
        return (
            f"batch {self.landing.batch_id} is being landed" if self.landing else "no batch is being landed"
        )

    def _active(self) -> list[tuple[RequestProgress, TaskProgress]]:
        return queue.active(self.progress)

    def _task(self, request_id: str, namespace: Namespace) -> TaskProgress:
        return queue.task_of(self.progress, request_id, namespace)

    def _put(self, request_id: str, task: TaskProgress) -> None:
        self.progress = queue.with_task(self.progress, request_id, task)
