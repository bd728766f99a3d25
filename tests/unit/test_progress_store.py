"""Progress by batch, and the journal of requests: what a restart finds."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from snapshotter.core.chunks import Bound, KeyRange
from snapshotter.core.controls import Controls
from snapshotter.core.inputs import PauseReceived
from snapshotter.core.progress import Progress, RequestProgress
from snapshotter.core.requests import Origin, SnapshotRequest, Wanted
from snapshotter.state.progress_store import Journal, ProgressStore
from snapshotter.state.storage import MemoryStorage
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

ORDERS = Namespace("shop", "orders")
REQUEST = SnapshotRequest("r1", (Wanted(ORDERS, '{"a": 1}'), Wanted(Namespace("shop", "p.q"))), Origin.SIGNAL)


def progress(batch_id: int) -> Progress:
    """A state with something in every field."""
    request = RequestProgress.accepted(REQUEST)
    task = request.tasks[0].opened(Bound(b"\x05last", "z"), 7, ordered_keys=True).begun(table_empty=True)
    task = task.advanced(Bound(b"\x05a", "a"), rows=3, dropped=1)
    return Progress(
        batch_id, ClusterTime(5, batch_id), (request.with_task(task),), ((ORDERS, Bound(b"\x01b", "b")),)
    )


def test_a_batch_starts_from_the_state_before_it() -> None:
    """Also when its own state is there already: a batch that is repeated repeats its decisions."""
    store = ProgressStore(MemoryStorage())
    assert store.load_before(0) == Progress()
    assert store.newest() is None
    for batch in (0, 1, 2):
        store.save(progress(batch))
    assert store.load_before(2) == progress(1)
    assert store.load_before(3) == progress(2) == store.newest()
    assert store.load_before(0) == Progress()


def test_batches_that_saved_nothing_are_passed_over() -> None:
    """The newest state before a batch counts, however far back."""
    store = ProgressStore(MemoryStorage())
    store.save(progress(3))
    assert store.load_before(9) == progress(3)


def test_old_states_go() -> None:
    """The newest twenty stay and a few more, so that the folder does not grow for ever."""
    storage = MemoryStorage()
    store = ProgressStore(storage)
    for batch in range(101):
        store.save(progress(batch))
    names = storage.list_names("progress")
    assert len(names) == 20
    assert store.load_before(101) == progress(100)
    assert store.load_before(100) == progress(99)


def test_another_format_is_refused() -> None:
    """By the file's name, rather than read as something it is not."""
    storage = MemoryStorage()
    storage.write_text("progress/000000000004.json", json.dumps({"format": 99}))
    with pytest.raises(ValueError, match=r"progress/000000000004\.json is not progress of format 1"):
        ProgressStore(storage).load_before(5)


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
    running = progress(3)
    journal.forget(running)
    assert Journal(storage).requests == (REQUEST,)
    (request,) = running.requests
    for task in request.tasks:
        request = request.with_task(task.stopped())
    journal.forget(replace(running, requests=(request,)))
    assert Journal(storage).requests == journal.requests == ()


def test_decisions_outlive_a_restart() -> None:
    """With the ids of the commands; requests that wait are shown as operators left them."""
    storage = MemoryStorage()
    journal = Journal(storage)
    journal.add(REQUEST)
    journal.decide(journal.controls.after(PauseReceived("p1", digest="d"), journal.waiting(Progress())))
    again = Journal(storage)
    assert again.controls == journal.controls
    assert [r.paused for r in again.waiting(Progress())] == [True]
    assert again.waiting(progress(3)) == []
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
    controls = Controls(paused=frozenset({"r7"}), taken={"p1": "d"})
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
