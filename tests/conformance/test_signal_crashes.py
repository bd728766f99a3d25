"""A crash at every boundary between a signal's arrival and its outcome, by every channel.

The life of a signal up to the machine: the channel shows it, it is handled, the journal has it, the channel forgets it;
a request is carried out, its progress is saved, the journal forgets it. A crash is an exception before or after each
write to the engine's own state, whoever makes it; the next start finds what was durable by then, and the other end
of the channel as it was. What the machine does in between, and what is announced, is the simulation's
(`tests/simulation`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bson
import pytest

from signals.actions import (
    Action,
    ExecuteSnapshot,
    Log,
    PauseSnapshot,
    ResumeSnapshot,
    StopSnapshot,
    fields_of,
)
from signals.channels.source_channel import decode
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.tasks import TaskState
from snapshotter.intake.channels import Channels
from snapshotter.reporting.outcomes import SignalOutcome
from snapshotter.state.journal import Journal
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storage import MemoryStorage
from snapshotter.testing.processes import wait_until
from streaming.namespaces import Namespace
from tests.support.handling import Handling
from tests.support.signal_channels import (
    CustomRig,
    FileRig,
    InboxRig,
    InProcessRig,
    KafkaRig,
    Rig,
    SentAgainRig,
)

ORDERS = Namespace("shop", "orders")


def ask(name: str) -> ExecuteSnapshot:
    return ExecuteSnapshot(name, ("shop.orders",))


SIGNALS: Sequence[Action] = (
    ask("early"),
    ask("q1"),
    PauseSnapshot("p", ("q1",)),
    ask("q2"),
    StopSnapshot("s", requests=("q2",)),
    ask("early"),
    ask("q1"),
    ResumeSnapshot("p"),
    Log("l", "at {}"),
    ResumeSnapshot("r", ("q1",)),
    PauseSnapshot("p", ("q1",)),
    ask("q3"),
)
"""Among them repetitions, of a request that has ended by then and of a pause that is over, and another content under an
id that is taken."""
IDS = {"early": "done", "q1": "done", "q2": "stopped", "q3": "done"}


class Crash(BaseException):
    """The process is gone."""


class Crashing(MemoryStorage):
    """The engine's state: dies at one of its boundaries, each write having one before it and one behind. Whatever the
    world does to it from outside (``safely``) is none."""

    def __init__(self) -> None:
        super().__init__()
        self.passed, self.at, self._outside = 0, 0, 0

    @contextmanager
    def safely(self) -> Iterator[None]:
        self._outside += 1
        try:
            yield
        finally:
            self._outside -= 1

    def write_text(self, name: str, text: str) -> None:
        self._boundary()
        super().write_text(name, text)
        self._boundary()

    def create_text(self, name: str, text: str) -> bool:
        self._boundary()
        made = super().create_text(name, text)
        self._boundary()
        return made

    def delete(self, name: str) -> None:
        self._boundary()
        super().delete(name)
        self._boundary()

    def _boundary(self) -> None:
        if self._outside == 0:
            self.passed += 1
            if self.passed == self.at:
                raise Crash


class CollectionRig:
    """The signal collection. Its documents come with batches, and ahead of them where the stream is late; how far the
    stream has come is part of the progress."""

    def __init__(self, storage: MemoryStorage) -> None:
        self.documents: list[bytes] = []
        self._storage = storage

    def send(self, *actions: Action) -> None:
        for action in actions:
            signal_id, kind, data = fields_of(action)
            number = len(self.documents)
            document = {"_id": number, "id": signal_id, "type": kind, "data": data}
            self.documents.append(bson.encode(document))

    def take(self, handling: Handling) -> None:
        """Twice handled, ahead of the stream and in it; only then does the stream's position move."""
        position = int(self._storage.read_text("position") or "0")
        for raw in (*self.documents[position:], *self.documents[position:]):
            handling.take(decode(raw).parse())
        if position < len(self.documents):
            self._storage.write_text("position", str(len(self.documents)))


@dataclass
class Start:
    """One start of an engine, as far as signals go, on the state that the last one left."""

    storage: Crashing
    refused: list[str] = field(default_factory=list)
    client: Any = None
    config: Any = field(default_factory=lambda: SimpleNamespace(requests_max=1_000, allow_code=False))

    def __post_init__(self) -> None:
        self.journal, self.store = Journal(self.storage), ProgressStore(self.storage)
        self.before = self.store.newest() or Progress()
        self.handling = Handling(self)

    def captured(self) -> list[Namespace]:
        return [ORDERS]

    def refuse(self, signal_id: str, why: str) -> None:
        self.refused.append(signal_id)

    def report(self, outcome: SignalOutcome) -> None:
        """Nobody is told here."""

    def carry_out(self, *names: str) -> None:
        """What waits and is not paused, of these: done, saved, and then forgotten as a batch does it."""
        for request in self.journal.waiting(self.before):
            if request.id in names and not request.paused:
                self.save(request)

    def save(self, *done: RequestProgress) -> None:
        ended = (_done(request) for request in done)
        progress = replace(
            self.before, batch_id=self.before.batch_id + 1, requests=(*self.before.requests, *ended)
        )
        self.store.save(progress)
        self.journal.forget(self.before)
        self.before = progress


