"""Progress by batch, and the journal of requests: what a restart finds."""

from __future__ import annotations

import json

import pytest

from snapshotter.core.values.chunks import Bound
from snapshotter.core.values.coverage import Coverage
from snapshotter.core.values.outcome import Outcome
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import Origin, SnapshotRequest, Wanted
from snapshotter.core.values.rereads import Rereads
from snapshotter.core.values.suspension import Suspension
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storage import MemoryStorage
from streaming.delta.table_identity import TableMark
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

ORDERS = Namespace("shop", "orders")
REQUEST = SnapshotRequest("r1", (Wanted(ORDERS, '{"a": 1}'), Wanted(Namespace("shop", "p.q"))), Origin.SIGNAL)


def progress(batch_id: int) -> Progress:
    """A state with something in every field."""
    request = RequestProgress.accepted(REQUEST)
    task = request.tasks[0].opened(Bound(b"\x05last", "z"), 7, ordered_keys=True).begun(table_empty=True)
    task = task.advanced(Bound(b"\x05a", "a"), Outcome(3, 1))
    other, position = Namespace("shop", "p.q"), ClusterTime(5, batch_id)
    return Progress(
        batch_id,
        position,
        (request.with_task(task),),
        Rereads().adding(ORDERS, [Bound(b"\x01b", "b")]),
        Coverage(frozenset({ORDERS}), frozenset({other})),
        {other: Suspension("changed", "somebody did", "read it again", position, frozenset({"r0"}), "r2")},
        {ORDERS: TableMark("id", 4, "commit")},
        {ORDERS: ("_id", "region")},
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
