"""The machine: what to read next, and what closes in which batch.

``step(input)`` is the only door. It changes the machine and returns effects; it never waits, never reads a clock and
never draws a random number, so the same inputs always give the same effects (tests/traces shows them).

Theory of operation. Requests stand in one queue; for each collection only the first unfinished task is active, so the
READs of one commit never hold a key twice. A task is *opened* (its largest id is read), *begun* by the next batch
(only there is it known, between two landings, whether its table is empty), and then scanned: chunk ends are planned
ahead, windows are registered and run while batches land, and each batch closes the windows whose high watermark
lies at or before its end, in the order of the scan. What landed moves the frontier, which is saved with the batch.

Invariants
- low before read before high: each is asked for only in answer to the one before.
- land before save before announce: they are returned in this order, in one tuple.
- A window that fails takes nothing with it: its chunk waits for a new window.

Pure: standard library only.
"""

from __future__ import annotations

from dataclasses import replace

from snapshotter.core import announcements, batches, queue
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
    WriteHigh,
    WriteLow,
)
from snapshotter.core.inputs import (
    BatchArrived,
    BatchLanded,
    BuffersLost,
    ChunkRead,
    ChunksPlanned,
    CollectionFailed,
    CollectionOpened,
    Draining,
    HighWritten,
    Input,
    LowWritten,
    RequestReceived,
    WindowFailed,
)
from snapshotter.core.limits import Limits
from snapshotter.core.progress import Progress, RequestProgress, TaskProgress, TaskState
from snapshotter.core.scan import Planned, Scan
from snapshotter.core.window import Window, WindowError, WindowId
from streaming.namespaces import Namespace


