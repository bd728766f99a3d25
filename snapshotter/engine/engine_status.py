"""The engine's report of itself: gathered from the run, written beside the state, shown to whoever looks on.

Speeds are of the last seconds, by the clock of this process; nothing is decided by them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import reduce
from types import MappingProxyType
from typing import Any

import structlog
from pymongo import MongoClient

from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import SnapshotRequest
from snapshotter.core.values.suspension import Suspension
from snapshotter.core.values.tasks import TaskProgress, TaskState
from snapshotter.core.values.window import Window
from snapshotter.diagnosis import SUSPENDED, condition_of_text
from snapshotter.engine.gap_reports import gap_report
from snapshotter.engine.run import Run
from snapshotter.errors import describe, redact
from snapshotter.log import warn_of
from snapshotter.metrics.catalogue import measured
from snapshotter.metrics.figures import Look
from snapshotter.metrics.tally import Tally
from snapshotter.reporting.changelogs_report import with_changelogs
from snapshotter.reporting.estimates import ReadingSpeed
from snapshotter.reporting.outcomes import Refused
from snapshotter.reporting.request_states import AFTER_REFUSAL, STATES, after_failure, state_of, type_of
from snapshotter.reporting.request_times import RequestTimes, Times
from snapshotter.reporting.status import (
    STATUS_FILE,
    ChannelReport,
    CollectionReport,
    EngineState,
    ErrorReport,
    NotificationReport,
    Position,
    RequestReport,
    RequestState,
    Status,
    SuspensionReport,
    TableReport,
    WindowReport,
)
from snapshotter.reporting.views import SilentView, View
from snapshotter.state.process import Owner, this_process
from snapshotter.state.storage import Storage
from streaming.mongo.connection_watch import Connection
from streaming.mongo.deployment import connection_of
from streaming.namespaces import Namespace

_log = structlog.get_logger("snapshotter.status")
_WRITE_SECONDS = 1.0
_SPEED_SECONDS = 20.0
_SPEED_DOCUMENTS_MIN = 10_000
_FILTER_SHOWN = 200
_EVENTS = ("", "")
_NOTHING: Mapping[str, object] = MappingProxyType({})


class Speed:
    """Growth of a counter a second, over the last seconds."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()
        self._began: tuple[float, int] | None = None
        self.grew = False

    def at(self, now: float, value: int) -> float:
        if self._points and value < self._points[-1][1]:
            self._points.clear()  # another run counts from zero
        self._began = self._began or (now, value)
        self.grew = self.grew or value > self._began[1]
        self._points.append((now, value))
        while len(self._points) > 2 and now - self._points[0][0] > _SPEED_SECONDS:
            self._points.popleft()
        (then, first), (last, newest) = self._points[0], self._points[-1]
        return (newest - first) / (last - then) if last > then else 0.0

    def since_begin(self, now: float, value: int) -> float:
        """Since the first look."""
        then, first = self._began or (now, value)
        return (value - first) / (now - then) if now > then else 0.0


class Stopwatch:
    """How long something was the case, counted from look to look."""

    def __init__(self) -> None:
        self._total = 0.0
        self._since: float | None = None

    def at(self, now: float, *, runs: bool) -> float:
        """Seconds up to now; from here on they are counted if it ``runs``."""
        if self._since is not None:
            self._total += now - self._since
        self._since = now if runs else None
        return self._total


