"""How an engine is, and what it does after it has failed: its health, and restarts by itself.

    run fails --> retried, while `engine.restarts` allows --> the engine has failed --> restarts, while
    `engine.auto_restart` allows --> the process ends

Health turns Broken with the first error that ends a run, and Active again once a run has landed a batch. A change of
health is announced, whatever the channel; that an operator stops the engine is not, for he knows.

The count of restarts is durable (`state.restart_count`): read under the engine's lock, written before the restart that
it counts. Only the control loop calls this.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial

import structlog

from snapshotter.configuration.patience import RestartPolicy
from snapshotter.diagnosis import diagnose
from snapshotter.engine.auto_restart import Count, due_ms, may_restart
from snapshotter.engine.idling import Idling
from snapshotter.errors import describe
from snapshotter.log import warn_of
from snapshotter.reporting.health import Health, health_of
from snapshotter.reporting.status import EngineState, RestartReport, Status
from snapshotter.state.restart_count import keep_count, read_count
from snapshotter.state.storage import Storage, StorageError

_log = structlog.get_logger("snapshotter.engine")
Announce = Callable[[str, Mapping[str, str]], None]


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Recovery:
    """``policy`` says when to restart, and the count of restarts is kept in ``storage``. ``announce`` is given the new
    health and what there is to say of it. ``now_ms`` gives milliseconds since the epoch; nothing here waits by it.
    ``former`` is the status that an earlier life left."""

    def __init__(
        self,
        policy: RestartPolicy,
        storage: Storage,
        announce: Announce,
        *,
        former: Status | None = None,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._policy, self._storage, self._announce, self._now_ms = policy, storage, announce, now_ms
        self._count, self._begun = Count(), False
        self._due_ms: int | None = None
        self._error: BaseException | None = None
        self._healthy_since: int | None = None
        self._announced = _left_by(former)

    def begin(self) -> None:
        """Read what earlier lives have counted. What this one has counted by now, of starts for which the state could
        not be reached, counts where it is more. Call it under the lock. Raises StorageError."""
        kept = read_count(self._storage)
        before = Count() if kept is None else Count.from_json(kept)
        self._count = max(before, self._count, key=lambda count: count.restarts)
        self._begun = True
        if self._count != before:
            keep_count(self._storage, self._count.to_json())

    @property
    def begun(self) -> bool:
        """Whether it knows what earlier lives have counted."""
        return self._begun

    @property
    def enabled(self) -> bool:
        """Whether anything is restarted at all."""
        return self._policy.enabled

    @property
    def restarts(self) -> int:
        """How many there were since the engine was healthy last."""
        return self._count.restarts

    def going_on_from(self, other: Recovery) -> None:
        """Count on from what ``other`` has counted, which has made this engine."""
        self._count = other._count

    def may_restart(self, error: BaseException) -> bool:
        """Whether such an error is one to restart after, however many restarts are left."""
        return self.enabled and may_restart(diagnose(error))

    def keep_going(
        self, live: Callable[[], None], idling: Idling, report: Callable[[EngineState, Exception], None]
    ) -> None:
        """``live``, and again after failures that a restart may cure, as often as the options allow. The wait between
        is one of ``idling``; ``report`` writes the status meanwhile. A stop ends the wait, as it ends a life. Raises
        what has ended the engine for good."""
        while True:
            try:
                live()
                return
            except Exception as error:
                wait = None if idling.stop.is_set() else self.restarts_after(error)
                if wait is None:
                    raise
                failure = error
            idling.wait(wait, partial(report, EngineState.FAILED, failure))
            if idling.stop.is_set():
                return
            (self.by_hand if idling.woken() else self.restarted)()

    def failed(self, error: BaseException) -> None:
        """A run has failed, whatever comes of it."""
        self._error, self._healthy_since = error, None

    def landed(self) -> None:
        """The run under way has landed a batch: the engine is healthy, and after a while its restarts are forgotten."""
        now, self._error = self._now_ms(), None
        self._healthy_since = self._healthy_since or now
        left = self._count.healthy(self._policy, now - self._healthy_since)
        if left != self._count:
            _log.info(
                "healthy for long enough: restarts are counted from 0 again", restarts=self._count.restarts
            )
            self._count = left
            keep_count(self._storage, left.to_json())

    def restarts_after(self, error: BaseException) -> float | None:
        """Seconds to wait before the restart after this error, which has ended the engine; None: it is to end."""
        self.failed(error)
        now, found = self._now_ms(), diagnose(error)
        self._due_ms = due_ms(self._policy, self._count, found, now)
        if self._due_ms is None:
            return None  # whoever runs the engine gets the error, and says it
        told = {**describe(error).fields(), "restarts": self._count.restarts}
        _log.error("the engine has failed, and restarts by itself", at=_moment(self._due_ms), **told)
        return max(0.0, (self._due_ms - now) / 1_000)

    def restarted(self) -> None:
        """The restart begins now: counted first. A count that cannot be kept, because the state is what cannot be
        reached, is this process's own. Raises StorageError where that will not pass."""
        self._count, self._due_ms = self._count.restarted(self._now_ms()), None
        try:
            if self._begun:
                keep_count(self._storage, self._count.to_json())
        except StorageError as error:
            if not diagnose(error).retriable:
                raise
            warn_of(_log, "the count of restarts cannot be kept", error)
        _log.info("restarts", restarts=self._count.restarts)

    def by_hand(self) -> None:
        """An operator did not wait for it: it is not counted."""
        self._due_ms = None
        _log.info("restarts, by hand", restarts=self._count.restarts)

    def look(self, state: EngineState, *, paused: bool) -> dict[str, object]:
        """What the status says of it in this ``state``; ``paused``: an operator has paused the stream. A change of
        health is announced."""
        health = health_of(state, broken=self._error is not None, paused=paused)
        proven = health is not Health.ACTIVE or self._healthy_since is not None
        if health is not self._announced and proven and state is not EngineState.STOPPED:
            self._announced = health
            self._announce(health.value, self._told(state))
        report = RestartReport(
            enabled=self._policy.enabled,
            count=self._count.restarts,
            most=self._policy.most,
            last_at=_moment(self._count.last_ms),
            next_at=_moment(self._due_ms),
        )
        return {"health": health.value, "stream_paused": paused, "restarts": report}

    def _told(self, state: EngineState) -> dict[str, str]:
        told = {"state": state.value}
        if self._error is not None:
            found = describe(self._error)
            told |= {"error": found.message, **found.fields()}
        if (at := _moment(self._due_ms)) is not None:
            told["restarts_at"] = at.isoformat()
        return told


def _left_by(former: Status | None) -> Health:
    """The health that was announced last, as far as an earlier life's status shows it."""
    if former is None:
        return Health.ACTIVE
    if former.health == Health.BROKEN:
        return Health.BROKEN
    return Health.PAUSED if former.stream_paused else Health.ACTIVE


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1_000, UTC)
