"""`core.values.coverage`: which collections a start need not read, and how the machine keeps the marks."""

from __future__ import annotations

import json

import pytest

from snapshotter.core.machine import Machine
from snapshotter.core.values import effects as eff
from snapshotter.core.values import inputs as inp
from snapshotter.core.values.commands import Resume, Stop
from snapshotter.core.values.coverage import Coverage
from snapshotter.core.values.namespace_changes import Truncation
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.requests import Origin, SnapshotRequest, Wanted
from streaming.namespaces import Namespace
from tests.support.taken import taken

from .some import ITEMS, ORDERS, arrived, at, bound, machine, only, seen

NEW = Namespace("shop", "new")
MARKS = Coverage(frozenset({ORDERS}), frozenset({ITEMS}))


def landed(it: Machine, batch: int, end: int, **told: object) -> Coverage | None:
    """The marks that are saved with a batch."""
    it.step(arrived(batch, end, **told))
    (saved,) = only(eff.SaveProgress, it.step(inp.BatchLanded(batch)))
    return saved.progress.coverage


def in_a_first_load() -> Machine:
    """Of a settled collection; what has streamed meanwhile was left to it."""
    it = machine(progress=Progress(coverage=MARKS))
    it.step(taken(it, SnapshotRequest("q1", (Wanted(ORDERS),))))
    landed(it, 0, 10)
    it.step(inp.CollectionOpened("q1", ORDERS, bound("k2")))
    landed(it, 1, 11, empty_tables=frozenset({ORDERS}), streamed=frozenset({ORDERS}))
    return it


def test_marks_as_they_are_saved() -> None:
    """As text and back; states of before there were any have none, and get none by themselves."""
    progress = Progress(coverage=MARKS)
    assert Progress.from_json(json.loads(json.dumps(progress.to_json()))) == progress
    old = Progress().to_json()
    del old["coverage"]
    assert Progress.from_json(old).coverage is None
    assert landed(machine(), 0, 10, streamed=frozenset({NEW})) is None


def test_a_mark_ends_with_the_capture() -> None:
    """What a start does not capture has none afterwards, of either kind."""
    assert MARKS.within(lambda n: n == ITEMS) == Coverage(unread=frozenset({ITEMS}))
    assert MARKS.within(lambda n: n == ORDERS).new([ORDERS, ITEMS]) == [ITEMS]


def test_what_is_not_captured_gets_no_mark() -> None:
    """Though a batch ends a request for it."""
    assert MARKS.after_batch((), (), [NEW]) == MARKS
    assert MARKS.after_batch((), (), [NEW, ITEMS]) == MARKS.settling([ITEMS])


def test_what_is_made_while_a_run_streams_is_whole() -> None:
    """It has no mark when its first event comes. What was left unread has one, and stays so, until nothing of before is
    left of it."""
    it = machine(progress=Progress(coverage=MARKS))
    assert landed(it, 0, 10, streamed=frozenset({ORDERS, ITEMS, NEW})) == MARKS.settling([NEW])
    truncated = {ITEMS: Truncation(at(11), 0)}
    assert landed(it, 1, 11, streamed=frozenset({ITEMS}), truncated=truncated) == Coverage(
        frozenset({ORDERS, ITEMS, NEW})
    )


@pytest.mark.parametrize("proves", [True, False])
def test_only_a_read_that_leaves_nothing_behind_settles(proves: bool) -> None:
    """With reconcile; one that ended before the collection was left unread proves nothing."""
    it = machine(progress=Progress(coverage=MARKS))
    wanted = Wanted(ITEMS, reconcile=proves)
    it.step(taken(it, SnapshotRequest("q1", (wanted,))))
    landed(it, 0, 10)
    it.step(inp.CollectionOpened("q1", ITEMS, None))
    after = landed(it, 1, 11)
    assert after == (MARKS.settling([ITEMS]) if proves else MARKS)
    left = Progress.from_json(it.progress.to_json()).covering(MARKS)
    assert landed(machine(progress=left), 2, 12, streamed=frozenset({ITEMS})) == MARKS


def test_a_first_load_settles_too() -> None:
    """Its table was empty."""
    it = machine(progress=Progress(coverage=MARKS))
    it.step(taken(it, SnapshotRequest("q1", (Wanted(ITEMS),))))
    landed(it, 0, 10)
    it.step(inp.CollectionOpened("q1", ITEMS, bound("k2")))
    landed(it, 1, 11, empty_tables=frozenset({ITEMS}))
    it.step(inp.ChunksPlanned("q1", ITEMS, (bound("k2"),), exhausted=True))
    (window,) = it.windows.values()
    it.step(inp.LowWritten(window.id, at(12)))
    it.step(inp.ChunkRead(window.id, at(13), 2))
    it.step(inp.HighWritten(window.id, at(14)))
    it.step(arrived(2, 15, observations=seen(window.id)))
    (saved,) = only(eff.SaveProgress, it.step(inp.BatchLanded(2, {window.id: inp.Outcome(2, 0)})))
    assert saved.progress.coverage == MARKS.settling([ITEMS])


def test_a_first_load_that_is_stopped_leaves_its_collection_unread() -> None:
    """Changes of what it had not reached were left to it, and are in no table."""
    it = in_a_first_load()
    it.step(taken(it, Stop("s1")))
    assert landed(it, 2, 12) == MARKS.leaving([ORDERS])
    assert landed(it, 3, 13) == MARKS.leaving([ORDERS])


@pytest.mark.parametrize("kind", [Origin.INITIAL, Origin.RENAME, Origin.SIGNAL])
def test_a_load_of_what_is_in_no_table_that_is_stopped_leaves_it_unread(kind: Origin) -> None:
    """Of a start, or behind a rename; also before it began. A signal's was one more look at what is there. Not where
    another request has read the collection whole by then."""
    it = machine(progress=Progress(coverage=MARKS))
    it.step(taken(it, SnapshotRequest("q1", (Wanted(ORDERS),), kind)))
    landed(it, 0, 10)
    it.step(taken(it, Stop("s1")))
    assert landed(it, 1, 11) == (MARKS if kind is Origin.SIGNAL else MARKS.leaving([ORDERS]))
    it = machine(progress=Progress(coverage=MARKS))
    whole = SnapshotRequest("q2", (Wanted(ORDERS, reconcile=True),), priority=1)
    it.step(taken(it, SnapshotRequest("q1", (Wanted(ORDERS),), kind), whole))
    landed(it, 0, 10)
    it.step(inp.CollectionOpened("q2", ORDERS, None))
    landed(it, 1, 11)
    it.step(taken(it, Stop("s1")))
    assert landed(it, 2, 12) == MARKS


def test_what_began_as_a_first_load_stays_one_to_whoever_stops_it() -> None:
    """It failed, went on as a merge, and was stopped: what had streamed meanwhile is in no table all the same."""
    it = in_a_first_load()
    it.step(inp.CollectionFailed("q1", ORDERS, "not allowed"))
    assert landed(it, 2, 12) == MARKS
    it.step(taken(it, Resume("r1", frozenset({"q1"}))))
    assert landed(it, 3, 13) == MARKS
    again = Progress.from_json(json.loads(json.dumps(it.progress.to_json())))
    it = Machine("b", again, it.limits, in_stream=True)
    it.step(taken(it, Stop("s1")))
    assert landed(it, 4, 14) == MARKS.leaving([ORDERS])
