"""The journal: requests, decisions, and which signals were handled, as a restart finds them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from snapshotter.core.values.chunks import Bound, KeyRange
from snapshotter.core.values.commands import Pause
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.memory import KEPT, ROOM, Handled, Memory, Moment
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import Origin, SnapshotRequest, Wanted
from snapshotter.state.journal import Journal
from snapshotter.state.storage import MemoryStorage
from streaming.namespaces import Namespace
from tests.support.taken import after

ORDERS = Namespace("shop", "orders")
REQUEST = SnapshotRequest("r1", (Wanted(ORDERS, '{"a": 1}'), Wanted(Namespace("shop", "p.q"))), Origin.SIGNAL)
RUNNING = Progress(3, requests=(RequestProgress.accepted(REQUEST),))


@dataclass
class Clock:
    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def ended(*requests: SnapshotRequest) -> Progress:
    """A state that knows them as ended."""
    known = []
    for request in map(RequestProgress.accepted, requests):
        for task in request.tasks:
            request = request.with_task(task.stopped())
        known.append(request)
    return Progress(4, requests=tuple(known))


def test_the_journal_outlives_a_restart() -> None:
    """Requests come back in order with filters and names; an id is taken once."""
    storage = MemoryStorage()
    journal = Journal(storage)
    other = SnapshotRequest("r2", (Wanted(ORDERS),), Origin.INITIAL)
    assert [journal.add(request) for request in (REQUEST, other, REQUEST)] == [True, True, False]
    again = Journal(storage)
    assert again.requests == (REQUEST, other)


def test_what_has_ended_leaves_the_journal() -> None:
    """Once the state that a replay starts from knows it; and nothing else does."""
    storage = MemoryStorage()
    journal = Journal(storage)
    journal.add(REQUEST)
    journal.forget(RUNNING)
    assert Journal(storage).requests == (REQUEST,)
    journal.forget(ended(REQUEST))
    assert Journal(storage).requests == journal.requests == ()


def test_ids_are_remembered_for_the_time_that_is_stated() -> None:
    """All of them, however many end within it, and over a restart: a day after its end the first of 21,001 requests is
    known, and a second later it is not, for 20,000 others are newer."""
    storage, clock = MemoryStorage(), Clock()
    journal = Journal(storage, 86_400, clock)
    first, *others = (replace(REQUEST, id=f"q{n}", digest=f"d{n}") for n in range(KEPT + 1_001))
    for together in ([first], others):
        journal.take(together, Controls())
        journal.forget(ended(*together))
    for seconds in (0, 86_400):
        clock.now = 1_000_000.0 + seconds
        journal = Journal(storage, 86_400, clock)
        assert journal.digest_of("q0") == "d0"
        journal.take([replace(REQUEST, id=f"after-{seconds}")], Controls())
        journal.forget(ended(replace(REQUEST, id=f"after-{seconds}")))
    assert Journal(storage).digest_of("q0") == "d0"
    clock.now += 1
    journal.take([replace(REQUEST, id="last")], Controls())
    journal.forget(ended(replace(REQUEST, id="last")))
    known = [
        name for name in ("q0", f"q{KEPT + 1_000}", "last") if Journal(storage).digest_of(name) is not None
    ]
    assert known == [f"q{KEPT + 1_000}", "last"]


def test_what_is_young_takes_room() -> None:
    """Requests that wait, those that have ended, and commands; what may be forgotten takes none."""
    clock = Clock()
    journal = Journal(MemoryStorage(), 60, clock)
    assert journal.room == ROOM
    done = replace(REQUEST, id="done")
    journal.take([REQUEST, done], Controls().remembering({"p": "", "s": ""}, journal.moment()))
    journal.forget(ended(done))
    assert journal.room == ROOM - 4
    clock.now += 61
    assert (journal.room, journal.digest_of("done"), journal.digest_of("p")) == (ROOM - 1, "", "")


def test_ids_of_an_earlier_version_are_known() -> None:
    """It noted no times, and promised the newest 20,000."""
    storage = MemoryStorage()
    controls = {**Controls().to_json(), "taken": {"p1": "d1"}}
    storage.write_text("journal.json", json.dumps({"format": 1, "requests": [], "controls": controls}))
    journal = Journal(storage)
    assert journal.digest_of("p1") == "d1"
    journal.decide(journal.controls.remembering({f"x{n}": "" for n in range(KEPT)}, Moment(1_000_000)))
    assert journal.digest_of("p1") is None


def test_decisions_outlive_a_restart() -> None:
    """With the ids of the commands; requests that wait are shown as operators left them."""
    storage = MemoryStorage()
    journal = Journal(storage)
    journal.add(REQUEST)
    journal.decide(after(journal.controls, Pause("p1", digest="d"), journal.waiting(Progress())))
    again = Journal(storage)
    assert again.controls == journal.controls
    assert [r.paused for r in again.waiting(Progress())] == [True]
    assert again.waiting(RUNNING) == []
    assert [again.digest_of(name) for name in ("r1", "p1", "x")] == ["", "d", None]


def test_signals_that_came_together_are_one_write() -> None:
    """Requests and decisions: after a crash all of it is known, or nothing."""

    class Counting(MemoryStorage):
        writes = 0

        def write_text(self, name: str, text: str) -> None:
            self.writes += 1
            super().write_text(name, text)

    storage = Counting()
    journal = Journal(storage)
    requests = [replace(REQUEST, id=f"r{n}") for n in range(1_000)]
    controls = Controls(paused=frozenset({"r7"}), taken=Memory({"p1": Handled("d", 7)}))
    journal.take(requests, controls)
    journal.take(requests, controls)
    assert storage.writes == 1
    again = Journal(storage)
    assert (again.requests, again.controls) == (tuple(requests), controls)
    assert again.size == journal.size > 1_000 * len(REQUEST.id)


def test_decisions_of_an_earlier_version_are_found() -> None:
    """They had a file of their own."""
    storage = MemoryStorage()
    storage.write_text("journal.json", json.dumps({"format": 1, "requests": []}))
    before = Controls(paused=frozenset({"r1"}))
    storage.write_text("controls.json", json.dumps({"format": 1, **before.to_json()}))
    assert Journal(storage).controls == before
    Journal(storage).decide(Controls())
    assert Journal(storage).controls == Controls()


def test_every_part_of_a_request_comes_back() -> None:
    """Single ids, a range, what it reconciles, how urgent it is, whether the stream waits for it, and what it said."""
    storage = MemoryStorage()
    low = Bound(b"\x01a", "a")
    parts = (
        Wanted(ORDERS, keys=(low,), reconcile=True),
        Wanted(Namespace("shop", "people"), range=KeyRange(low, None, closed=True)),
    )
    request = SnapshotRequest("r9", parts, Origin.SIGNAL, priority=3, digest="abc")
    blocking = SnapshotRequest("r10", (Wanted(ORDERS),), blocking=True)
    Journal(storage).add(request)
    Journal(storage).add(blocking)
    assert Journal(storage).requests == (request, blocking)
    assert Journal(storage).digest_of("r9") == "abc"
