"""Progress as log lines: for `--log-format json`, where every line of standard error is one JSON object."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

import structlog

from snapshotter.reporting.progress_view import states_of
from snapshotter.reporting.status import Status
from snapshotter.reporting.steps import SpokenSteps, Step
from snapshotter.reporting.views import LINE_SECONDS, SilentView

_log = structlog.get_logger("snapshotter.progress")


class LogView(SilentView):
    """A line at most every ``every_seconds``, and at once where the state of the engine, its health, or a request's
    state changes. ``now`` gives seconds, from any origin."""

    def __init__(
        self, every_seconds: float = LINE_SECONDS, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._every, self._now = every_seconds, now
        self._said_at: float | None = None
        self._said: object = None
        self._steps = SpokenSteps(_say)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._steps.begin(None)

    def doing(self, what: str | None) -> None:
        self._steps.begin(what)

    def update(self, status: Status) -> None:
        states, now = states_of(status), self._now()
        if self._said_at is not None and now - self._said_at < self._every and states == self._said:
            return
        self._said_at, self._said = now, states
        _log.info(
            "progress",
            engine=status.name,
            state=status.state.value,
            health=status.health,
            lag_seconds=status.lag_seconds,
            events=status.events_total,
            events_per_second=round(status.events_per_second, 1),
            requests={r.id: r.state.value for r in status.requests if not r.state.ended},
        )

    def message(self, text: str) -> None:
        _log.warning(text)

    def announce(self, text: str) -> None:
        _log.info(text)


def _say(step: Step) -> None:
    _log.info(step.what, seconds=step.seconds)
