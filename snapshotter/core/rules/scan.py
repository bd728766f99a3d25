"""The moving part of one task: which chunks are planned, which are in flight, which close next.

Lives in memory only. After a restart a new scan starts at the task's frontier, so whatever was planned or in
flight is planned anew.

Invariants
- Chunks join without a gap, from the frontier to the end of the scan: the last of them always ends at
  ``last``, also when the document there is gone, for an id that appears between the last document found and
  ``last`` must lie in some window (a first load does not land its events).
- Chunks close in ``order``, one after the other, so the frontier is always the end of an unbroken run.
- A chunk that has had a window once is never a first attempt again, for events of its range have landed since.

Pure: standard library only.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from snapshotter.core.values.chunks import Bound, KeyList, KeyRange, Target, end_of
from snapshotter.core.values.tasks import TaskProgress
from snapshotter.core.values.tries import FIRST, Tries


@dataclass(frozen=True, slots=True)
class Planned:
    """A chunk that waits for a window: its place in the scan, its range or ids, and what became of those before."""

    order: int
    target: Target
    tries: Tries = FIRST


@dataclass(slots=True)
class Scan:
    """``tail`` is the end of the last planned chunk, ``last`` that of the scan. ``reached`` is the end of the
    last chunk that has had a window; ``docs`` the size of the chunks to plan next. ``closed``: the next chunk begins
    with ``tail`` itself, the lower end of a range that somebody asked for. ``document_bytes``: the size of a document
    as BSON, by the newest that is known of it (0: nothing)."""

    tail: Bound | None
    last: Bound
    docs: int
    ordered_keys: bool = True
    ready: deque[Planned] = field(default_factory=deque)
    retries: deque[Planned] = field(default_factory=deque)
    reached: Bound | None = None
    planning: bool = False
    exhausted: bool = False
    next_order: int = 0
    next_close: int = 0
    closed: bool = False
    document_bytes: int = 0

    def __post_init__(self) -> None:
        self.reached = None if self.closed else self.tail
        self.exhausted = self.tail is not None and self.tail.key == self.last.key and not self.closed

    @classmethod
    def of(cls, task: TaskProgress, docs: int, ids_at_once: int) -> Scan:
        """The scan of a task from its frontier on. Its chunks are planned for ``docs`` documents each; single ids need
        no planning by the source, and come in chunks of ``ids_at_once``."""
        assert task.last is not None
        if task.keys:
            return cls._over(task, ids_at_once)
        lowest = task.range.after if task.range is not None else None
        if task.frontier is None and lowest is not None:
            return cls(lowest, task.last, docs, task.ordered_keys, closed=True)
        return cls(task.frontier, task.last, docs, task.ordered_keys)

    @classmethod
    def _over(cls, task: TaskProgress, ids_at_once: int) -> Scan:
        assert task.last is not None
        rest = [b for b in task.keys if task.frontier is None or task.frontier.key < b.key]
        scan = cls(task.last, task.last, ids_at_once, task.ordered_keys)
        starts = range(0, len(rest), ids_at_once)
        chunks = (KeyList(tuple(rest[start : start + ids_at_once])) for start in starts)
        scan.ready.extend(Planned(order, chunk) for order, chunk in enumerate(chunks))
        scan.next_order = len(scan.ready)
        return scan

    def plan(self, bounds: tuple[Bound, ...], *, exhausted: bool) -> None:
        """Take the answer to ``PlanChunks``. Raises ValueError, and changes nothing, if it cannot be one."""
        if not self.planning:
            raise ValueError(f"chunks planned up to {self.last.key!r}, but none were asked for")
        if not bounds and not exhausted:
            raise ValueError(f"no chunk was planned before {self.last.key!r}, though documents are left")
        if exhausted and not (bounds and bounds[-1].key == self.last.key):
            # The last chunk reaches the end of the scan whatever was found: an id may yet appear before that.
            bounds = (*bounds[:-1], self.last)
        planned: list[Planned] = []
        tail = self.tail
        for order, bound in enumerate(bounds, self.next_order):
            closed = self.closed and not planned
            rises = tail is None or tail.key < bound.key or (closed and tail.key == bound.key)
            if self.ordered_keys and not (rises and bound.key <= self.last.key):
                raise ValueError(f"chunk ends {[b.key for b in bounds]} do not rise up to {self.last.key!r}")
            planned.append(Planned(order, KeyRange(tail, bound, closed)))
            tail = bound
        self.ready.extend(planned)
        self.tail, self.closed = tail, False
        self.next_order += len(planned)
        self.planning = False
        self.exhausted = tail is not None and tail.key == self.last.key

    @property
    def awaits(self) -> bool:
        """Whether its next chunks are yet to be planned: there are more, and none until the source has answered."""
        return not self.ready and not self.exhausted

    def take(self, *, begun_only: bool = False) -> Planned | None:
        """The next chunk to open a window for; a chunk that failed comes first, for others wait for it to
        close."""
        if self.retries:
            return self.retries.popleft()
        if begun_only or not self.ready:
            return None
        planned = self.ready.popleft()
        self.reached = end_of(planned.target)
        return planned

    def retry(self, planned: Planned) -> None:
        """Windows may fail in any order, but the earliest chunk is always the one that the frontier waits
        for."""
        self.retries = deque(sorted([*self.retries, planned], key=lambda p: p.order))

    def behind_a_gap(self, order: int) -> bool:
        """Whether a chunk waits for one before it that has no window at the moment."""
        return bool(self.retries) and self.retries[0].order < order

    @property
    def complete(self) -> bool:
        """Every chunk up to the end of the scan has landed."""
        return self.exhausted and not self.planning and self.next_close == self.next_order
