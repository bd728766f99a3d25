"""The options of attempts: to connect, to run again, to restart. They are one of the groups of `option_groups`."""

from __future__ import annotations

from snapshotter.configuration.option_values import Flag, Group, Limit, WholeNumber, option
from snapshotter.configuration.patience import (
    INITIAL_MS,
    MOST_MS,
    RECONNECTS,
    RESTARTS,
    Reconnects,
    RestartPolicy,
)


class RetryOptions(Group):
    """What happens after an error that may pass, and after one that has ended the engine."""

    max_retries: WholeNumber = option(
        "errors.max.retries",
        "retries in a row before giving up; -1 is for ever while MongoDB is out of reach, 30 where an operation is "
        "ended, a worker lost or storage refuses, 3 for what nobody knows",
        -1,
        ge=-1,
    )
    wait_ms: WholeNumber = option("retriable.restart.connector.wait.ms", "pause before a retry", 10_000, ge=0)
    connect_attempts: WholeNumber = option(
        "connect.max.attempts",
        "attempts to reconnect to a MongoDB that is away at the start, before the start is given up",
        RECONNECTS,
        ge=1,
    )
    connect_initial_ms: WholeNumber = option(
        "connect.backoff.initial.delay.ms",
        "pause before the first of these attempts; each is twice the one before",
        INITIAL_MS,
        ge=1,
    )
    connect_most_ms: WholeNumber = option(
        "connect.backoff.max.delay.ms", "longest pause between these attempts", MOST_MS, ge=1
    )
    restarts: Flag = option(
        "engine.auto.restart.enabled",
        "restart an engine that has failed by itself, where a restart may cure it, with growing pauses",
        False,
    )
    restarts_max: Limit = option(
        "engine.auto.restart.max.restarts",
        "restarts in a row, each n² + n minutes after the failure before it; unlimited, or -1, is no bound",
        RESTARTS,
        ge=-1,
    )

    @property
    def reconnects(self) -> Reconnects:
        """How a MongoDB that is away at the start is waited for."""
        return Reconnects(self.connect_attempts, self.connect_initial_ms, self.connect_most_ms)

    @property
    def restart_policy(self) -> RestartPolicy:
        """When a failed engine is restarted by itself."""
        most = None if self.restarts_max < 0 else self.restarts_max
        return RestartPolicy(self.restarts, most)
