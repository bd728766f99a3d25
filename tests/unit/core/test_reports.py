"""What a task's report says after a crash between a commit and the save of progress."""

from __future__ import annotations

import pytest

from snapshotter.core.values.outcome import Outcome, Reading, Uncounted, shared_out
from snapshotter.core.values.tasks import TaskProgress

from .some import ORDERS, bound

RUNNING = TaskProgress(ORDERS).opened(bound("k9"), 10, ordered_keys=True).begun(table_empty=False)
REPAIRED = Outcome(kept=4, superseded=1, deleted=1, changed=2, unchanged=1)
"""Of five documents up to k4; besides, one row was missing at source, and one is new."""


def report(task: TaskProgress) -> tuple[int, ...]:
    """Inserted, changed, deleted, unchanged, superseded."""
    return task.inserted, task.changed, task.deleted, task.unchanged, task.superseded


def found(outcome: Outcome, upto: str = "k4") -> Uncounted:
    return Uncounted("r", outcome, bound(upto))


def test_what_was_repaired_before_a_crash_is_counted_and_its_chunk_only_once() -> None:
    """Read again, the documents equal their rows; the next chunk counts in full."""
    task = RUNNING.counting(found(REPAIRED))
    assert (report(task), task.frontier, task.chunks) == ((1, 2, 1, 1, 1), None, 0)
    again = task.advanced(bound("k4"), Outcome(kept=5, superseded=0, unchanged=5))
    assert (report(again), again.repeats, again.repeats_upto) == ((1, 2, 1, 1, 1), 0, None)
    behind = again.advanced(bound("k9"), Outcome(kept=3, superseded=0, unchanged=3))
    assert report(behind) == (1, 2, 1, 4, 1)


def test_chunks_of_another_size_come_again() -> None:
    """A smaller one, and one that reaches beyond: as many READs are left out as were counted."""
    task = RUNNING.counting(found(REPAIRED)).advanced(bound("k2"), Outcome(2, 0, unchanged=2))
    assert (task.repeats, task.repeats_upto) == (3, "k4")
    assert report(task.advanced(bound("k6"), Outcome(6, 0, unchanged=6))) == (1, 2, 1, 4, 1)


def test_what_differs_when_it_is_read_again_counts() -> None:
    """Somebody has altered rows, or a document was changed, in between."""
    task = RUNNING.counting(found(REPAIRED)).advanced(bound("k4"), Outcome(4, 1, 1, changed=1, unchanged=2))
    assert report(task) == (2, 3, 2, 1, 1)


@pytest.mark.parametrize("upto", ["k2", "k4", "k6"])
def test_several_crashes_count_each_commit(upto: str) -> None:
    """The second run commits a chunk of another size, and crashes as the first one did."""
    rows = {"k2": 2, "k4": 5, "k6": 7}[upto]
    task = RUNNING.counting(found(REPAIRED)).counting(found(Outcome(rows, 0, unchanged=rows), upto))
    assert sum(report(task)) == sum(report(RUNNING.counting(found(REPAIRED)))) + max(0, rows - 5)
    last = task.advanced(bound("k9"), Outcome(9, 0, unchanged=9))
    assert report(last) == (1, 2, 1, 5, 1), "nine documents, and one that is gone"
    assert not last.repeats


def test_where_all_is_written_all_that_comes_again_changes_its_row() -> None:
    """It is left out all the same."""
    task = TaskProgress(ORDERS, rewrite=True).opened(bound("k9"), 9, ordered_keys=True)
    task = task.begun(table_empty=False).counting(found(Outcome(5, 0, changed=5)))
    assert report(task.advanced(bound("k9"), Outcome(9, 0, changed=9))) == (0, 9, 0, 0, 0)


def test_a_task_that_was_stopped_meanwhile_says_what_it_has_found() -> None:
    """And what comes again is kept with its state."""
    task = RUNNING.stopped().counting(found(REPAIRED))
    assert report(task) == (1, 2, 1, 1, 1)
    assert list(task.unsound()) == []
    assert TaskProgress.from_json(task.to_json()) == task


def test_what_a_commit_counts_is_shared_out_by_one_rule() -> None:
    """Windows one by one, or summed up by their request: what is unchanged first, and nothing to what is superseded."""
    windows = [Reading(3, 3), Reading(2, 0), Reading(4, 4, deleted=1)]
    each = list(shared_out(windows, kept=6, changed=2, unchanged=3))
    assert each == [Outcome(3, 0, 0, 0, 3), Outcome(0, 2), Outcome(3, 1, 1, 2, 0)]
    (whole,) = shared_out([Reading(9, 7, deleted=1)], kept=6, changed=2, unchanged=3)
    assert whole == Outcome(6, 3, 1, 2, 3)
