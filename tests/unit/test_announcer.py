"""Operators are notified once a batch is committed, in order, and of everything, whatever crashes in between."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from signals.notification_channel import NotificationChannel
from signals.notifications.notification import Notification
from snapshotter.configuration.notification_config import LOG, NotificationConfig
from snapshotter.core.rules import announcements
from snapshotter.core.values.effects import Announce
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import Origin
from snapshotter.core.values.tasks import TaskProgress, TaskState
from snapshotter.reporting import delivery_queue
from snapshotter.reporting.announcer import Announcer
from snapshotter.reporting.notices import Notifier
from snapshotter.reporting.notification_channels import LogChannel
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storage import MemoryStorage
from snapshotter.testing.processes import wait_until
from streaming.namespaces import Namespace
from tests.unit.core.some import bound

ORDERS = Namespace("shop", "orders")


class Held(NotificationChannel):
    """Takes nothing until it is let, or fails for as long as that; ``told`` is what it has taken."""

    def __init__(self, *, fails: bool = False) -> None:
        self.told: list[str] = []
        self.let = threading.Event()
        self._fails = fails

    def send(self, batch: Sequence[Notification]) -> None:
        if self._fails and not self.let.is_set():
            raise ConnectionError("nobody is there")
        assert self.let.wait(60)
        self.told += [str(notification.type) for notification in batch]


@pytest.fixture
def held() -> Iterator[Held]:
    channel = Held()
    yield channel
    channel.let.set()


class Life:
    """What outlives a process, and one process after the other."""

    def __init__(self) -> None:
        self.store = ProgressStore(MemoryStorage())
        self.start()

    def start(self, *channels: NotificationChannel) -> None:
        self.notifier = Notifier(NotificationConfig(flush_seconds=0.0))
        self.notifier.open(channels)
        self.announcer = Announcer(self.notifier, lambda: self.store)

    def saves(self, batch: int, state: TaskState) -> None:
        """A batch lands, and its state is saved."""
        last = bound("9") if state is TaskState.RUNNING else None
        task = TaskProgress(ORDERS, state=state, last=last)
        after = Progress(batch, requests=(RequestProgress("q", Origin.SIGNAL, (task,)),))
        before = self.store.newest() or Progress()
        self.store.save(after)
        for announced in announcements.between(before, after):
            self.announcer.add(after, announced)

    def begins(self, batch: int) -> None:
        """Spark hands over this batch to a new run."""
        self.announcer.begin(self.store.load_before(batch))

    def tells(self, *channels: NotificationChannel) -> None:
        """A process with these channels announces that the request has started, by batch 1."""
        self.start(*channels)
        self.begins(1)
        self.saves(1, TaskState.RUNNING)
        self.announcer.committed(1)

    @property
    def announced(self) -> list[str]:
        return [announced.kind for announced in self.announcer.announced]


@pytest.fixture
def life() -> Life:
    life = Life()
    life.begins(0)
    life.saves(0, TaskState.WAITING)
    life.announcer.committed(0)
    return life


def test_nothing_is_announced_before_the_commit(life: Life) -> None:
    """And then all of it, in its order; whoever waits for a request can see that something is still to be announced."""
    life.saves(1, TaskState.RUNNING)
    assert (life.announced, life.announcer.waits_for, life.announcer.pending("q")) == ([], 1, True)
    life.saves(2, TaskState.DONE)
    life.announcer.committed(1)
    assert (life.announced, life.announcer.waits_for) == (["STARTED"], 2)
    life.announcer.committed(2)
    assert life.announced == ["STARTED", "TABLE_SCAN_COMPLETED", "COMPLETED"]
    assert (life.announcer.waits_for, life.announcer.pending("q")) == (None, False)


def test_a_batch_that_is_repeated_has_announced_nothing(life: Life) -> None:
    """It was saved, and the process died before Spark had committed it."""
    life.saves(1, TaskState.DONE)
    life.start()
    life.begins(1)
    assert life.announced == []
    life.begins(1)  # in the same process, too
    assert life.announcer.waits_for is None


def test_what_was_committed_and_not_announced_is_announced_by_the_next_run(life: Life) -> None:
    """It was committed, and the process died before anything was announced; the one after that has nothing to add."""
    life.saves(1, TaskState.RUNNING)
    life.saves(2, TaskState.DONE)
    life.start()
    life.begins(3)
    assert life.announced == ["STARTED", "TABLE_SCAN_COMPLETED", "COMPLETED"]
    life.start()
    life.begins(3)
    assert life.announced == []


def test_states_that_were_deleted_have_nothing_to_announce(life: Life) -> None:
    """Batches that announced nothing are not noted: the oldest state that is kept stands for the one that was noted."""
    life.saves(1, TaskState.DONE)
    life.announcer.committed(1)
    done = life.store.newest()
    assert done is not None
    for batch in range(2, 50):
        life.store.save(replace(done, batch_id=batch))
    life.start()
    life.begins(50)
    assert life.announced == []


def test_an_engine_that_never_noted_anything_begins_now() -> None:
    """State of an earlier version: what it has announced is not announced again."""
    life = Life()
    life.saves(7, TaskState.DONE)
    life.start()
    life.begins(8)
    assert life.announced == []
    assert life.store.announced_upto() == 7


def test_what_no_channel_has_taken_is_announced_again(life: Life, held: Held) -> None:
    """The process ended at once, and what waited for a channel went with it. All channels hear of it again, however
    many batches have landed since; once they have taken it, it is over."""
    other = Held()
    other.let.set()
    life.tells(held, other)
    wait_until(lambda: other.told == ["STARTED"], "one channel has it")
    life.saves(2, TaskState.DONE)
    life.announcer.committed(2)
    done = life.store.newest()
    assert done is not None
    for batch in range(3, 50):
        life.store.save(replace(done, batch_id=batch))
    assert life.store.announced_upto() == -1

    life.start(heard := Held())
    heard.let.set()
    life.begins(50)
    wait_until(lambda: len(heard.told) == 3, "all of it is told")
    wait_until(lambda: (life.announcer.look(lambda _: True), life.store.announced_upto())[1] == 49, "noted")
    life.start()
    life.begins(50)
    assert life.announced == []


def test_what_waits_for_a_channel_is_not_announced_twice_by_one_process(life: Life, held: Held) -> None:
    """A run fails and begins again, while a channel is slow."""
    life.tells(held)
    life.begins(2)
    held.let.set()
    life.announcer.close()
    assert life.announced == ["STARTED"]


def test_the_first_batch_is_announced_again_too(held: Held) -> None:
    """No state was saved before it."""
    life = Life()
    life.start(held)
    life.begins(0)
    life.saves(0, TaskState.RUNNING)
    life.announcer.committed(0)
    life.start()
    life.begins(1)
    assert life.announced == ["STARTED"]


def test_a_run_that_fails_after_many_batches_announces_nothing_twice(life: Life, held: Held) -> None:
    """Though no file has the state any more up to which it had announced all; the channel is slow."""
    life.tells(held)
    running = life.store.newest()
    assert running is not None
    for batch in range(2, 60):
        life.store.save(replace(running, batch_id=batch))
    life.begins(60)
    assert life.announced == ["STARTED"]


def test_a_lost_position_takes_nothing_over(life: Life, held: Held) -> None:
    """What the channels take of the old generation is not noted under the new one, whose batches begin at 0 again."""
    life.tells(held)
    life.store = life.store.next_generation()
    held.let.set()
    wait_until(lambda: held.told == ["STARTED"], "it is told")
    life.announcer.look(lambda _: True)
    assert life.store.announced_upto() is None


def test_an_engine_that_has_lost_its_name_sets_nothing_back(life: Life) -> None:
    """It notes what its channels have taken, when the next one has noted more, or has begun a new generation."""
    displaced = life.store
    life.store.note_announced(7)
    displaced.note_announced(3)
    assert life.store.announced_upto() == 7
    life.store = life.store.next_generation()
    life.store.note_announced(0)
    displaced.note_announced(8)
    assert life.store.announced_upto() == 0


def test_what_is_taken_at_the_end_is_noted(life: Life) -> None:
    """A clean stop waits for the channels."""
    channel = Held()
    channel.let.set()
    life.tells(channel)
    wait_until(lambda: channel.told == ["STARTED"], "it is told")
    life.announcer.close()
    assert life.store.announced_upto() == 1


@pytest.mark.parametrize("fails", [True, False], ids=["fails", "hangs"])
def test_nobody_waits_for_a_channel_that_is_broken(life: Life, fails: bool, monkeypatch: Any) -> None:
    """Or a week later each start would tell all the others what they have heard."""
    monkeypatch.setattr(delivery_queue, "_PATIENCE_SECONDS", 0.0)
    broken = Held(fails=fails)
    life.tells(broken)
    wait_until(lambda: (life.announcer.look(lambda _: True), life.store.announced_upto())[1] == 1, "noted")
    broken.let.set()


def test_a_listener_that_fails_is_called_again(life: Life) -> None:
    """What it raises ends the run, and the next one goes on with the same announcement."""
    life.saves(1, TaskState.RUNNING)

    def broken(announced: Announce) -> None:
        raise RuntimeError("no screen")

    life.announcer.listeners.append(broken)
    with pytest.raises(RuntimeError, match="no screen"):
        life.announcer.committed(1)
    life.start()
    life.begins(2)
    assert life.announced == ["STARTED"]


@pytest.mark.parametrize("channels", [(), (LOG,)])
def test_an_announcement_is_logged_once(channels: tuple[str, ...]) -> None:
    """By the channel that is the log, where there is one. A suspension was logged where it was found."""
    notifier = Notifier(NotificationConfig(channels=channels))
    announcer = Announcer(notifier, lambda: ProgressStore(MemoryStorage()))
    with capture_logs() as logs:
        notifier.open([LogChannel() for _ in channels])
        announcer.announce(Announce("STARTED", "q", ORDERS))
        announcer.announce(Announce("SUSPENDED", str(ORDERS), ORDERS, "its table is gone"))
        notifier.engine_health("shop", "Active", {"state": "running"})
        notifier.close()
    said = [line["event"] if line["event"] != "notification" else line["type"] for line in logs]
    assert said == (["STARTED", "SUSPENDED", "ACTIVE"] if channels else ["STARTED", "health"])
