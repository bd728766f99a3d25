"""The moving part of one task: which chunks are planned, which are in flight, which close next.

Lives in memory only. After a restart a new scan starts at the task's frontier, so whatever was planned or in
flight is planned anew.

Invariants
- Chunks join without a gap, from the frontier to the end of the scan: the last of them always ends at
  ``last``, also when the document there is gone, for an id that appears between the last document found and
  ``last`` must lie in some window (a first load does not land its events).
- Chunks close in ``order``, one after the other, so the frontier is always the end of an unbroken run.

Pure: standard library only.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from snapshotter.core.chunks import Bound, KeyRange


@dataclass(frozen=True, slots=True)
class Planned:
    """A chunk that waits for a window: its place in the scan, its range, and which attempt this is."""

    order: int
    range: KeyRange
    attempt: int = 1


@dataclass(slots=True)
class Scan:
    """``tail`` is the end of the last planned chunk, ``last`` that of the scan. ``reached`` is the end of the
    last chunk that has had a window; ``docs`` the size of the chunks to plan next."""

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

    def __post_init__(self) -> None:
        self.reached = self.tail
        self.exhausted = self.tail is not None and self.tail.key == self.last.key

    def plan(self, bounds: tuple[Bound, ...], *, exhausted: bool) -> None:
        """Take the answer to ``PlanChunks``. Raises ValueError, and changes nothing, if it cannot be one."""
        if not self.planning:
            raise ValueError(f"chunks planned up to {self.last.key!r}, but none were asked for")
        if not bounds and not exhausted:
            raise ValueError(f"no chunk was planned before {self.last.key!r}, though documents are left")
        if exhausted and not (bounds and bounds[-1].key == self.last.key):
            bounds = (*bounds[:-1], self.last)
        planned = []
        tail = self.tail
        for order, bound in enumerate(bounds, self.next_order):
            if self.ordered_keys and not (
                (tail is None or tail.key < bound.key) and bound.key <= self.last.key
            ):
                raise ValueError(f"chunk ends {[b.key for b in bounds]} do not rise up to {self.last.key!r}")
            planned.append(Planned(order, KeyRange(tail, bound)))
            tail = bound
        self.ready.extend(planned)
        self.tail = tail
        self.next_order += len(planned)
        self.planning = False
        self.exhausted = tail is not None and tail.key == self.last.key

    def take(self, *, begun_only: bool = False) -> Planned | None:
        """The next chunk to open a window for; a chunk that failed comes first, for others wait for it to
        close."""
        if self.retries:
            return self.retries.popleft()
        if begun_only or not self.ready:
            return None
        planned = self.ready.popleft()
        self.reached = planned.range.upto
        return planned

    def retry(self, planned: Planned) -> None:
        """Windows may fail in any order, but the earliest chunk is always the one that the frontier waits
        for."""
        self.retries = deque(sorted([*self.retries, planned], key=lambda p: p.order))

    @property
    def complete(self) -> bool:
        """Every chunk up to the end of the scan has landed."""
        return self.exhausted and not self.planning and self.next_close == self.next_order
