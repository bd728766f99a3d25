"""Setting a position: which life of it begins, what it knows, and what it passes over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snapshotter.core.values.chunks import Bound
from snapshotter.core.values.coverage import Coverage
from snapshotter.core.values.outcome import Outcome
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import Origin, SnapshotRequest, Wanted
from snapshotter.core.values.tasks import TaskState
from snapshotter.engine.positions import Moved, following, known_position, passed_over, told
from snapshotter.state.generation import Cause, Generation, carried, current
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storage import MemoryStorage
from streaming.delta.table_identity import TableMark
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

ORDERS, PEOPLE = Namespace("shop", "orders"), Namespace("shop", "people")
A, B, C = (ClusterTime(1_764_000_000 + hour * 3600, 1) for hour in range(3))


def running(origin: Origin = Origin.INITIAL) -> RequestProgress:
    """A first load, half-way."""
    request = RequestProgress.accepted(SnapshotRequest("initial", (Wanted(ORDERS),), origin))
    task = request.tasks[0].opened(Bound(b"z", "z"), 10, ordered_keys=True).begun(table_empty=True)
    return request.with_task(task.advanced(Bound(b"a", "a"), Outcome(5, 0)))


def landed(position: ClusterTime = B) -> Progress:
    marks = Coverage(frozenset({ORDERS, PEOPLE}))
    return Progress(8, position, (running(),), coverage=marks, tables={ORDERS: TableMark("id", 4, "c")})


def after(
    before: Generation, progress: Progress, was: ClusterTime | None, now: ClusterTime, heal: bool = False
) -> Generation:
    return following(before, progress, was, now, heal=heal, cause=Cause.RESET)


def test_forward_is_a_gap_and_backward_is_none() -> None:
    """The changes in between are never seen; those behind are seen again."""
    forward = after(Generation(), landed(), B, C)
    assert forward == Generation(
        2, cause=Cause.RESET, start=C, heals=False, gap=passed_over(B, C, Cause.RESET)
    )
    assert not forward.heal
    assert after(Generation(), landed(), B, A).gap is None
    assert after(Generation(), landed(), B, B).gap is None


def test_healing_leaves_no_gap() -> None:
    """All is read again; so it is not a lost position, but one from which everything is read."""
    healed = after(Generation(), landed(), B, C, heal=True)
    assert (healed.gap, healed.heal, healed.lost) == (None, True, False)


def test_what_a_life_without_a_batch_was_to_do_stays_to_be_done() -> None:
    """Set twice before a start: the gap begins where the first one did, and what was to be healed is healed."""
    first = after(Generation(), landed(), A, B)
    state = carried(landed(A), B)
    second = after(first, state, B, C)
    assert (second.number, second.gap) == (2, passed_over(A, C, Cause.RESET))
    assert after(first, state, B, A).gap is None, "back to where it was"
    healing = after(Generation(), landed(), A, B, heal=True)
    assert after(healing, Progress(), B, C).heal
    assert after(Generation(2), Progress(), A, B).heal, "a lost position of an earlier version"


def test_an_engine_that_never_ran_begins_there_as_at_a_first_start() -> None:
    """Nothing is passed over, for nothing was seen; and nothing is known."""
    first = after(Generation(), Progress(), None, B)
    assert first == Generation(1, cause=Cause.RESET, start=B, heals=False)


def test_what_is_known_is_carried() -> None:
    """Marks, tables, requests; a first load goes on as a scan that merges. Batches count anew."""
    before = landed()
    moved = carried(before, C)
    assert (moved.batch_id, moved.position, moved.fresh) == (-1, C, False)
    assert (moved.coverage, moved.tables) == (before.coverage, before.tables)
    (task,) = moved.requests[0].tasks
    assert (task.state, task.first_load, task.frontier) == (TaskState.RUNNING, False, Bound(b"a", "a"))
    old = replace(before, coverage=None)
    assert carried(old, C).coverage == Coverage(frozenset({ORDERS})), "a state from before there were marks"
    assert Progress().fresh


def test_a_generation_says_what_is_set_and_opens_again() -> None:
    """Files of before, which say nothing of it, too."""
    storage = MemoryStorage()
    store = ProgressStore(storage)
    store.save(landed())
    moved = after(store.generation, landed(), B, C)
    begun = store.begin_generation(moved, carried(landed(), C))
    assert current(storage) == begun.generation == moved
    assert begun.load_before(0).batch_id == -1
    storage.write_text("generation.json", '{"format": 1, "generation": 3, "removed": true}')
    assert current(storage) == Generation(3, removed=True)
    text = storage.read_text("generation.json")
    assert text is not None
    assert "gap" not in text


def test_the_position_is_what_landed_or_where_it_begins() -> None:
    """Before any batch of a life of it has landed it is the latter, and said to be."""
    storage = MemoryStorage()
    store = ProgressStore(storage)
    assert known_position(storage) == (None, False)
    storage.write_text(
        "beginning.json", f'{{"format": 1, "generation": 1, "position": {{"t": {A.t}, "i": 1}}}}'
    )
    assert known_position(storage) == (A, True)
    store.save(landed())
    assert known_position(storage) == (B, False)
    store.begin_generation(after(store.generation, landed(), B, C), carried(landed(), C))
    assert known_position(storage) == (C, True)


@pytest.mark.parametrize(
    ("moved", "said"),
    [
        (Moved(B, C, False, passed_over(B, C, Cause.RESET)), "recorded as a gap"),
        (Moved(B, A, False, None), "none is doubled"),
        (Moved(B, C, True, None), "with reconcile"),
        (Moved(None, C, False, None), "the next start begins at"),
    ],
)
def test_what_was_done_is_said(moved: Moved, said: str) -> None:
    """With both times."""
    lines = told(moved)
    assert said in lines[-1]
    assert any("2025-11-24T" in line for line in lines)
