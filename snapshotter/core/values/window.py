"""The watermark window: the rule file of one chunk's read.

A window guards one chunk. Its two watermarks bound the time in which the chunk was read, so that a streamed
event with a time after the low watermark is known to be newer than, or already part of, what was read (DBLog,
section 3.3).

Its states and steps are a table, ``STEPS``.

Rules (each has its test; see docs/PROTOCOL.md)
- A window is registered before its low watermark is written, and keys are kept from then on. ``floor`` is the
  end of the newest batch that arrived before: its keys were not kept, so the effective low is never below it.
- The high watermark is written only once every cursor of the chunk is exhausted, and must not lie before the
  time at which any reader ended.
- Watermarks travel in the stream (``insert_insert``, ``insert_delete``) and must be seen there; with
  ``cluster_time`` the acknowledged time is the watermark.
- An acknowledged watermark that a batch passed without showing it was filtered out of the stream: fail
  closed.
- An open document that vanishes before the window closes invalidates the window.
- An ``exact`` window (of a blocking request) has no watermarks in the stream: its chunk is read as of one
  moment, the end of the newest batch, which is its low watermark, its high one, and every reader's end.

A window that fails is thrown away whole; its chunk is read again in a new window with a new number.
A step that the state does not allow (``WindowMisuse``) is the caller's fault and changes nothing.

Pure: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from snapshotter.core.values.chunks import Target
from snapshotter.core.values.states import Steps
from snapshotter.core.values.tries import FIRST, Tries
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime


class WindowState(StrEnum):
    REGISTERED = "registered"
    OPEN = "open"
    READ = "read"
    CLOSING = "closing"


STEPS: Steps[WindowState] = Steps(
    WindowState.REGISTERED,
    {
        WindowState.REGISTERED: {"low watermark written": (WindowState.OPEN,), "given up": (None,)},
        WindowState.OPEN: {"chunk read": (WindowState.READ,), "given up": (None,)},
        WindowState.READ: {"high watermark written": (WindowState.CLOSING,), "given up": (None,)},
        WindowState.CLOSING: {"landed": (None,), "given up": (None,)},
    },
)
"""``landed``: by a batch that ends at or after the high watermark."""


class Edge(StrEnum):
    """What a batch showed of a window: its low or high watermark, or that its open document is gone."""

    LOW = "low"
    HIGH = "high"
    LOST = "lost"


@dataclass(frozen=True, order=True, slots=True)
class WindowId:
    """``run/number``: a run never closes the windows of another."""

    run: str
    number: int

    def __str__(self) -> str:
        return f"{self.run}/{self.number}"


@dataclass(frozen=True, slots=True)
class WatermarkObservation:
    """A watermark found in a batch."""

    window: WindowId
    edge: Edge
    time: ClusterTime


class WindowError(Exception):
    """The window is of no use any more: its chunk is read again in another one."""


class WindowMisuse(Exception):
    """The caller's fault: a step that the window's state does not allow. The message shows both; nothing
    changed."""


class WatermarkHidden(WindowError):
    """An acknowledged watermark never came through the stream: something filters the signal collection
    out."""


@dataclass(frozen=True, slots=True)
class Window:
    """One chunk in flight. ``order`` is its place in the scan of its task; ``tries`` are those before it. The cluster
    time of each watermark is noted twice: as its write was acknowledged, and as a batch showed it (``low_seen``,
    ``high_seen``); unless it is ``in_stream`` the two are one. ``ended`` is the latest cluster time of a reader."""

    id: WindowId
    request_id: str | None
    namespace: Namespace
    target: Target
    filter: str | None
    order: int
    floor: ClusterTime
    in_stream: bool
    tries: Tries = FIRST
    state: WindowState = WindowState.REGISTERED
    low_acknowledged: ClusterTime | None = None
    high_acknowledged: ClusterTime | None = None
    low_seen: ClusterTime | None = None
    high_seen: ClusterTime | None = None
    ended: ClusterTime | None = None
    rows: int = 0
    ordered_keys: bool = True
    reconcile: bool = False
    rewrite: bool = False
    exact: bool = False

    def low_written(self, time: ClusterTime) -> Window:
        state = self._after("low watermark written")
        seen = self.low_seen if self.in_stream else time
        return replace(self, state=state, low_acknowledged=time, low_seen=seen)

    def chunk_read(self, ended: ClusterTime, rows: int) -> Window:
        state = self._after("chunk read")
        if self.exact and ended != self.low:
            raise WindowError(f"window {self.id}: read as of {ended}, not of {self.low} as it was asked to")
        return replace(self, state=state, ended=ended, rows=rows)

    def high_written(self, time: ClusterTime) -> Window:
        state = self._after("high watermark written")
        if self.ended is not None and time < self.ended:
            raise WindowError(
                f"window {self.id}: its high watermark {time} lies before a reader's end {self.ended}"
            )
        seen = self.high_seen if self.in_stream else time
        return replace(self, state=state, high_acknowledged=time, high_seen=seen, tries=self.tries.reached())

    def observed(self, observation: WatermarkObservation) -> Window:
        """Note a watermark that a batch showed."""
        if observation.edge is Edge.LOST:
            if self.high_seen is not None:
                return self  # it has done its work
            raise WindowError(f"window {self.id}: its open document was deleted before the window closed")
        if observation.edge is Edge.LOW:
            if self.low_seen is not None:
                raise WindowError(f"window {self.id}: a second low watermark at {observation.time}")
            return replace(self, low_seen=observation.time)
        if self.low_seen is None:
            raise WindowError(f"window {self.id}: a high watermark at {observation.time} before any low one")
        if self.high_seen is not None:
            raise WindowError(f"window {self.id}: a second high watermark at {observation.time}")
        return replace(self, high_seen=observation.time)

    def check_passed(self, end: ClusterTime) -> None:
        """A batch up to ``end`` must have shown every watermark acknowledged up to there. A high one must not
        lie before a reader's end (somebody else deleted the open document of ``insert_delete``)."""
        if self.ended is not None and self.high_seen is not None and self.high_seen < self.ended:
            raise WindowError(
                f"window {self.id}: its high watermark was seen at {self.high_seen}, "
                f"before a reader's end {self.ended}"
            )
        for edge, acknowledged, seen in (
            (Edge.LOW, self.low_acknowledged, self.low_seen),
            (Edge.HIGH, self.high_acknowledged, self.high_seen),
        ):
            if acknowledged is not None and acknowledged <= end and seen is None:
                raise WatermarkHidden(
                    f"window {self.id} of {self.namespace}: its {edge} watermark was acknowledged at "
                    f"{acknowledged}, but the stream has passed {end} without it. Check "
                    f"signal.data.collection against capture.scope and capture.target: inserts, and deletes with "
                    f"insert_delete, must reach the stream."
                )

    @property
    def read_after(self) -> ClusterTime:
        """Readers must see a state at or after this time."""
        if self.low_acknowledged is None:
            raise WindowError(f"window {self.id} has no low watermark yet")
        return max(self.low_acknowledged, self.floor)

    @property
    def low(self) -> ClusterTime:
        """The effective low watermark: an event after it supersedes a READ of the window."""
        if self.low_seen is None:
            raise WindowError(f"window {self.id}: its low watermark has not been seen")
        return max(self.low_seen, self.floor)

    def closes_by(self, end: ClusterTime) -> bool:
        """Whether a batch that ends at ``end`` holds every event up to the high watermark."""
        if self.state is not WindowState.CLOSING or self.high_seen is None or self.low_seen is None:
            return False
        return (self.ended is None or self.ended <= self.high_seen) and self.high_seen <= end

    def may_read(self, key: str) -> bool:
        """Whether the window may read the id of this key. Under a collation a range may hold any, and so may ids that
        an operator wrote (another spelling may be equal to them there)."""
        if not self.ordered_keys:
            return True
        return self.target.holds(key)

    def ends(self, step: str) -> None:
        """By being ``landed``, or ``given up``. Raises WindowMisuse where its state does not allow that."""
        if not STEPS.leads(self.state, step, None):
            raise WindowMisuse(f"window {self.id}: {step} while {self.state}")

    def _after(self, step: str) -> WindowState:
        """The state that this step leads to. Raises WindowMisuse where this one does not allow it."""
        if not STEPS.allows(self.state, step):
            expected = " or ".join(STEPS.sources(step))
            raise WindowMisuse(f"window {self.id}: {step} while {self.state}, expected {expected}")
        (state,) = STEPS.table[self.state][step]
        assert state is not None, "a window that has ended is no window"
        return state
