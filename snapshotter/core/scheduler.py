"""The machine's scheduler: what is asked for, what operators decide about it, whose turn it is, what to do next.

The machine holds it, and adds what happens to windows and batches (`core.machine`). Only a task that has its turn, and
in whose collection no window of another request is in flight any more, is opened, begun, or given windows. So a request
that is paused, or that a more urgent one has overtaken, comes to rest by itself: what is in flight lands, and nothing
new is begun.

Invariants
- A decision is durable (``SaveControls``) before anything else that follows from it is carried out.
- A task that may open no windows leaves none waiting in flight behind a chunk that has lost its own.
- Somebody else gets windows in the collection of a first load only after that has ceased to be one: from then on its
  range may hold rows.

Pure: standard library only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import islice

from snapshotter.core.rules import queue
from snapshotter.core.rules.in_flight import InFlight
from snapshotter.core.rules.pace import Pace
from snapshotter.core.rules.scan import Planned, Scan
from snapshotter.core.values import inputs, rereads
from snapshotter.core.values.chunks import Bound
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.effects import (
    Discard,
    Effect,
    LandBatch,
    MakeBatch,
    OpenCollection,
    PlanChunks,
    ReadChunk,
    SaveControls,
    WriteLow,
)
from snapshotter.core.values.limits import Limits
from snapshotter.core.values.outcome import Uncounted
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import SnapshotRequest
from snapshotter.core.values.tasks import TaskProgress, TaskState
from snapshotter.core.values.tries import Tries
from snapshotter.core.values.window import Window, WindowId
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

Task = tuple[RequestProgress, TaskProgress]
ONE_WINDOW = 1_000
"""Among so many the share of each is one window: there are fewer windows."""


class Scheduler:
    """The requests of a run, how far they have come, and their windows in flight; everything that is decided about
    them. ``run``, ``progress``, ``limits``, ``in_stream`` and ``controls`` are as in `core.machine.Machine`.

    ``saved`` is the newest progress that is durable, ``landing`` what is being landed. What the machine notes
    here of batches decides what may be begun: ``ready`` (one has come), ``behind`` (it ends far behind the head),
    ``streams`` and ``yields`` (it has changes, and these wait long), ``missed`` (ids that came without their document
    while a window reads them), ``rereads_rest`` (collections whose windows of single ids wait for the next one).
    ``_given_up``: tasks that were given up while an answer to them was on its way."""

    def __init__(
        self,
        run: str,
        progress: Progress,
        limits: Limits,
        *,
        in_stream: bool,
        controls: Controls | None = None,
    ) -> None:
        self.progress = progress
        self.limits = limits
        self.controls = controls or Controls()
        self.in_flight = InFlight(run, in_stream)
        self.scans: dict[tuple[str, Namespace], Scan] = {}
        self.landed_upto: dict[Namespace, str] = {}
        self.landing: LandBatch | None = None
        self.draining = False
        self.opening: set[tuple[str, Namespace]] = set()
        self._given_up: set[tuple[str, Namespace]] = set()
        self.missed: dict[WindowId, frozenset[str]] = {}
        self.rereads_rest: set[Namespace] = set()
        self._looked: dict[Namespace, tuple[Mapping[str, Bound], tuple[WindowId, ...]]] = {}
        self.saved = progress
        self.ready = False
        self.behind = False
        self.yields = self.streams = False
        self.pace = Pace.first(limits)
        self._decide()

    # What the engine may ask

    @property
    def windows(self) -> dict[WindowId, Window]:
        """The windows in flight. Streamed keys are needed from the lowest ``floor`` of each collection on."""
        return self.in_flight.windows

    @property
    def holding(self) -> bool:
        """Whether the stream should wait: a blocking request has its turn, and nothing else is in flight that needs
        the stream in order to close. (One that is far behind goes on first: what is read now is its past.)"""
        alone = queue.blocking(self.progress)
        return alone is not None and not self.behind and self.in_flight.only_of(alone.id)

    def beginning(self) -> tuple[Namespace, ...]:
        """Collections for which the next batch must say whether their table is empty."""
        return tuple(t.namespace for _, t in self.turns() if t.state is TaskState.OPENED)

    def first_loads(self) -> tuple[TaskProgress, ...]:
        """First loads that an earlier run began: the next batch must say how far their tables reach."""
        loads = queue.first_loads(self.progress)
        return tuple(task for _, task in loads if task.state is TaskState.RUNNING)

    # Requests, and what operators decide about them

    def accept(self, requests: Iterable[SnapshotRequest]) -> None:
        """Take requests that no operator sent: something that has happened makes them necessary."""
        self.progress = self.progress.accepting(map(RequestProgress.accepted, requests))
        self._decide()

    def count(self, uncounted: Mapping[Namespace, tuple[Uncounted, ...]]) -> None:
        """Note what READs have found that an earlier attempt at the batch has committed, with a request that is still
        known. The windows of that attempt are gone: their chunks are read again."""
        for namespace, found in uncounted.items():
            for one in found:
                request = self.progress.request(one.request_id)
                if request is not None and (task := request.task(namespace)) is not None:
                    self.put(one.request_id, task.counting(one))

    def signals_taken(self, happened: inputs.SignalsTaken) -> list[Effect]:
        self.progress = self.progress.accepting(map(RequestProgress.accepted, happened.requests))
        decided, self.controls = happened.controls != self.controls, happened.controls
        self._decide()
        # What has changed is announced once it is saved, and an idle stream brings no batch by itself.
        return [SaveControls(self.controls), *self._give_up_ended(), MakeBatch()] if decided else []

    def _decide(self) -> None:
        """Bring the requests into the state that operators want."""
        self.progress = replace(
            self.progress, requests=tuple(map(self.controls.applied, self.progress.requests))
        )
        self._overtake()

    def _overtake(self) -> None:
        """Whose turn it is may have changed: a first load that has lost its turn merges from now on."""
        for request, task in queue.overtaken(self.progress):
            self.put(request.id, task.merging())

    def _give_up_ended(self) -> list[Effect]:
        """Give up whatever is under way for tasks that have ended meanwhile."""
        effects: list[Effect] = []
        under_way = [(w.request_id, w.namespace) for w in self.windows.values() if w.request_id is not None]
        for known in dict.fromkeys([*self.scans, *self.opening, *under_way]):
            if self.task(*known).ended:
                effects += self._give_up(*known)
        return effects

    def _give_up(self, request_id: str, namespace: Namespace) -> list[Effect]:
        known = request_id, namespace
        scan = self.scans.pop(known, None)
        if known in self.opening or (scan is not None and scan.planning):
            self._given_up.add(known)
        self.opening.discard(known)
        effects: list[Effect] = []
        for window in self.in_flight.of_task(request_id, namespace):
            effects += self.drop(window)
        return effects

    def rest(self, namespace: Namespace) -> list[Effect]:
        """Drop every window of this collection: chunks that had one get another when their task has its turn again."""
        effects: list[Effect] = []
        for window in [w for w in self.windows.values() if w.namespace == namespace]:
            scan = self.scans.get((window.request_id or "", namespace))
            if scan is not None:
                # Not the first any more: events of its range have landed since, so its range may hold rows.
                scan.retry(Planned(window.order, window.target, window.tries.again()))
            effects += self.drop(window)
        return effects

    def collection_opened(self, happened: inputs.CollectionOpened) -> list[Effect]:
        known = happened.request_id, happened.namespace
        if self._is_over(known):
            return []
        task = self.task(*known)
        found = happened.last.past_id() if happened.last and happened.sharded else happened.last
        task = task.of_whole_ids() if happened.sharded else task
        task = task.opened(found, happened.estimated, ordered_keys=happened.ordered_keys)
        self.put(happened.request_id, task)
        self.opening.discard(known)
        # Whether its table is empty, or (an empty collection) that it is done already: a batch says.
        return [MakeBatch()]

    def collection_failed(self, happened: inputs.CollectionFailed) -> list[Effect]:
        known = happened.request_id, happened.namespace
        return [] if self._is_over(known) else self.fail_task(*known, happened.error)

    def _is_over(self, known: tuple[str, Namespace]) -> bool:
        """Whether the task has ended while this answer to it was on its way. Its request may be forgotten by now."""
        if self.progress.request(known[0]) is not None:
            return self.task(*known).ended
        over = known in self._given_up
        self._given_up.discard(known)
        return over

    def fail_task(self, request_id: str, namespace: Namespace, error: str) -> list[Effect]:
        """End the task of ``request_id`` in this collection because of ``error``, a sentence for operators, and give up
        its windows. A task that has ended stays as it is."""
        task = self.task(request_id, namespace)
        if task.ended:
            return []
        self.put(request_id, task.failed(error))
        return [*self._give_up(request_id, namespace), MakeBatch()]

    def chunks_planned(self, happened: inputs.ChunksPlanned) -> list[Effect]:
        known = happened.request_id, happened.namespace
        scan = self.scans.get(known)
        if scan is not None and happened.resumed == self.task(*known).resumed:
            scan.plan(happened.bounds, exhausted=happened.exhausted)
            scan.docs = min(scan.docs, happened.docs or scan.docs)
            scan.document_bytes = scan.document_bytes or happened.document_bytes
        return []

    def fail_window(self, window: Window, error: str, tries: Tries | None) -> list[Effect]:
        """Drop a window because of ``error``. Its chunk gets another one behind so many ``tries``, as long as these are
        not used up; None: it is not worth one."""
        effects = self.drop(window, error)
        if window.request_id is None:
            # Its ids are still in progress.rereads. The next batch is soon enough: an error that stays must not spin.
            self.rereads_rest.add(window.namespace)
            return effects
        if tries is None or self.limits.used_up(tries):
            return effects + self.fail_task(window.request_id, window.namespace, error)
        scan = self.scans[window.request_id, window.namespace]
        scan.retry(Planned(window.order, window.target, tries))
        return effects

    def drop(self, window: Window, why: str = "") -> list[Effect]:
        """Take a window out of flight; ``why``, if the machine itself found something wrong with it. The buffer of one
        that is being landed stays until that is over."""
        window.ends("given up")
        del self.windows[window.id]
        self.missed.pop(window.id, None)
        return [] if self._lands(window) else [Discard(window.id, window.namespace, landed=False, why=why)]

    def _lands(self, window: Window) -> bool:
        return self.landing is not None and self.landing.closes(window.id)

    # What to do next

    def next_requests(self) -> list[Effect]:
        if not self.ready:
            return []
        self._overtake()  # the turn also passes on when a blocking request ends
        turns = self.turns()[: self.limits.tasks_ahead]
        effects = self._let_go({(request.id, task.namespace) for request, task in turns})
        effects += self._scan([turn for turn in turns if turn[1].state is TaskState.RUNNING])
        for request, task in turns:
            key = (request.id, task.namespace)
            if task.state is TaskState.WAITING and not self.draining and key not in self.opening:
                self.opening.add(key)
                within, floor = task.range, self.in_flight.floor
                effects.append(OpenCollection(*key, task.filter, floor, within, task.reconcile))
        resting = self.draining or self.behind or queue.blocking(self.progress) is not None
        return effects if resting else effects + self._reread()

    def turns(self) -> list[Task]:
        """Tasks that have their turn, and their collection for themselves."""
        return [
            (r, t) for r, t in queue.active(self.progress) if not self.in_flight.others(r.id, t.namespace)
        ]

    def _let_go(self, turns: set[tuple[str, Namespace]]) -> list[Effect]:
        """Drop windows that would wait in flight for a chunk that gets none now: they are read again in their turn."""
        effects: list[Effect] = []
        for key, scan in self.scans.items():
            for window in self.in_flight.of_task(*key) if key not in turns else ():
                if scan.behind_a_gap(window.order) and not self._lands(window):
                    scan.retry(Planned(window.order, window.target, window.tries.again()))
                    effects += self.drop(window)
        return effects

    def _scan(self, turns: list[Task]) -> list[Effect]:
        """Windows for the chunks that are planned, and plans for the next ones. Where requests are equally urgent, each
        collection gets its share of the windows first, or the first one would take all. What is left is given out by
        turns, once it is known that nobody else has a use for it.
        """
        effects: list[Effect] = []
        for request, task in turns:
            equals = sum(other.priority == request.priority for other, _ in turns)
            awaited = self._awaited(t for t in turns if t[0].priority > request.priority)
            effects += self._fill(request, task, ONE_WINDOW if awaited else equals)
        for request, task in turns:
            if not self._awaited(t for t in turns if t[1] is not task):
                effects += self._fill(request, task, 1)
        for request, task in turns:
            effects += self._plan(request, task)
        return effects

    def _awaited(self, turns: Iterable[Task]) -> bool:
        """Whether one of them will have chunks once the source has said where they end; behind a filter that may take
        minutes."""
        return any(self._scan_of(*turn).awaits or self._held_back(turn[1]) for turn in turns)

    def _held_back(self, task: TaskProgress) -> bool:
        """Whether it gets no window before the batch in hand has landed: it reads the documents of the table's rows,
        and those of the batch are not there yet."""
        return task.reconcile and task.filter is not None and self.landing is not None

    def _scan_of(self, request: RequestProgress, task: TaskProgress) -> Scan:
        key = (request.id, task.namespace)
        if key not in self.scans:
            self.scans[key] = Scan.of(task, self.limits.first_docs(), self.limits.reread_ids)
        return self.scans[key]

    def _fill(self, request: RequestProgress, task: TaskProgress, sharers: int) -> list[Effect]:
        """Windows for this collection, until it has its share among so many, or all are taken."""
        if self._held_back(task):
            return []
        scan = self._scan_of(request, task)
        slots = self._slots(scan)
        share = max(1, slots // sharers)
        effects: list[Effect] = []
        while not self.behind and (scan.retries or self._has_room(request, task, share, slots)):
            # A chunk that failed gets its window at once, while draining too: those behind it in the scan wait for it.
            planned = scan.take(begun_only=self.draining)
            if planned is None:
                break
            exact = request.blocking
            window = self.in_flight.chunk(request.id, task, planned, exact=exact)
            for other in self.in_flight.giving_way(task.namespace, window.may_read):
                effects += self.drop(other)
            effects += self._low_of(window) if exact else [WriteLow(window.id, window.namespace)]
        return effects

    def _has_room(self, request: RequestProgress, task: TaskProgress, share: int, slots: int) -> bool:
        """Windows that are being landed take no room, so the next ones are read meanwhile, except where that would hold
        up changes. A window takes room by the size of its chunk: of small ones there may be more."""
        in_flight = self.windows.values() if self.yields else self.in_flight.not_landing(self.landing)
        taken = Counter((w.request_id, w.namespace) for w in in_flight)
        # In fractions: a sum of floats may miss the 1 at which the room is full.
        load = sum(Fraction(count, self._slots_of(key, slots)) for key, count in taken.items())
        return taken[request.id, task.namespace] < share and load + Fraction(1, slots) <= 1

    def _slots_of(self, key: tuple[str | None, Namespace], unknown: int) -> int:
        """How many windows of this kind would fill the room; ``unknown`` for those that belong to no scan."""
        request_id, namespace = key
        scan = None if request_id is None else self.scans.get((request_id, namespace))
        return unknown if scan is None else self._slots(scan)

    def _slots(self, scan: Scan) -> int:
        """Windows like these that may be in flight, by how many documents they hold, and by how many bytes."""
        return min(
            self._slots_by_rows(scan.docs), self.limits.slots_by_bytes(scan.docs * scan.document_bytes)
        )

    def _slots_by_rows(self, docs: int) -> int:
        if not self.streams:
            return self.limits.slots(docs)
        most = self.limits.rows_while_streaming if self.yields else self.limits.rows_in_flight
        paced = self.limits.target_lag_seconds is not None
        slots = self.limits.slots(docs, min(self.pace.rows, most) if paced else most)
        # A window more than one commit takes would wait for the next batch, which would carry hardly anything else.
        return min(slots, max(1, self.limits.commit_rows_target // docs)) if self.yields else slots

    def _plan(self, request: RequestProgress, task: TaskProgress) -> list[Effect]:
        """Ask where the next chunks end, ahead of their windows."""
        assert task.last is not None
        scan = self._scan_of(request, task)
        slots = self.limits.slots(scan.docs)
        if scan.planning or scan.exhausted or self.draining or len(scan.ready) >= slots:
            return []
        scan.planning = True
        plan = scan.tail, task.last, scan.docs, slots, scan.closed, task.resumed
        return [PlanChunks(request.id, task.namespace, task.planned_by, *plan)]

    def _low_of(self, window: Window) -> list[Effect]:
        """An exact window's low watermark is the end of the newest batch: nothing has to be written for it."""
        window = self.windows[window.id] = window.low_written(window.floor)
        return [ReadChunk.of(window, window.low, exact=True)]

    def _reread(self) -> list[Effect]:
        """Windows of single ids. A collection's first one takes what there is, each further one opens only if full."""
        effects: list[Effect] = []
        for namespace, waiting in self.progress.rereads.by_collection.items():
            seen = self._looked.get(namespace)
            # By identity: a collection whose ids have not changed keeps its mapping (`core.values.rereads`).
            unchanged = seen is not None and seen[0] is waiting and seen[1] == tuple(self.windows)
            if namespace in self.rereads_rest or unchanged:
                continue
            reading = len(self.in_flight.reading_ids(namespace))
            while reading < self.limits.reread_windows:
                ids = tuple(islice(self.in_flight.free_of(namespace, waiting), self.limits.reread_ids))
                if not ids or (reading and len(ids) < self.limits.reread_ids):
                    break
                window = self.in_flight.single_ids(namespace, ids)
                effects.append(WriteLow(window.id, namespace))
                reading += 1
            self._looked[namespace] = waiting, tuple(self.windows)
        return effects

    def read_whole(self, end: ClusterTime) -> list[Effect]:
        """Where too many ids are to be read again, read the whole collection instead: by one request for all that come
        before it has opened the collection. ``end`` is the end of the batch, by which the request is named."""
        effects: list[Effect] = []
        for namespace, waiting in self.progress.rereads.by_collection.items():
            if len(waiting) <= self.limits.rereads_max:
                continue
            if not self._is_awaited(namespace):
                request = rereads.reading(namespace, waiting, end)
                self.progress = self.progress.accepting([RequestProgress.accepted(request)])
            self.progress = self.progress.without_rereads(namespace, frozenset(waiting))
            for window in self.in_flight.reading_ids(namespace):
                effects += self.drop(window)
        return effects

    def _is_awaited(self, namespace: Namespace) -> bool:
        """Whether a request that nobody stops will open all of the collection from now on."""
        for request in self.progress.requests:
            task = request.task(namespace) if not request.origin.stops else None
            if task is not None and task.state is TaskState.WAITING:
                return (request.id, namespace) not in self.opening
        return False

    def task(self, request_id: str, namespace: Namespace) -> TaskProgress:
        return queue.task_of(self.progress, request_id, namespace)

    def put(self, request_id: str, task: TaskProgress) -> None:
        self.progress = queue.with_task(self.progress, request_id, task)