@dataclass(slots=True)
class StatusWriter:
    """Gathers, writes at most once a second (changes of state at once), and shows. It begins with the times and speeds
    that an earlier life of the engine wrote. ``tally`` is what has been counted for the metrics, ``connection`` tells
    how the connection fares, ``times`` when requests came and went, and ``completed`` adds to a status what others
    know. ``newest``: the newest status, written or not."""

    name: str
    owner: Owner
    storage: Storage
    view: View = field(default_factory=SilentView)
    speed: ReadingSpeed = field(default_factory=ReadingSpeed)
    former: Status | None = None
    """What an earlier life of the engine wrote last."""
    tally: Tally = field(default_factory=Tally)
    connection: Callable[[], Connection] = Connection
    times: RequestTimes = field(default_factory=RequestTimes)
    newest: Status | None = None
    completed: Callable[[Status], Status] = lambda status: status
    _written: float = 0.0
    _state: EngineState | None = None
    _condition: Mapping[str, object] = field(default_factory=dict)
    _error: BaseException | None = None
    _last_error: ErrorReport | None = None
    _former: tuple[RequestReport, ...] = ()
    _speeds: dict[tuple[str, str], Speed] = field(default_factory=dict)
    _pauses: dict[str, Stopwatch] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            text = self.storage.read_text(STATUS_FILE)
            former = None if text is None else Status.from_json(text)
        except Exception as error:  # noqa: BLE001 - it is a report, and an engine starts without it
            warn_of(_log, "times of earlier requests are not known", error)
            return
        if former is None:
            return
        self.former, self._former = former, former.requests
        self.speed.newest = former.snapshot_speed
        known = {
            r.id: Times(r.asked_at, r.accepted_at, r.started_at, r.completed_at) for r in former.requests
        }
        self.times.restore({i: times for i, times in known.items() if times != Times()})

    def write(
        self,
        state: EngineState,
        run: Run | None,
        waiting: Iterable[SnapshotRequest],
        refused: Iterable[Refused],
        error: BaseException | None = None,
        channels: tuple[ChannelReport, ...] = (),
        notifications: tuple[NotificationReport, ...] = (),
        warnings: tuple[str, ...] = (),
        condition: Mapping[str, object] = _NOTHING,
    ) -> None:
        """Write and show the ``state``, unless that was done less than a second ago and neither it nor ``error`` nor
        ``condition`` is new. ``run`` is the newest one, None before the first. ``waiting`` are the requests of the
        journal, of which those that the run knows are left out. ``refused`` are the signals that were. ``error`` is
        what ended the engine, or the run before, and stays in the status as the last one. ``channels``,
        ``notifications`` and ``warnings`` go into the status as they are, and so do the fields of ``condition``. A
        status that cannot be written is only logged."""
        now = time.monotonic()
        known = state is self._state and error is self._error and condition == self._condition
        if known and now - self._written < _WRITE_SECONDS:
            return
        status = self._gather(state, run, waiting, refused, error, now)
        reports = {"channels": channels, "notifications": notifications, "warnings": warnings}
        status = self.completed(status.model_copy(update={**reports, **condition}))
        status = self._with_metrics(status, run)
        self.newest = status
        self._written, self._state, self._condition = now, state, condition
        self.view.update(status)
        try:
            self.storage.write_text(STATUS_FILE, status.to_json())
        except Exception as failure:  # noqa: BLE001 - see below
            # A report that cannot be written must not stop the data; the checkpoint's own writes will fail if
            # the storage is really gone.
            warn_of(_log, "the status cannot be written", failure)

    def _with_metrics(self, status: Status, run: Run | None) -> Status:
        lag = self.tally.looked(None if status.lag_seconds is None else 1000 * status.lag_seconds)
        tables = len(run.progress.tables) if run is not None else 0
        counts = self.tally.counts()
        status = with_changelogs(status, counts)
        look = Look(status, counts, lag, self.connection(), tables)
        return status.model_copy(update={"metrics": measured(look)})

    def _gather(
        self,
        state: EngineState,
        run: Run | None,
        waiting: Iterable[SnapshotRequest],
        refused: Iterable[Refused],
        error: BaseException | None,
        now: float,
    ) -> Status:
        progress = run.progress if run is not None else Progress()
        events = run.events if run is not None else 0
        known = {request.id for request in progress.requests}
        waiting = [request for request in waiting if request.id not in known]
        if progress.batch_id >= 0:  # before the first batch, what is known has not been loaded
            self._forget(known | {request.id for request in waiting})
        if error is not None and error is not self._error:
            self._last_error = _error_report(error)
        self._error = error
        requests = self._requests(progress, waiting, refused, now)
        position = progress.position
        lag = run.head.behind(position) if run is not None and progress.batch_id >= 0 else None
        return Status(
            name=self.name,
            state=state,
            error=None if error is None else self._last_error,
            last_error=self._last_error,
            pid=self.owner.pid,
            host=self.owner.host,
            run_id=run.id if run is not None else None,
            updated_at=datetime.now(UTC),
            batch=progress.batch_id if progress.batch_id >= 0 else None,
            position=Position(t=position.t, i=position.i) if progress.batch_id >= 0 else None,
            lag_seconds=lag,
            next_landing_at=_next_landing(run, progress),
            events_total=events,
            events_per_second=self._speed(_EVENTS, now, events),
            snapshot_speed=self.speed.newest,
            requests=tuple(requests),
            windows=tuple(_window(w) for w in (run.windows if run is not None else ())),
            suspended=tuple(_suspension(n, s) for n, s in sorted(progress.suspended.items())),
            gaps=tuple(gap_report(gap, progress) for gap in progress.gaps if gap.closed is None),
            tables=() if run is None else _tables(run),
        )

    def _requests(
        self,
        progress: Progress,
        waiting: Iterable[SnapshotRequest],
        refused: Iterable[Refused],
        now: float,
    ) -> list[RequestReport]:
        """Those that have begun, those that wait for a batch, those that were rejected; before the first batch of a run
        also what the run before, or an earlier life, reported."""
        requests = [self._request(r, now, progress) for r in progress.requests]
        requests += [self._request(RequestProgress.accepted(r), now, progress) for r in waiting]
        requests += [
            RequestReport(
                id=one.id,
                state=RequestState.REJECTED,
                error=one.why,
                next_step=AFTER_REFUSAL,
                asked_at=one.sent,
                completed_at=one.at,
            )
            for one in refused
        ]
        if progress.batch_id < 0:  # nor been written anew
            shown = {report.id for report in requests}
            requests = [*(report for report in self._former if report.id not in shown), *requests]
        else:
            self._former = tuple(requests)
        return requests

    def _forget(self, known: set[str]) -> None:
        """Keep nothing of requests that nobody remembers, for an engine lives long."""
        self.times.keep(known)
        self._pauses = {i: pause for i, pause in self._pauses.items() if i in known}
        self._speeds = {i: speed for i, speed in self._speeds.items() if i[0] in known or i == _EVENTS}

    def _request(self, request: RequestProgress, now: float, progress: Progress) -> RequestReport:
        times = self.times.look(request)
        collections = tuple(
            self._collection(request, task, now, rests=progress.rests(request, task))
            for task in request.tasks
        )
        paused = self._pauses.setdefault(request.id, Stopwatch())
        failed = [(task.namespace, task.error) for task in request.tasks if task.error]
        errors = [f"{namespace}: {error}" for namespace, error in failed]
        condition = condition_of_text(failed[0][1]) if failed else None
        return RequestReport(
            id=request.id,
            type=type_of(request),
            state=RequestState.SUSPENDED if progress.resting(request) else state_of(request),
            collections=collections,
            reconcile=any(task.reconcile for task in request.tasks),
            asked_at=times.asked,
            accepted_at=times.accepted,
            started_at=times.started,
            completed_at=times.ended,
            error="; ".join(errors) or None,
            next_step=after_failure(request) if errors else None,
            failure=condition.failure.value if condition else None,
            condition=condition.name if condition else None,
            priority=request.priority,
            paused_seconds=round(paused.at(now, runs=request.paused and not request.ended), 1),
            unknown=request.unknown,
        )

    def _collection(
        self, request: RequestProgress, task: TaskProgress, now: float, *, rests: bool
    ) -> CollectionReport:
        done = task.rows + task.superseded
        speed = self._measured(request, task, now, done)
        left = max(0, task.estimated - done) if task.estimated is not None else None
        return CollectionReport(
            name=str(task.namespace),
            state=RequestState.SUSPENDED if rests else STATES[task.state],
            filter=None if task.filter is None else task.filter[:_FILTER_SHOWN],
            keys=len(task.keys) or None,
            range=task.range is not None,
            chunks_done=task.chunks,
            rows=task.rows,
            dropped=task.superseded,
            deleted=task.deleted,
            inserted=task.inserted,
            changed=task.changed,
            unchanged=task.unchanged,
            estimated_total=task.estimated,
            rows_per_second=speed,
            eta_seconds=left / speed if left is not None and speed > 0 else None,
        )

    def _measured(self, request: RequestProgress, task: TaskProgress, now: float, done: int) -> float:
        """The speed to show of a collection, in rows a second; time in which it waits or is paused does not count. That
        of a large enough collection is also the newest speed of all."""
        what = request.id, str(task.namespace)
        if not task.ended and (request.paused or task.state is TaskState.WAITING):
            self._speeds.pop(what, None)
            found = shown = 0.0
        elif not task.ended:
            found = shown = self._speed(what, now, done)
        else:
            watched, shown = self._speeds.pop(what, None), 0.0
            # A collection that lands in one commit shows no growth before it has ended.
            found = watched.since_begin(now, done) if watched is not None and not watched.grew else 0.0
        if found > 0 and done >= _SPEED_DOCUMENTS_MIN:
            self.speed.newest = found
        return shown

    def _speed(self, what: tuple[str, str], now: float, value: int) -> float:
        return self._speeds.setdefault(what, Speed()).at(now, value)


