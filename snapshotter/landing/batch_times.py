"""How long batches take, and how long changes wait for theirs.

A change that comes behind the end of a batch waits until that batch has landed, and then for its own: it was there, at
the earliest, when the batch before its own began.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class BatchTimes:
    """The times of one query's batches, which come one after the other. ``seconds``: how long the newest batch that has
    landed took."""

    seconds: float = 0.0
    clock: Callable[[], float] = time.monotonic
    _began: float | None = None
    _before: float | None = None

    def begin(self) -> None:
        self._before, self._began = self._began, self.clock()

    def land(self) -> float | None:
        """Seconds since the batch before this one began; None if there was none."""
        if self._began is None:
            raise RuntimeError("no batch has begun")
        now = self.clock()
        self.seconds = now - self._began
        return None if self._before is None else now - self._before
