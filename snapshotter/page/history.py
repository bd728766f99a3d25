"""The newest minutes of an engine, as the page showed them: for its curves, and for a recording to be replayed.

Invariants
- A status is noted once, however often it is looked at.
- Frames take `BYTES_MAX` at most, as text: the oldest go first. While nothing is read, and no state changes,
  one in `IDLE_MS` is enough.

For one thread. The clock is the status's own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from snapshotter.page.model import milliseconds, model_of
from snapshotter.page.strip import landed
from snapshotter.reporting.status import RequestState, Status
from snapshotter.reporting.window_log import LandedWindow

FORMAT = 1
BYTES_MAX = 4_000_000
IDLE_MS = 10_000
SAMPLES = 600
Sample = tuple[int, float | None, float]
"""When, the lag in seconds (None: not known), changes a second."""


@dataclass(slots=True)
class History:
    """``frames`` are pairs of a moment and the page's model at it, as text."""

    frames: deque[tuple[int, bytes]] = field(default_factory=deque)
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    _bytes: int = 0
    _states: object = None

    def note(self, status: Status | None) -> None:
        """Keep what the page shows of this ``status``."""
        if status is None or status.updated_at is None:
            return
        at = milliseconds(status.updated_at)
        assert at is not None
        if self.samples and at <= self.samples[-1][0]:
            return
        self.samples.append((at, status.lag_seconds, round(status.events_per_second, 1)))
        idle = all(r.state is not RequestState.RUNNING for r in status.requests) and not status.windows
        states = status.state, tuple((r.id, r.state) for r in status.requests)
        if idle and states == self._states and at - self.frames[-1][0] < IDLE_MS:
            return
        self._states = states
        text = orjson.dumps(model_of(status, status.updated_at))
        self.frames.append((at, text))
        self._bytes += len(text)
        while self._bytes > BYTES_MAX and len(self.frames) > 1:
            self._bytes -= len(self.frames.popleft()[1])

    def recording(self, windows: Iterable[LandedWindow]) -> bytes:
        """All of it as one JSON text, with those of the ``windows`` that landed meanwhile."""
        frames = [{"at": at, "model": orjson.Fragment(text)} for at, text in self.frames]
        since = self.frames[0][0] if self.frames else 0
        shown: list[dict[str, Any]] = [landed(w) for w in windows if 1000 * w.landed_at.timestamp() >= since]
        found = {
            "format": FORMAT,
            "frames": frames,
            "windows": shown,
        }
        return orjson.dumps(found)
