"""The fan-out: order, retries, full queues, and an end that no channel can put off."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from structlog.testing import capture_logs

from signals.notification_channel import ListenerChannel, NotificationChannel
from signals.notifications.notification import Aggregate, Notification, Subject
from snapshotter.configuration.notification_config import NotificationConfig
from snapshotter.core.values.effects import Announce
from snapshotter.reporting.delivery_queue import DeliveryQueue
from snapshotter.reporting.notices import Notifier
from snapshotter.testing.processes import wait_until

SECONDS = 20.0


def numbered(number: int) -> Notification:
    return Subject(f"r{number}", Aggregate.INCREMENTAL, "shop").completed(number)


class Channel(NotificationChannel):
    """Keeps what it is sent; ``before`` runs first, and may block or raise."""

    def __init__(self, before: Callable[[Sequence[Notification]], None] = lambda batch: None) -> None:
        self.before = before
        self.batches: list[list[str]] = []
        self.closed = threading.Event()
        self._changed = threading.Condition()

    def send(self, batch: Sequence[Notification]) -> None:
        self.before(batch)
        with self._changed:
            self.batches.append([n.id for n in batch])
            self._changed.notify_all()

    def close(self) -> None:
        self.closed.set()

    @property
    def ids(self) -> list[str]:
        return [one for batch in self.batches for one in batch]

    def wait_for(self, count: int) -> list[str]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.ids) >= count, SECONDS), self.ids
            return self.ids


class Gate:
    """Holds a channel until it is opened; says when somebody stands before it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, batch: Sequence[Notification]) -> None:
        self.reached.set()
        assert self.opened.wait(SECONDS)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


def ended(queue: DeliveryQueue, seconds: float = SECONDS) -> None:
    queue.closing()
    queue.await_end(time.monotonic() + seconds)


def test_the_order_is_kept_and_the_end_sends_what_waits() -> None:
    """A channel gets everything once, in order, and is closed last."""
    channel = Channel()
    queue = DeliveryQueue(channel, capacity=10_000)
    for number in range(2_000):
        queue.offer(numbered(number))
    ended(queue)
    assert channel.ids == [f"r{number}" for number in range(2_000)]
    assert channel.closed.is_set()
    assert queue.dropped == queue.left == 0


def test_a_full_queue_drops_its_oldest(gate: Gate) -> None:
    """Whoever offers never waits; what is lost is counted, and said once."""
    channel = Channel(gate)
    queue = DeliveryQueue(channel, capacity=3)
    queue.offer(numbered(0))
    assert gate.reached.wait(SECONDS)
    with capture_logs() as logs:
        for number in range(1, 8):
            queue.offer(numbered(number))
    assert (queue.dropped, queue.left) == (4, 4)
    assert [log["log_level"] for log in logs] == ["warning"], "the first one only"
    assert "does not keep up" in logs[0]["event"]
    assert (logs[0]["channel"], logs[0]["dropped"]) == ("channel", 1)
    with capture_logs() as logs:
        gate.opened.set()
        ended(queue)
    assert channel.ids == ["r0", "r5", "r6", "r7"]
    assert [(log["event"], log["dropped"]) for log in logs] == [("a notification channel works again", 4)]


def test_what_is_dropped_was_not_taken_by_the_one_before(gate: Gate) -> None:
    """A queue is done with so many once none of them is in hand or waits."""
    queue = DeliveryQueue(Channel(gate), capacity=2)
    queue.offer(numbered(1))
    assert gate.reached.wait(SECONDS)
    for number in range(2, 7):
        queue.offer(numbered(number))
    assert [queue.done_with(count) for count in range(7)] == [True, *[False] * 6]
    gate.opened.set()
    wait_until(lambda: queue.done_with(6), "all to be taken")
    ended(queue)


def test_a_channel_that_failed_is_tried_again_with_the_same_batch() -> None:
    """Nothing is lost and nothing overtakes, while the failures are logged without credentials."""
    attempts: list[list[str]] = []

    def before(batch: Sequence[Notification]) -> None:
        attempts.append([n.id for n in batch])
        if len(attempts) < 4:
            queue.offer(numbered(len(attempts)))
            raise OSError("http://me:secret@host is down")

    channel = Channel(before)
    queue = DeliveryQueue(channel, capacity=10, retry_seconds=0.001)
    with capture_logs() as logs:
        queue.offer(numbered(0))
        assert channel.wait_for(4) == ["r0", "r1", "r2", "r3"]
        ended(queue)
    assert attempts[:4] == [["r0"]] * 4
    failures = [log for log in logs if "failed" in log["event"]]
    assert [log["wait_seconds"] for log in failures] == [0.001, 0.002, 0.004]
    assert all("secret" not in str(log) and "is down" in log["error"] for log in failures)
    assert queue.error is None