class Machine:
    """One run of the engine. ``run`` names it; ``in_stream`` says that watermarks travel in the change stream."""

    def __init__(self, run: str, progress: Progress, limits: Limits, *, in_stream: bool) -> None:
        self.run = run
        self.progress = progress
        self.limits = limits
        self.in_stream = in_stream
        self.windows: dict[WindowId, Window] = {}
        self.scans: dict[tuple[str, Namespace], Scan] = {}
        self.suspects: set[WindowId] = set()
        self.landed_upto: dict[Namespace, str] = {}
        self.landing: LandBatch | None = None
        self.draining = False
        self._arrived: BatchArrived | None = None
        self._opening: set[tuple[str, Namespace]] = set()
        self._saved = progress
        self._number = 0
        self._floor = progress.position
        self._behind = False

    def step(self, happened: Input) -> tuple[Effect, ...]:
        """Take one input; return what is to be done because of it, in order."""
        match happened:
            case RequestReceived():
                effects = self._request_received(happened)
            case CollectionOpened():
                effects = self._collection_opened(happened)
            case CollectionFailed():
                effects = self._collection_failed(happened)
            case ChunksPlanned():
                effects = self._chunks_planned(happened)
            case LowWritten():
                effects = self._low_written(happened)
            case ChunkRead():
                effects = self._chunk_read(happened)
            case HighWritten():
                effects = self._high_written(happened)
            case WindowFailed():
                effects = self._window_failed(happened)
            case BatchArrived():
                effects = self._batch_arrived(happened)
            case BatchLanded():
                effects = self._batch_landed(happened)
            case BuffersLost():
                effects = self._buffers_lost(happened)
            case Draining():
                self.draining = True
                effects = []
        return (*effects, *self._next_requests())

    # What the engine may ask

    @property
    def quiet(self) -> bool:
        """No window is in flight and no batch is landing: a good moment to stop."""
        return not self.windows and self.landing is None

    @property
    def finished(self) -> bool:
        """Nothing is asked for that has not ended."""
        return self.quiet and not self.progress.rereads and all(r.ended for r in self.progress.requests)

    def beginning(self) -> tuple[Namespace, ...]:
        """Collections for which the next batch must say whether their table is empty."""
        return tuple(t.namespace for _, t in self._active() if t.state is TaskState.OPENED)

    def first_loads(self) -> tuple[TaskProgress, ...]:
        """First loads that an earlier run began: the next batch must say how far their tables reach."""
        return tuple(t for _, t in self._active() if t.state is TaskState.RUNNING and t.first_load)

    # Requests

    def _request_received(self, happened: RequestReceived) -> list[Effect]:
        if self.progress.request(happened.request.id) is not None:
            return []
        self.progress = self.progress.with_request(RequestProgress.accepted(happened.request))
        return []

    def _collection_opened(self, happened: CollectionOpened) -> list[Effect]:
        self._opening.discard((happened.request_id, happened.namespace))
        task = self._task(happened.request_id, happened.namespace)
        task = task.opened(happened.last, happened.estimated, ordered_keys=happened.ordered_keys)
        self._put(happened.request_id, task)
        # Whether its table is empty, or (an empty collection) that it is done already: a batch tells.
        return [MakeBatch()]

    def _collection_failed(self, happened: CollectionFailed) -> list[Effect]:
        self._opening.discard((happened.request_id, happened.namespace))
        return self._fail_task(happened.request_id, happened.namespace, happened.error)

    def _chunks_planned(self, happened: ChunksPlanned) -> list[Effect]:
        scan = self.scans.get((happened.request_id, happened.namespace))
        if scan is None:
            return []
        scan.plan(happened.bounds, exhausted=happened.exhausted)
        return [MakeBatch()] if scan.complete else []

    # Windows

    def _low_written(self, happened: LowWritten) -> list[Effect]:
        window = self.windows.get(happened.window)
        if window is None:
            return []
        window = self.windows[window.id] = window.low_written(happened.time)
        return [ReadChunk(window.id, window.namespace, window.target, window.filter, window.read_after)]

    def _chunk_read(self, happened: ChunkRead) -> list[Effect]:
        window = self.windows.get(happened.window)
        if window is None:
            return []
        self.windows[window.id] = window.chunk_read(happened.ended, happened.rows)
        scan = self.scans.get((window.request_id or "", window.namespace))
        if scan is not None and isinstance(window.target, KeyRange):
            scan.docs = self.limits.next_docs(
                scan.docs, rows=happened.rows, size_bytes=happened.size_bytes, seconds=happened.seconds
            )
        return [WriteHigh(window.id, window.namespace, happened.ended)]

    def _high_written(self, happened: HighWritten) -> list[Effect]:
        window = self.windows.get(happened.window)
        if window is None:
            return []
        try:
            window = self.windows[window.id] = window.high_written(happened.time)
        except WindowError as error:
            return self._fail_window(window, str(error), definite=False)
        # The batch that showed the high watermark may be over already, or no write moved the stream at all.
        return [MakeBatch()] if window.high_seen is not None else []

    def _window_failed(self, happened: WindowFailed) -> list[Effect]:
        window = self.windows.get(happened.window)
        return [] if window is None else self._fail_window(window, happened.error, definite=happened.definite)

    def _fail_window(self, window: Window, error: str, *, definite: bool) -> list[Effect]:
        del self.windows[window.id]
        self.suspects.discard(window.id)
        discard: list[Effect] = [Discard(window.id, window.namespace, landed=False)]
        if window.request_id is None:
            return discard  # its ids are still in progress.rereads: the next window takes them up again
        if definite or window.attempt >= self.limits.attempts:
            return discard + self._fail_task(window.request_id, window.namespace, error)
        assert isinstance(window.target, KeyRange)
        scan = self.scans[window.request_id, window.namespace]
        scan.retry(Planned(window.order, window.target, window.attempt + 1))
        return discard

    def _fail_task(self, request_id: str, namespace: Namespace, error: str) -> list[Effect]:
        task = self._task(request_id, namespace)
        effects: list[Effect] = []
        for window in [
            w for w in self.windows.values() if (w.request_id, w.namespace) == (request_id, namespace)
        ]:
            del self.windows[window.id]
            effects.append(Discard(window.id, namespace, landed=False))
        self.scans.pop((request_id, namespace), None)
        if not task.ended:
            self._put(request_id, task.failed(error))
            effects.append(MakeBatch())
        return effects

    # Batches

    def _batch_arrived(self, happened: BatchArrived) -> list[Effect]:
        effects: list[Effect] = []
        for namespace in self.beginning():
            self._begin(namespace, table_empty=namespace in happened.empty_tables)
        self.landed_upto = {**happened.landed_upto, **self.landed_upto}
        self.windows, failed = batches.sight(self.windows, happened.sightings, happened.end)
        for window, error, definite in failed:
            if window.id in self.windows:
                effects += self._fail_window(window, error, definite=definite)
        self._arrived, self._floor, self._behind = happened, happened.end, happened.behind
        self.landing = self._plan_landing(happened)
        self.suspects |= batches.suspected_by(self.windows.values(), happened.incomplete)
        return [*effects, self.landing]

    def _begin(self, namespace: Namespace, *, table_empty: bool) -> None:
        for request, task in self._active():
            if task.namespace == namespace and task.state is TaskState.OPENED:
                self._put(request.id, task.begun(table_empty=table_empty))

    def _buffers_lost(self, happened: BuffersLost) -> list[Effect]:
        if self.landing is None or self._arrived is None or self.landing.batch_id != happened.batch_id:
            raise ValueError(
                f"buffers lost for batch {happened.batch_id}, but {self.landing} is being landed"
            )
        effects: list[Effect] = []
        for window in [self.windows[w] for w in sorted(happened.windows) if w in self.windows]:
            effects += self._fail_window(
                window, "its READ buffer was recomputed after its high watermark", definite=False
            )
        self.landing = self._plan_landing(self._arrived)
        return [*effects, self.landing]

    def _plan_landing(self, arrived: BatchArrived) -> LandBatch:
        tasks = [task for _, task in self._active()]
        scans = {namespace: scan for (_, namespace), scan in self.scans.items()}
        return batches.plan_landing(
            self.windows,
            self.scans,
            tasks,
            arrived,
            self.limits,
            suspects=frozenset(self.suspects),
            landed_upto=self.landed_upto,
            reached={
                t.namespace: scans[t.namespace].reached if t.namespace in scans else t.frontier for t in tasks
            },
        )

    def _batch_landed(self, happened: BatchLanded) -> list[Effect]:
        landing, arrived = self.landing, self._arrived
        if landing is None or arrived is None or landing.batch_id != happened.batch_id:
            raise ValueError(f"batch {happened.batch_id} landed, but {landing} was to be landed")
        discards: list[Effect] = []
        for closing in landing.closings:
            window, outcome = closing.window, happened.outcomes[closing.window.id]
            discards += [Discard(window.id, window.namespace, landed=True)]
            self.suspects.discard(window.id)
            if self.windows.pop(window.id, None) is not None:
                self._window_landed(window, outcome.kept, outcome.dropped)
        for namespace, bounds in arrived.incomplete.items():
            unreached = landing.unreached.get(namespace)
            self.progress = self.progress.with_reread(namespace, batches.reached_only(bounds, unreached))
        self._end_tasks()
        self.progress = replace(self.progress, batch_id=landing.batch_id, position=landing.end)
        announced = list(announcements.between(self._saved, self.progress))
        self.progress = self._saved = self.progress.forgetting(self.limits.ended_requests_kept)
        self.landing = self._arrived = None
        return [SaveProgress(self.progress), *announced, *discards]

    def _window_landed(self, window: Window, kept: int, dropped: int) -> None:
        if isinstance(window.target, KeyList):
            keys = frozenset(bound.key for bound in window.target.ids)
            self.progress = self.progress.without_rereads(window.namespace, keys)
            return
        assert window.request_id is not None and window.target.upto is not None
        scan = self.scans[window.request_id, window.namespace]
        scan.next_close = window.order + 1
        task = self._task(window.request_id, window.namespace)
        self._put(window.request_id, task.advanced(window.target.upto, rows=kept, dropped=dropped))

    def _end_tasks(self) -> None:
        for (request_id, namespace), scan in list(self.scans.items()):
            if scan.complete:
                task = self._task(request_id, namespace)
                self._put(request_id, task.finished())
                del self.scans[request_id, namespace]

    # What to do next

    def _next_requests(self) -> list[Effect]:
        if self.draining:
            return []
        effects: list[Effect] = []
        for ahead, (request, task) in enumerate(self._active()):
            if ahead >= self.limits.tasks_ahead:
                break
            if task.state is TaskState.WAITING:
                effects += self._open(request.id, task)
            elif task.state is TaskState.RUNNING:
                effects += self._scan(request.id, task)
        return effects + self._reread()

    def _open(self, request_id: str, task: TaskProgress) -> list[Effect]:
        if (request_id, task.namespace) in self._opening:
            return []
        self._opening.add((request_id, task.namespace))
        return [OpenCollection(request_id, task.namespace, task.filter)]

    def _scan(self, request_id: str, task: TaskProgress) -> list[Effect]:
        assert task.last is not None
        key = (request_id, task.namespace)
        if key not in self.scans:
            self.scans[key] = Scan(tail=task.frontier, reached=task.frontier, docs=self.limits.first_docs())
        scan = self.scans[key]
        slots = self.limits.slots(scan.docs)
        effects: list[Effect] = []
        while not self._behind and len(self.windows) < slots:
            planned = scan.take()
            if planned is None:
                break
            window = self._new_window(
                request_id,
                task.namespace,
                planned.range,
                task.filter,
                order=planned.order,
                attempt=planned.attempt,
            )
            effects.append(WriteLow(window.id, window.namespace))
        if not scan.planning and not scan.exhausted and len(scan.ready) < slots:
            scan.planning = True
            effects.append(
                PlanChunks(request_id, task.namespace, task.filter, scan.tail, task.last, scan.docs, slots)
            )
        return effects

    def _reread(self) -> list[Effect]:
        """One window of single ids at a time for a collection."""
        effects: list[Effect] = []
        busy = {w.namespace for w in self.windows.values() if isinstance(w.target, KeyList)}
        waiting: dict[Namespace, list[Bound]] = {}
        for namespace, bound in self.progress.rereads:
            if namespace not in busy and not self._behind:
                waiting.setdefault(namespace, []).append(bound)
        for namespace, bounds in waiting.items():
            ids = KeyList(tuple(bounds[: self.limits.reread_ids]))
            window = self._new_window(None, namespace, ids, None, order=0, attempt=1)
            effects.append(WriteLow(window.id, namespace))
        return effects

    def _new_window(
        self,
        request_id: str | None,
        namespace: Namespace,
        target: KeyRange | KeyList,
        filter: str | None,
        *,
        order: int,
        attempt: int,
    ) -> Window:
        self._number += 1
        window = Window(
            id=WindowId(self.run, self._number),
            request_id=request_id,
            namespace=namespace,
            target=target,
            filter=filter,
            order=order,
            attempt=attempt,
            floor=self._floor,
            in_stream=self.in_stream,
        )
        self.windows[window.id] = window
        return window

    def _active(self) -> list[tuple[RequestProgress, TaskProgress]]:
        return queue.active(self.progress)

    def _task(self, request_id: str, namespace: Namespace) -> TaskProgress:
        return queue.task_of(self.progress, request_id, namespace)

    def _put(self, request_id: str, task: TaskProgress) -> None:
        self.progress = queue.with_task(self.progress, request_id, task)
