"""When a failed engine is restarted by itself: how often, after which waits, and when the count begins anew. Pure.

As Strimzi restarts connectors: the n-th restart (from 0) comes n² + n minutes after the failure before it, so at once,
then after 2, 6, 12, 20, 30 and 42 minutes; the seventh comes 112 minutes after the first failure. An engine that has
been healthy for as long as its next restart would wait has its count back at 0: 2 minutes after one restart, 6 after
two.

What a restart cannot cure is not restarted (`may_restart`). Errors that may pass are retried by runs first
(`engine.restarts`); restarts follow when these retries are used up.

Times are milliseconds since the epoch, handed in by the caller; a `RestartPolicy` says how long its minute is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from snapshotter.configuration.patience import RestartPolicy
from snapshotter.diagnosis import Diagnosis


@dataclass(frozen=True, slots=True)
class Count:
    """Restarts since the engine was last healthy for long enough, and when the newest one was."""

    restarts: int = 0
    last_ms: int | None = None

    def restarted(self, now_ms: int) -> Count:
        return Count(self.restarts + 1, now_ms)

    def healthy(self, policy: RestartPolicy, healthy_ms: float) -> Count:
        """What is left of it after the engine has been healthy for ``healthy_ms``."""
        return (
            Count(0, self.last_ms) if self.restarts and healthy_ms >= policy.wait_ms(self.restarts) else self
        )

    def to_json(self) -> dict[str, Any]:
        return {"restarts": self.restarts, "last_ms": self.last_ms}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Count:
        return cls(int(value["restarts"]), value["last_ms"])


def may_restart(found: Diagnosis) -> bool:
    """Whether a restart in this process can cure what has ended the engine. Not what is definite, not what is of a
    class for a person to cure, and not the end of Spark's JVM, which only a new process survives."""
    return found.fault.may_pass and found.failure.curable


def due_ms(policy: RestartPolicy, count: Count, found: Diagnosis, failed_ms: int) -> int | None:
    """When the engine that failed at ``failed_ms`` because of ``found`` is restarted by this ``policy``; None: it ends.
    ``count`` are the restarts before."""
    if not policy.enabled or not may_restart(found):
        return None
    if policy.most is not None and count.restarts >= policy.most:
        return None
    return failed_ms + int(policy.wait_ms(count.restarts))
