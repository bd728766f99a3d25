"""What is counted for the figures, from the start of the engine on, whatever runs it has.

It listens to what the engine does anyway: to inputs of the machine and its effects, to batches once they have landed.
What is added up is a few numbers a batch and a window, never one an event or a row. Nothing is decided by it.

Invariant: only names of the catalogue are counted; any other one is a mistake, and raises KeyError.

The clocks are given. Any thread may count, and any may ask.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from snapshotter.core.values.effects import Discard, Effect, ReadChunk
from snapshotter.core.values.inputs import BatchLanded, ChunkRead, Input, WindowFailed
from snapshotter.core.values.window import WindowId
from snapshotter.landing.batch_trailer import BatchTrailer
from snapshotter.landing.targets.target import Landed
from snapshotter.metrics.catalogue import COUNTED
from snapshotter.metrics.figures import Lag, Number
from streaming.namespaces import Namespace

LOOKS = 600
"""Of so many looks the lag's statistics are; the engine looks about once a second."""


@dataclass(slots=True)
class Phases:
    """The time of one batch, cut where one phase ends and the next one begins."""

    clock: Callable[[], float] = time.monotonic
    seconds: dict[str, float] = field(default_factory=dict)
    _since: float = field(init=False)

    def __post_init__(self) -> None:
        self._since = self.clock()

    def end(self, phase: str) -> None:
        """The phase of this name ends now."""
        now = self.clock()
        self.seconds[phase], self._since = now - self._since, now


@dataclass(slots=True)
class Tally:
    """``clock`` tells seconds since the epoch."""

    clock: Callable[[], float] = time.time
    _counts: dict[str, dict[str, Number]] = field(default_factory=lambda: {name: {} for name in COUNTED})
    _lags: deque[Number] = field(default_factory=lambda: deque(maxlen=LOOKS))
    _held: dict[WindowId, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str, amount: Number = 1, part: str = "") -> None:
        """Count ``amount`` more under a ``name``, for this ``part`` (the value of the figure's label). Raises KeyError
        for a name that no figure has."""
        with self._lock:
            counted = self._counts[name]
            counted[part] = counted.get(part, 0) + amount

    def put(self, name: str, value: Number) -> None:
        """The number under a ``name`` is now this ``value``. Raises KeyError for a name that no figure has."""
        with self._lock:
            self._counts[name][""] = value

    def counts(self) -> dict[str, dict[str, Number]]:
        """All that was counted, as it is now."""
        with self._lock:
            return {name: dict(counted) for name, counted in self._counts.items()}

    def looked(self, lag_ms: Number | None) -> Lag | None:
        """Note the lag of this look, if it is known; the statistics of the last ones."""
        if lag_ms is not None:
            self._lags.append(lag_ms)
        return Lag.of(self._lags)

    def run_begins(self) -> None:
        """What was in flight in the run before is gone."""
        self._held.clear()
        self.put("bytes_read", 0)
        self.put("bytes_landing", 0)

    def note(self, happened: Input, effects: Iterable[Effect]) -> None:
        """Note what an input of the machine and its effects say of windows. By one run at a time, under its lock."""
        match happened:
            case ChunkRead():
                self.add("documents_read", happened.rows)
                self.add("chunks_read")
                self.add("chunk_read_seconds", happened.seconds)
                self.put("last_read", self.clock())
                if happened.window in self._held:  # else it was given up meanwhile
                    self._held[happened.window] = happened.size_bytes
            case WindowFailed() if not happened.definite:
                self.add("retries", part="window")
            case BatchLanded():
                outcomes = happened.outcomes.values()
                self.add("reads_superseded", sum(outcome.superseded for outcome in outcomes))
                self.add("reads_unchanged", sum(outcome.unchanged for outcome in outcomes))
                self.add("rows_landed", sum(o.kept - o.unchanged for o in outcomes), "read")
                self.add("rows_landed", sum(outcome.deleted for outcome in outcomes), "missing")
            case _:
                pass
        for effect in effects:
            match effect:
                case ReadChunk():
                    self._held[effect.window] = 0
                case Discard():
                    self._held.pop(effect.window, None)
                    self.add("windows", part="landed" if effect.landed else "given_up")
                case _:
                    continue
        self.put("bytes_read", sum(self._held.values()))

    def batch_arrived(self, trailer: BatchTrailer) -> None:
        """A batch has been read, and is about to land."""
        self.put("bytes_landing", trailer.size_bytes)

    def batch_landed(
        self, trailer: BatchTrailer, signals: Namespace | None, landed: Landed, phases: Phases
    ) -> None:
        """A batch has landed and is saved: what was in it (``trailer``; what came in the collection ``signals`` is no
        data), what its state tables did of it (``landed``), and how long its ``phases`` took."""
        counted = {n: ops for n, ops in trailer.operations.items() if n != signals}
        events = sum(sum(ops.values()) for ops in counted.values())
        for ops in counted.values():
            for op, number in ops.items():
                self.add("events_seen", number, op)
        self.add("batches")
        self.put("bytes_landing", 0)
        read_ms = round(1000 * phases.seconds["read"])
        if events:
            self.put("last_landed", self.clock())
            self.put("poll_ms", read_ms)
        else:
            self.add("empty_polls")
            self.put("empty_poll_ms", read_ms)
        for phase, seconds in phases.seconds.items():
            self.add("batch_seconds", seconds, phase)
        for table in landed.collections.values():
            if table.wrote:
                self.add("commits")
                self.add("copied_bytes", table.cost.copied)
                self.add("commit_seconds", table.decode_seconds, "decode")
                self.add("commit_seconds", table.write_seconds, "write")
                self.add("rows_landed", table.events - table.deletes, "change")
                self.add("rows_landed", table.deletes, "delete")
