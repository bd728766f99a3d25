"""When requests were asked for, accepted, started and ended, by the clocks of whoever saw it.

Progress has no times: nothing is decided by one (`core`). What operators are told of a request's times is noted here as
it happens, from any thread, and outlives a process in what is written of it: `status.json`, and the status collection.

Invariants
- A time that is noted stays, but for the end of a request that failed and goes on.
- In the order asked, accepted, started, ended no time is before the one to its left, whatever the clocks say.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from snapshotter.core.values.progress import RequestProgress
from snapshotter.core.values.tasks import TaskState

_WAITING_MAX = 10_000
"""Of signals that are no request, or none yet, so many times are kept."""


@dataclass(frozen=True, slots=True)
class Times:
    """Of one request; None where it has not come to that, or nobody saw it. ``asked``: when its signal was sent, by the
    clock of the channel that brought it."""

    asked: datetime | None = None
    accepted: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None


def now() -> datetime:
    return datetime.now(UTC)


class RequestTimes:
    """Thread-safe. ``clock`` gives the time in UTC."""

    def __init__(self, clock: Callable[[], datetime] = now) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._asked: dict[str, datetime] = {}
        self._times: dict[str, Times] = {}

    def __len__(self) -> int:
        return len(self._times)

    def restore(self, known: Mapping[str, Times]) -> None:
        """Begin with the times that an earlier life reported."""
        with self._guard:
            self._times = {**known, **self._times}

    def asked(self, signal_id: str, seconds: float) -> None:
        """A signal that was sent ``seconds`` after the epoch has come; 0 where that is not known. One that was refused
        may be sent again under its id: the newest time counts."""
        with self._guard:
            self._asked.pop(signal_id, None)
            if seconds <= 0:
                return
            self._asked[signal_id] = datetime.fromtimestamp(seconds, UTC)
            while len(self._asked) > _WAITING_MAX:
                del self._asked[next(iter(self._asked))]

    def asked_at(self, signal_id: str) -> datetime | None:
        """When a signal was sent of which nothing has become yet."""
        with self._guard:
            return self._asked.get(signal_id)

    def sent(self, signal_id: str) -> datetime | None:
        """When a signal that is no request was sent; nobody asks twice."""
        with self._guard:
            return self._asked.pop(signal_id, None)

    def started(self, request_id: str) -> None:
        """The first of its collections is looked at."""
        with self._guard:
            self._note(request_id, started=True)

    def look(self, request: RequestProgress) -> Times:
        """Note what a request has come to by now, and return its times."""
        begun = any(task.state is not TaskState.WAITING for task in request.tasks)
        stopped = all(task.state in (TaskState.WAITING, TaskState.STOPPED) for task in request.tasks)
        with self._guard:
            return self._note(request.id, started=begun and not stopped, ended=request.ended)

    def looked(self, requests: Iterable[RequestProgress]) -> None:
        """Note what these have come to."""
        for request in requests:
            self.look(request)

    def of(self, request_id: str) -> Times:
        """What is known of this request."""
        with self._guard:
            return self._times.get(request_id, Times())

    def keep(self, known: Collection[str]) -> None:
        """Forget all other requests: an engine lives long."""
        with self._guard:
            self._times = {i: times for i, times in self._times.items() if i in known}

    def _note(self, request_id: str, *, started: bool, ended: bool | None = None) -> Times:
        before, moment = self._times.get(request_id, Times()), self._clock()
        accepted = before.accepted or moment
        asked = before.asked or self._asked.pop(request_id, None)
        times = replace(
            before,
            asked=None if asked is None else min(asked, accepted),
            accepted=accepted,
            started=before.started or (moment if started else None),
        )
        if ended is not None:
            times = replace(times, ended=(before.ended or moment) if ended else None)
        self._times[request_id] = times
        return times