def test_a_dead_channel_gets_one_more_try_at_the_end() -> None:
    """A stop does not sit out the pauses of a channel that keeps failing; what is lost is said."""
    failed = threading.Event()

    def before(_: Sequence[Notification]) -> None:
        failed.set()
        raise OSError("down")

    channel = Channel(before)
    queue = DeliveryQueue(channel, capacity=10, retry_seconds=3_600)
    with capture_logs() as logs:
        queue.offer(numbered(0))
        assert failed.wait(SECONDS)
        queue.offer(numbered(1))
        ended(queue)
    assert channel.closed.is_set()
    assert {
        "event": "notifications are given up",
        "channel": "channel",
        "lost": 2,
        "log_level": "warning",
    } in logs


def test_a_channel_that_hangs_is_left_behind_at_the_deadline(gate: Gate) -> None:
    """The end waits until the deadline for all channels together, and the others have got everything by then."""
    quick = Channel()
    notifier = Notifier(NotificationConfig("shop", flush_seconds=0.2))
    notifier.open([Channel(gate), quick, Channel(gate)])
    notifier.announce(Announce("COMPLETED", "x"), None)
    assert gate.reached.wait(SECONDS)
    began = time.monotonic()
    with capture_logs() as logs:
        notifier.close()
    assert time.monotonic() - began < 5
    assert quick.ids == ["x"]
    assert quick.closed.is_set()
    assert len([log for log in logs if "left behind" in log["event"]]) == 2


def test_a_channel_that_does_not_close_ends_all_the_same() -> None:
    """An error in somebody's close is logged."""

    class Bad(Channel):
        def close(self) -> None:
            raise OSError("no")

    with capture_logs() as logs:
        ended(DeliveryQueue(Bad(), capacity=1))
    assert [log["error"] for log in logs if log["log_level"] == "warning"] == ["no"]


def test_what_is_dear_to_send_waits_for_more() -> None:
    """A channel that lingers gets one batch of what came meanwhile, at once when the end comes."""
    channel = Channel()
    channel.linger_seconds = 3_600
    queue = DeliveryQueue(channel, capacity=1_000)
    for number in range(5):
        queue.offer(numbered(number))
    ended(queue)
    assert channel.batches == [["r0", "r1", "r2", "r3", "r4"]]
    channel = Channel()
    channel.linger_seconds = 3_600
    queue = DeliveryQueue(channel, capacity=1_000)
    for number in range(600):
        queue.offer(numbered(number))
    assert len(channel.wait_for(500)) == 500, "as many as fit in a batch"
    ended(queue)


def test_listeners_hear_everything_in_order() -> None:
    """One that comes before the start and one that comes later; timestamps ascend though the clock stands still."""
    early: list[Notification] = []
    late: list[Notification] = []
    notifier = Notifier(NotificationConfig("shop"), now_ms=lambda: 1_000)
    notifier.announce(Announce("STARTED", "before"), None)
    notifier.listen(early.append)
    notifier.open([])
    notifier.announce(Announce("STARTED", "a"), None)
    notifier.listen(late.append)
    notifier.announce(Announce("COMPLETED", "a"), None)
    notifier.close()
    assert [(n.type, n.timestamp_ms) for n in early] == [("STARTED", 1_000), ("COMPLETED", 1_001)]
    assert late == early[1:]
    notifier.announce(Announce("STARTED", "after"), None)
    assert len(early) == 2, "closed"


def test_a_listener_that_raises_is_called_again_from_there() -> None:
    """What it has taken already is not given to it twice."""
    heard: list[str] = []

    def listener(notification: Notification) -> None:
        heard.append(notification.id)
        if heard.count("r1") == 1 and notification.id == "r1":
            raise ValueError("once")

    channel = ListenerChannel(listener)
    batch = [numbered(0), numbered(1), numbered(2)]
    with pytest.raises(ValueError, match="once"):
        channel.send(batch)
    channel.send(batch)
    channel.send([numbered(3)])
    assert heard == ["r0", "r1", "r1", "r2", "r3"]


def test_an_announcement_nobody_understands_does_no_harm() -> None:
    """The engine is not told; the log is, with the announcement."""
    channel = Channel()
    notifier = Notifier(NotificationConfig("shop"))
    notifier.open([channel])
    with capture_logs() as logs:
        notifier.announce(Announce("EXPLODED", "x"), None)
    notifier.announce(Announce("COMPLETED", "x"), None)
    notifier.close()
    assert [log["event"] for log in logs] == ["an announcement became no notification"]
    assert "EXPLODED" in logs[0]["announced"]
    assert channel.ids == ["x"]


def test_the_status_says_how_each_channel_is() -> None:
    """What waits, what was lost, and the last error while it lasts."""

    def broken(batch: Sequence[Notification]) -> None:
        raise ConnectionError("mongodb://me:secret@host/ is down")

    dead = Channel(broken)
    notifier = Notifier(NotificationConfig("shop", capacity=2, flush_seconds=0.0))
    assert notifier.reports() == ()
    notifier.open([dead])
    (queue,) = notifier.queues
    notifier.send(numbered(0))
    wait_until(lambda: queue.error is not None, "the first failure", seconds=SECONDS)
    for number in range(1, 5):
        notifier.send(numbered(number))
    (report,) = notifier.reports()
    assert (report.name, report.waiting, report.dropped) == (dead.name, 3, 2)
    assert report.trouble == "ConnectionError: mongodb://***:***@host/ is down"
    notifier.close()
