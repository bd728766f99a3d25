"""What operators are notified of: what the core announces, as notifications, to every channel at once.

The core announces what is saved (`core.rules.announcements`); here it becomes a notification under the id of its
request, and goes into the queue of each channel. Nothing here waits, and nothing here raises into the engine: data
must not be held up because somebody could not be notified.

Timestamps of one engine strictly ascend, by at least a millisecond, so that a table of notifications can be put back in
their order.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from struct import unpack_from

import structlog

from signals.notifications.channel import ListenerChannel, NotificationChannel
from signals.notifications.notification import (
    DOCUMENTED,
    NO_KEY,
    Aggregate,
    Kind,
    Notification,
    ScanStatus,
    Subject,
    of_dead_letters,
    of_health,
)
from snapshotter.configuration.notification_config import LOG, NotificationConfig
from snapshotter.core.rules.announcements import GAP_CLOSED, GAP_OPENED, SKIPPED
from snapshotter.core.values.chunks import Bound
from snapshotter.core.values.effects import Announce
from snapshotter.core.values.progress import RequestProgress
from snapshotter.core.values.requests import Origin
from snapshotter.core.values.tasks import TaskProgress, TaskState
from snapshotter.diagnosis import SUSPENDED, condition_of_text, named
from snapshotter.errors import redact
from snapshotter.reporting.delivery_queue import DeliveryQueue
from snapshotter.reporting.status import NotificationReport
from streaming.bson.elements import DOUBLE, INT32, INT64, OBJECT_ID, STRING, elements
from streaming.bson.raw_fields import string_bytes
from streaming.events.extended_json import id_text

_log = structlog.get_logger("snapshotter.notifications")
_NO_DATA: Mapping[str, str] = {}
Mark = tuple[tuple[DeliveryQueue, int], ...]
"""How many notifications were put in each queue by some moment."""


def done_with(mark: Mark) -> bool:
    """Whether every channel has taken what it was sent by then; those that are broken do not count."""
    return all(queue.done_with(count) for queue, count in mark)


def notification_of(
    announced: Announce,
    request: RequestProgress | None,
    connector: str,
    now_ms: int,
    data: Mapping[str, str] = _NO_DATA,
) -> Notification:
    """What was announced of ``request`` (None: one that progress does not know), as a notification.

    ``connector`` is the engine's name as Debezium has it, and ``now_ms`` the notification's timestamp. Progress gives
    the data that Debezium documents; ``data`` gives the collections that were stopped, and names beyond the documented
    ones.
    """
    tasks = request.tasks if request is not None else ()
    known = request is not None and (request.blocking or request.origin is Origin.INITIAL)
    initial = known or announced.kind == SKIPPED
    aggregate = Aggregate.INITIAL if initial else Aggregate.INCREMENTAL
    if announced.kind in (GAP_OPENED, GAP_CLOSED):
        aggregate = Aggregate.POSITION
    subject = Subject(announced.request_id, aggregate, connector, tuple(str(t.namespace) for t in tasks))
    notification = _documented(subject, announced, tasks, now_ms, data)
    more = {name: text for name, text in data.items() if name not in DOCUMENTED}
    return (
        replace(notification, additional_data={**notification.additional_data, **more})
        if more
        else notification
    )


def _documented(
    subject: Subject,
    announced: Announce,
    tasks: Sequence[TaskProgress],
    now_ms: int,
    data: Mapping[str, str],
) -> Notification:
    collection = str(announced.namespace or "")
    task = next((t for t in tasks if t.namespace == announced.namespace), None)
    match Kind(announced.kind):
        case Kind.STARTED:
            return subject.started(now_ms)
        case Kind.PAUSED:
            return subject.paused(now_ms)
        case Kind.RESUMED:
            return subject.resumed(now_ms)
        case Kind.COMPLETED:
            return subject.completed(now_ms)
        case Kind.SKIPPED:
            return subject.skipped(now_ms)
        case Kind.IN_PROGRESS:
            last, frontier = (task.last, task.frontier) if task else (None, None)
            return subject.in_progress(
                now_ms, collection, maximum_key=key_text(last), last_processed_key=key_text(frontier)
            )
        case Kind.TABLE_SCAN_COMPLETED:
            # Read is what was looked at, so rows that a streamed change superseded count, as Debezium counts them.
            rows = task.rows + task.superseded if task else 0
            return subject.table_scan_completed(now_ms, collection, ScanStatus(announced.detail), rows=rows)
        case Kind.FAILED:
            error = announced.detail or "; ".join(f"{t.namespace}: {t.error}" for t in tasks if t.error)
            return _classed(subject.failed(now_ms, redact(error), collection or None), error)
        case Kind.SUSPENDED:
            suspended = subject.suspended(now_ms, collection, redact(announced.detail))
            return _classed(suspended, announced.detail, SUSPENDED)
        case Kind.GAP_OPENED | Kind.GAP_CLOSED as kind:
            return subject.gap(kind, now_ms, redact(announced.detail))
        case Kind.ABORTED:
            return subject.aborted(now_ms, _ended_early(tasks, data))
        case Kind.STOPPED:
            return subject.stopped(now_ms, _ended_early(tasks, data))


def _classed(notification: Notification, error: str, otherwise: str | None = None) -> Notification:
    """With the class and the named state of its ``error``; ``otherwise`` names the state where that says nothing."""
    found = condition_of_text(error, otherwise)
    more = {"failure": found.failure.value, "condition": found.name}
    return replace(notification, additional_data={**notification.additional_data, **more})


def _ended_early(tasks: Iterable[TaskProgress], data: Mapping[str, str]) -> list[str]:
    """The collections that were stopped, where that is known, else those that were not read to their end."""
    if listed := data.get("data_collections"):
        return [listed]
    return [str(task.namespace) for task in tasks if task.state is not TaskState.DONE]


def key_text(bound: Bound | None) -> str:
    """An id as Debezium shows it: the text, number or digits alone, Extended JSON for what has no such form."""
    if bound is None:
        return NO_KEY
    raw = bound.id
    tag, _, start, end = next(elements(raw, 0))
    if tag == STRING:
        return string_bytes(raw, start).decode(errors="replace")
    if tag == OBJECT_ID:
        return raw[start:end].hex()
    if tag in (INT32, INT64):
        return str(int.from_bytes(raw[start:end], "little", signed=True))
    if tag == DOUBLE:
        return str(unpack_from("<d", raw, start)[0])
    return id_text(raw) or NO_KEY


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Notifier:
    """The fan-out. Listeners may come at any time, from any thread; channels live from ``open`` to ``close``."""

    def __init__(self, config: NotificationConfig, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._config = config
        self._now_ms = now_ms
        self._last_ms = 0
        self._mutex = threading.Lock()
        self._listeners: list[NotificationChannel] = []
        self._queues: tuple[DeliveryQueue, ...] = ()
        self._open = False

    def listen(self, listener: Callable[[Notification], None]) -> None:
        """Call ``listener`` with every notification from now on, on a thread of its own."""
        channel = ListenerChannel(listener)
        with self._mutex:
            self._listeners.append(channel)
            if self._open:
                self._queues = (*self._queues, DeliveryQueue(channel, self._config.capacity))

    def open(self, channels: Iterable[NotificationChannel]) -> None:
        """Begin to send: to these, and to the listeners."""
        with self._mutex:
            self._open = True
            self._queues = tuple(
                DeliveryQueue(channel, self._config.capacity) for channel in [*channels, *self._listeners]
            )

    def announce(
        self, announced: Announce, request: RequestProgress | None, data: Mapping[str, str] = _NO_DATA
    ) -> None:
        """Send what was ``announced`` to every channel. Neither waits nor raises. ``request``: the progress of the
        request it is about, if there is one; ``data``: more to tell, by name."""
        if not self._queues:
            return
        try:
            self.send(notification_of(announced, request, self._config.connector, self._moment(), data))
        except Exception:  # noqa: BLE001 - what cannot be sent must not stop what happens
            _log.exception("an announcement became no notification", announced=str(announced))

    @property
    def in_log(self) -> bool:
        """Whether one of the channels is the log, so that nobody need log the same."""
        return LOG in self._config.channels

    def engine_health(self, engine: str, health: str, data: Mapping[str, str]) -> None:
        """Send, and log, that the ``health`` of the ``engine`` has changed; ``data`` says more. Neither waits nor
        raises."""
        if not self.in_log:
            _log.info("health", health=health, state=data.get("state", ""))
        self.send(of_health(engine, health, self._config.connector, self._moment(), data))

    def dead_letters(self, data: Mapping[str, str]) -> None:
        """Send that a batch has written dead letters; ``data`` says which. Neither waits nor raises."""
        self.send(of_dead_letters(self._config.connector, self._moment(), data))

    def send(self, notification: Notification) -> None:
        """Put it in the queue of every channel."""
        for queue in self._queues:
            queue.offer(notification)

    def mark(self) -> Mark:
        """What has been sent so far, to ask `done_with` about."""
        return tuple((queue, queue.offered) for queue in self._queues)

    def close(self) -> None:
        """Send what waits, within ``flush_seconds`` for all channels together, and end."""
        with self._mutex:
            queues, self._queues, self._open = self._queues, (), False
        deadline = time.monotonic() + self._config.flush_seconds
        for queue in queues:
            queue.closing()
        for queue in queues:
            queue.await_end(deadline)

    @property
    def queues(self) -> tuple[DeliveryQueue, ...]:
        """Each channel with what waits for it, what was dropped, and its last error."""
        return self._queues

    def reports(self) -> tuple[NotificationReport, ...]:
        """As the status shows them."""
        return tuple(
            NotificationReport(
                name=o.name, waiting=o.left, dropped=o.dropped, trouble=o.error, **named(o.error)
            )
            for o in self._queues
        )

    def _moment(self) -> int:
        with self._mutex:
            self._last_ms = max(self._now_ms(), self._last_ms + 1)
            return self._last_ms
