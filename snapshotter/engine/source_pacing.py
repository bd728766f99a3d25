"""How the source is paced: how soon the next batch is wanted, how large it is to be, and whether the position may move.

What the source is to do stands in a file that it reads (`snapshotter.engine.hints`).

Behind a landing that has copied much, changes wait for the next one (`core.rules.commit_interval`). Nothing else does:
whatever a request, a window or a stop needs a batch for ends the wait. Signals are looked for ahead of the stream
meanwhile (`Run.holding`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.core.machine import Machine
from snapshotter.core.rules.commit_interval import BY_COST, CommitInterval
from snapshotter.engine.hints import HintsWriter
from snapshotter.landing.batch_times import BatchTimes
from snapshotter.landing.batch_trailer import BatchTrailer
from snapshotter.landing.targets.target import Landed
from streaming.positions import ClusterTime
from streaming.source import admission
from streaming.source.change_options import ChangeOptions

_log = structlog.get_logger("snapshotter.pacing")

HOLD_SECONDS = 120
"""How far the source may get ahead while the stream waits for a blocking request. Then the stream goes on for a batch,
and what is read after that is as of the new position. A server remembers five minutes
(``minSnapshotHistoryWindowInSeconds``)."""
_OPENING_SECONDS = 10.0
_NO_END = 1 << 31
_WORTH_TELLING = 5.0


@dataclass(slots=True)
class SourcePacing:
    """The pacing of one run. ``wait_seconds``: how long READs may wait for more of their kind while changes stream.
    ``streams_at``: until then (by the monotonic clock) the position stands still where the first batch has put it.
    ``fresh``: no batch has been saved yet, and changes have waited since the position was taken. A first load is opened
    before they land, because it is appended only to an empty table. ``full``: whether the stream has to wait for what
    lies behind it. ``interval``: how soon a landing may follow another. ``streams``: the newest batch holds events."""

    hints: HintsWriter
    wait_seconds: int
    bytes_per_event: float
    streams_at: float
    fresh: bool
    full: Callable[[], bool] = lambda: False
    interval: CommitInterval = BY_COST
    times: BatchTimes = field(default_factory=BatchTimes)
    streams: bool = False
    _opens_by: float = math.inf
    _ended: ClusterTime | None = None
    _least: float = 0.0
    _lands_at: float = -math.inf
    _told: float = _WORTH_TELLING

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
        self.hints.wait(self._wait(machine))
        self.hints.hold(HOLD_SECONDS if machine.holding else 0)

    def _wait(self, machine: Machine) -> int:
        """By how many seconds the stream has to be ahead for a batch to be worth while."""
        if self.waits(machine):
            return self.interval.ahead(self._least, self.hints.events_per_second)
        # Without events a batch is as cheap as its READs, and the sooner the better.
        enough = machine.limits.commit_rows_target
        waits = machine.in_flight.worth_waiting(machine.landing, enough) and not machine.scheduler.draining
        # The source counts from the end of the newest batch, so from the moment when that began.
        longest = self.wait_seconds + math.ceil(self.times.seconds)
        return longest if waits and self.streams and self.wait_seconds else 0

    def waits(self, machine: Machine) -> bool:
        """Whether changes wait for the next landing, and nobody else does: nothing is being read, to be read, or to be
        saved, and the engine does not stop."""
        early = self.times.clock() < self._lands_at
        return early and machine.finished and not machine.scheduler.draining

    def lands_in(self, machine: Machine) -> float | None:
        """For how many seconds changes still wait for the next landing; None where they do not."""
        return self._lands_at - self.times.clock() if self.waits(machine) else None

    def _opening(self, machine: Machine | None) -> bool:
        if not self.fresh or machine is None:
            return self.fresh
        return machine.opening and time.monotonic() < self._opens_by

    def land(self, landed: Landed) -> float | None:
        """A batch has ``landed`` just now, so and so dear; returns what `BatchTimes.land` does."""
        waited, costs = self.times.land(), landed.costs
        if costs:
            self._least = seconds = self.interval.after(costs)
            self._lands_at = self.times.clock() - self.times.seconds + seconds
            if self.interval.seconds is None and seconds > self._told:
                self._told = 2 * seconds
                copied = sum(cost.copied for cost in costs)
                _log.info("changes wait: landings copy much", seconds=round(seconds), copied_bytes=copied)
        return waited

    def learn(self, trailer: BatchTrailer) -> None:
        """A batch has landed: how dense its events were says how large the next one is to be, and of what."""
        self.hints.meet(trailer.namespaces)
        if self._ended is not None:
            weight = admission.weight(trailer.events, trailer.size_bytes, self.bytes_per_event)
            self.hints.learn(weight, trailer.end.t - self._ended.t)
        self._ended = trailer.end


def pacing_of(
    config: EngineConfig,
    hints: HintsWriter,
    streams_at: float,
    *,
    fresh: bool,
    full: Callable[[], bool],
    once: bool,
) -> SourcePacing:
    """The pacing of a run under this ``config``; ``hints``, ``streams_at``, ``fresh`` and ``full`` as of
    `SourcePacing`. ``once``: it is to end with what there is, so no landing is put off."""
    source = ChangeOptions.parse(config.source_options)
    interval = CommitInterval(0.0 if once else config.commit_seconds, source.max_events)
    waits = config.wait_seconds, source.bytes_per_event, streams_at
    return SourcePacing(hints, *waits, fresh=fresh, full=full, interval=interval)