def _done(request: RequestProgress) -> RequestProgress:
    for task in request.tasks:
        if not task.ended:
            request = request.with_task(replace(task, state=TaskState.DONE))
    return request


@dataclass
class World:
    """Signals that are sent one by one, and starts of an engine that handle them, one of which dies."""

    storage: Crashing
    rig: Rig | CollectionRig
    sent: int = 0
    refused: set[str] = field(default_factory=set)

    def live(self) -> None:
        """One start, up to its crash or to the end of the work."""
        start, rig = Start(self.storage), self.rig
        try:
            if isinstance(rig, CollectionRig):
                self._work(start, lambda: rig.take(start.handling))
                return
            with closing(rig.open()) as channel:
                channels = Channels([channel])
                self._work(start, lambda: start.handling.look(channels))
                wait_until(
                    lambda: start.handling.look(channels) or channels.quiet(), "nothing to be shown any more"
                )
        finally:
            self.refused |= set(start.refused)

    def dies(self) -> bool:
        """Whether a start came upon its crash; if not, it has done all of the work."""
        try:
            self.live()
        except Crash:
            return True
        return False

    def _work(self, start: Start, look: Any) -> None:
        while self.sent < len(SIGNALS):
            with self.storage.safely():
                self.rig.send(SIGNALS[self.sent])
            self.sent += 1
            look()
            start.carry_out("early")
        wait_until(lambda: look() or self._all_known(start), "all signals to be handled", every=0.01)
        start.carry_out(*IDS)
        start.save()
        start.save()

    @staticmethod
    def _all_known(start: Start) -> bool:
        requests = {r.id for r in start.journal.existing(start.before)}
        return requests == IDS.keys() and all(start.journal.digest_of(name) for name in ("p", "s", "l", "r"))

    def check(self) -> None:
        """Each request has ended once, as it should; nothing waits; what was wrong has been said."""
        end = Start(self.storage)
        requests = end.before.requests
        assert sorted((r.id, str(r.tasks[0].state)) for r in requests) == sorted(IDS.items())
        assert end.journal.requests == ()
        assert all(end.journal.digest_of(name) is not None for name in (*IDS, "p", "s", "l", "r"))
        assert self.refused == {"p"}


def world(channel: str, request: pytest.FixtureRequest, folder: Path) -> World:
    """A new one: nothing has been sent."""
    storage = Crashing()
    match channel:
        case "collection":
            return World(storage, CollectionRig(storage))
        case "inbox":
            return World(storage, InboxRig(storage))
        case "file":
            folder.mkdir()
            return World(storage, FileRig(folder, storage))
        case "in-process":
            return World(storage, InProcessRig())
        case "sent-again":
            return World(storage, SentAgainRig())
        case "custom" | "custom-shaky":
            return World(storage, CustomRig(shaky=channel.endswith("shaky")))
        case _:
            broker = request.getfixturevalue("kafka")
            broker.create_topic(folder.name)
            return World(storage, KafkaRig(broker, folder.name, storage))


@pytest.mark.parametrize(
    ("channel", "step"),
    [
        ("collection", 1),
        ("inbox", 1),
        ("file", 1),
        ("in-process", 1),
        ("sent-again", 1),
        ("custom", 1),
        ("custom-shaky", 1),
        # The broker is real, and each start takes a moment. Behind one write is before the next one: every other
        # boundary is all that can be found afterwards.
        pytest.param("kafka", 2, id="kafka-some"),
        pytest.param("kafka", 1, marks=pytest.mark.thorough, id="kafka-all"),
    ],
)
def test_a_crash_at_any_boundary_loses_no_signal_and_repeats_none(
    channel: str, step: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The signals are sent to an engine that dies at its first boundary, and is started again; then to one that dies at
    the next one (or some further); and so on, until one lives. (By Kafka signals come together as they happen to, so
    there are not always as many boundaries.)"""
    for boundary in count(1, step):
        crashing = world(channel, request, tmp_path / f"{tmp_path.name}-{boundary}")
        crashing.storage.at = boundary
        died = crashing.dies()
        if died:
            crashing.live()
        crashing.check()
        if not died:
            break
    assert boundary > 20