def status_writer(
    config: EngineConfig,
    storage: Storage,
    client: MongoClient[Any],
    view: View,
    told: Sequence[Callable[[Status], Status]],
) -> StatusWriter:
    """The writer of an engine of this ``config``, into its ``storage``, which shows ``view`` each status, with what
    others know of as ``told`` by them. Connections of ``client`` are counted from here on."""
    tally, before = Tally(), connection_of(client)
    tally.put("bytes_max", config.limits.bytes_in_flight)
    return StatusWriter(
        *(config.name, this_process(), storage, view),
        tally=tally,
        connection=lambda: connection_of(client).since(before),
        completed=lambda status: reduce(lambda one, tell: tell(one), told, status),
    )


def _next_landing(run: Run | None, progress: Progress) -> datetime | None:
    if run is None or progress.batch_id < 0:
        return None
    seconds = run.pacing.lands_in(run.machine)
    return None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)


def _window(window: Window) -> WindowReport:
    return WindowReport(
        collection=str(window.namespace), number=window.id.number, state=window.state.value, rows=window.rows
    )


def _tables(run: Run) -> tuple[TableReport, ...]:
    return tuple(
        TableReport(
            collection=str(namespace), written_by=choice.by, reason=choice.reason, slower=choice.slower
        )
        for namespace, choice in sorted(run.written_by.items())
    )


def _suspension(namespace: Namespace, suspension: Suspension) -> SuspensionReport:
    found = condition_of_text(suspension.error, "table-owned" if suspension.cause == "owned" else SUSPENDED)
    return SuspensionReport(
        collection=str(namespace),
        cause=suspension.cause,
        error=redact(suspension.error),
        next_step=suspension.next_step,
        since=datetime.fromtimestamp(suspension.since.t, UTC),
        restored_by=suspension.restored_by,
        failure=found.failure.value,
        condition=found.name,
    )


def _error_report(error: BaseException) -> ErrorReport:
    found = describe(error)
    return ErrorReport(
        kind=found.kind,
        message=found.message,
        next_step=found.next_step,
        at=datetime.now(UTC),
        failure=found.failure.value,
        condition=found.condition,
        retriable=found.retriable,
    )
