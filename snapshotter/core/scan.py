"""The moving part of one task: which chunks are planned, which are in flight, which close next.

Lives in memory only. After a restart a new scan starts at the task's frontier, so whatever was planned or in flight
is planned anew.

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
    """``tail`` is the end of the last planned chunk; chunks close in ``order``, one after the other, so that the
    frontier is always the end of an unbroken run of landed chunks. ``reached`` is the end of the last chunk that has a
    window; ``docs`` the size of the chunks to plan next."""

    tail: Bound | None
    docs: int
    ready: deque[Planned] = field(default_factory=deque)
    retries: deque[Planned] = field(default_factory=deque)
    reached: Bound | None = None
    planning: bool = False
    exhausted: bool = False
    next_order: int = 0
    next_close: int = 0

    def plan(self, bounds: tuple[Bound, ...], *, exhausted: bool) -> None:
        self.planning = False
        self.exhausted = exhausted
        for bound in bounds:
            self.ready.append(Planned(self.next_order, KeyRange(self.tail, bound)))
            self.tail = bound
            self.next_order += 1

    def take(self) -> Planned | None:
        """The next chunk to open a window for; a chunk that failed comes first, for others wait for it to close."""
        if self.retries:
            return self.retries.popleft()
        if not self.ready:
            return None
        planned = self.ready.popleft()
        self.reached = planned.range.upto
        return planned

    def retry(self, planned: Planned) -> None:
        """Windows may fail in any order, but the earliest chunk is always the one that the frontier waits for."""
        self.retries.append(planned)
        self.retries = deque(sorted(self.retries, key=lambda p: p.order))

    @property
    def complete(self) -> bool:
        """Every chunk up to the end of the scan has landed."""
        return self.exhausted and not self.planning and self.next_close == self.next_order
