"""How long an engine waits for what is away, and how often it is restarted: two values. Pure.

``snapshotter.engine.connecting`` and ``snapshotter.engine.auto_restart`` go by them.
"""

from __future__ import annotations

from dataclasses import dataclass

RESTARTS = 7
RECONNECTS = 16
INITIAL_MS = 1_000
MOST_MS = 120_000
_DOUBLED_MAX = 62


@dataclass(frozen=True, slots=True)
class Reconnects:
    """How often, and after which pauses, a server that is away at the start is tried again: the first pause is
    ``initial_ms``, and each is twice the one before, ``most_ms`` at most."""

    attempts: int = RECONNECTS
    initial_ms: int = INITIAL_MS
    most_ms: int = MOST_MS

    def pause_ms(self, attempt: int) -> int:
        """The pause before this attempt to reconnect, counted from 1."""
        return min(self.initial_ms << min(attempt - 1, _DOUBLED_MAX), self.most_ms)


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """``most`` restarts in a row; None for no bound. ``minute_ms`` is how long a minute of the back-off takes."""

    enabled: bool = False
    most: int | None = RESTARTS
    minute_ms: float = 60_000

    def wait_ms(self, count: int) -> float:
        """How long to wait after so many restarts in a row: n² + n minutes."""
        return (count * count + count) * self.minute_ms
