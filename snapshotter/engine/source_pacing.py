"""How the source is paced: how soon the next batch is wanted, how large it is to be, and whether the position may move.

What the source is to do stands in a file that it reads (`snapshotter.engine.hints`)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from snapshotter.core.machine import Machine
from snapshotter.engine.hints import HintsWriter
from snapshotter.landing.batch_times import BatchTimes
from snapshotter.landing.batch_trailer import BatchTrailer
from streaming.positions import ClusterTime
from streaming.source import admission

HOLD_SECONDS = 120
"""How far the source may get ahead while the stream waits for a blocking request. Then the stream goes on for a batch,
and what is read after that is as of the new position. A server remembers five minutes
(``minSnapshotHistoryWindowInSeconds``)."""
_OPENING_SECONDS = 10.0
_NO_END = 1 << 31


@dataclass(slots=True)
class SourcePacing:
    """The pacing of one run. ``wait_seconds``: how long READs may wait for more of their kind while changes stream.
    ``streams_at``: until then (by the monotonic clock) the position stands still where the first batch has put it.
    ``fresh``: no batch has been saved yet, and changes have waited since the position was taken. A first load is opened
    before they land, because it is appended only to an empty table. ``full``: whether the stream has to wait for what
    lies behind it. ``streams``: the newest batch holds events."""

    hints: HintsWriter
    wait_seconds: int
    bytes_per_event: float
    streams_at: float
    fresh: bool
    full: Callable[[], bool] = lambda: False
    times: BatchTimes = field(default_factory=BatchTimes)
    streams: bool = False
    _opens_by: float = math.inf
    _ended: ClusterTime | None = None

    def begin(self) -> None:
        """The machine is there: first loads are being opened from now on."""
        self._opens_by = time.monotonic() + _OPENING_SECONDS

    def update(self, machine: Machine | None) -> None:
        """What is wanted now, as the machine stands; None before the first batch."""
        if time.monotonic() < self.streams_at or self._opening(machine):
            self.hints.hold(_NO_END)
            return
        if machine is None:
            return
        if self.full() and not machine.scheduler.draining:
            self.hints.hold(_NO_END)
            return
        # Without events a batch is as cheap as its READs, and the sooner the better.
        enough = machine.limits.commit_rows_target
        waits = machine.in_flight.worth_waiting(machine.landing, enough) and not machine.scheduler.draining
        # The source counts from the end of the newest batch, so from the moment when that began.
        longest = self.wait_seconds + math.ceil(self.times.seconds)
        self.hints.wait(longest if waits and self.streams and self.wait_seconds else 0)
        self.hints.hold(HOLD_SECONDS if machine.holding else 0)

    def _opening(self, machine: Machine | None) -> bool:
        if not self.fresh or machine is None:
            return self.fresh
        return machine.opening and time.monotonic() < self._opens_by

    def learn(self, trailer: BatchTrailer) -> None:
        """A batch has landed: how dense its events were says how large the next one is to be."""
        if self._ended is not None:
            weight = admission.weight(trailer.events, trailer.size_bytes, self.bytes_per_event)
            self.hints.learn(weight, trailer.end.t - self._ended.t)
        self._ended = trailer.end
