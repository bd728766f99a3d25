"""`core.values.progress`: named transitions that refuse impossible steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from snapshotter.core.values.chunks import KeyRange
from snapshotter.core.values.outcome import Outcome
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import Wanted
from snapshotter.core.values.tasks import TaskProgress, TaskState

from .some import ITEMS, ORDERS, bound, request

WAITING = TaskProgress(ORDERS)
OPENED = WAITING.opened(bound("k9"), 9, ordered_keys=True)
RUNNING = OPENED.begun(table_empty=True)
DONE = RUNNING.finished()
FAILED = RUNNING.failed("no")
STOPPED = RUNNING.stopped()

STEPS: dict[str, Callable[[TaskProgress], TaskProgress]] = {
    "opened": lambda t: t.opened(bound("k9"), 9, ordered_keys=True),
    "begun": lambda t: t.begun(table_empty=False),
    "advanced": lambda t: t.advanced(bound("k2"), Outcome(2, 1)),
    "finished": lambda t: t.finished(),
    "failed": lambda t: t.failed("no"),
    "stopped": lambda t: t.stopped(),
    "going on": lambda t: t.going_on(1),
}
NEXT = {
    ("opened", TaskState.WAITING): TaskState.OPENED,
    ("begun", TaskState.OPENED): TaskState.RUNNING,
    ("advanced", TaskState.RUNNING): TaskState.RUNNING,
    ("finished", TaskState.RUNNING): TaskState.DONE,
    ("failed", TaskState.WAITING): TaskState.FAILED,
    ("failed", TaskState.OPENED): TaskState.FAILED,
    ("failed", TaskState.RUNNING): TaskState.FAILED,
    ("stopped", TaskState.WAITING): TaskState.STOPPED,
    ("stopped", TaskState.OPENED): TaskState.STOPPED,
    ("stopped", TaskState.RUNNING): TaskState.STOPPED,
    ("going on", TaskState.FAILED): TaskState.WAITING,
}


@pytest.mark.parametrize("before", [WAITING, OPENED, RUNNING, DONE, STOPPED, FAILED], ids=lambda t: t.state)
@pytest.mark.parametrize("step", STEPS)
def test_the_table_of_transitions(before: TaskProgress, step: str) -> None:
    """Every pair of state and step: allowed, or refused with the collection and the state."""
    after = NEXT.get((step, before.state))
    if after is None:
        with pytest.raises(ValueError, match=rf"shop\.orders: .*{before.state}"):
            STEPS[step](before)
    else:
        assert STEPS[step](before).state is after


def test_an_empty_collection_is_done_at_once() -> None:
    """There is nothing to scan."""
    assert WAITING.opened(None, 0, ordered_keys=True).state is TaskState.DONE


@pytest.mark.parametrize(
    ("task", "table_empty", "first"),
    [
        (OPENED, True, True),
        (OPENED, False, False),
        (TaskProgress(ORDERS, filter="{}").opened(bound("k9"), 9, ordered_keys=True), True, False),
        (WAITING.opened(bound("k9"), 9, ordered_keys=False), True, False),
    ],
)
def test_a_first_load_reads_everything_into_an_empty_table(
    task: TaskProgress, table_empty: bool, first: bool
) -> None:
    """And keys are ordered as ids are, or nobody could say which of them are unreached."""
    assert task.begun(table_empty=table_empty).first_load is first


def test_the_frontier_only_moves_up() -> None:
    """By key, where keys are ordered as ids are; counts add up."""
    there = RUNNING.advanced(bound("k4"), Outcome(3, 1)).advanced(bound("k6"), Outcome(1, 0))
    assert (there.frontier, there.chunks, there.rows, there.superseded) == (bound("k6"), 2, 4, 1)
    with pytest.raises(ValueError, match="would go back from 'k6' to 'k5'"):
        there.advanced(bound("k5"), Outcome(0, 0))
    collated = WAITING.opened(bound("k1"), 9, ordered_keys=False).begun(table_empty=False)
    assert collated.advanced(bound("k6"), Outcome(0, 0)).advanced(bound("k5"), Outcome(0, 0))


def test_a_request_ends_with_its_last_task() -> None:
    """It failed if any of them did."""
    progress = RequestProgress.accepted(request("q1", ORDERS, ITEMS))
    half = progress.with_task(FAILED)
    assert (half.ended, half.failed) == (False, True)
    whole = half.with_task(TaskProgress(ITEMS, state=TaskState.DONE))
    assert (whole.ended, whole.failed) == (True, True)


def test_a_failed_task_goes_on_behind_what_has_landed() -> None:
    """And is a first load no more, for what streamed since has landed ahead of it."""
    failed = RUNNING.advanced(bound("k4"), Outcome(3, 0)).failed("no")
    again = failed.going_on(2)
    assert (again.state, again.frontier, again.first_load) == (TaskState.RUNNING, bound("k4"), False)
    assert (again.error, again.resumed, again.rows) == (None, 2, 3)


def test_single_ids_are_asked_for_whether_they_are_there_or_not() -> None:
    """Each once, in the order of their keys; they end the scan, and are no first load."""
    task = TaskProgress.of(Wanted(ORDERS, keys=(bound("k4"), bound("k1"), bound("k4"))))
    assert task.keys == (bound("k1"), bound("k4"))
    task = task.opened(None, None, ordered_keys=True)
    assert (task.state, task.last, task.estimated) == (TaskState.OPENED, bound("k4"), 2)
    assert not task.begun(table_empty=True).first_load


@pytest.mark.parametrize(
    "part",
    [
        Wanted(ORDERS, range=KeyRange(bound("k1"), None, closed=True)),
        Wanted(ORDERS, reconcile=True),
    ],
)
def test_a_part_is_no_first_load(part: Wanted) -> None:
    """Nobody would read the ids outside of it."""
    assert (
        not TaskProgress.of(part).opened(bound("k9"), 1, ordered_keys=True).begun(table_empty=True).first_load
    )


def test_ids_to_read_again_are_listed_once() -> None:
    """By collection and key."""
    progress = Progress().with_reread(ORDERS, (bound("k1"), bound("k2"))).with_reread(ORDERS, (bound("k1"),))
    progress = progress.with_reread(ITEMS, (bound("k1"),))
    assert list(progress.rereads) == [(ORDERS, bound("k1")), (ORDERS, bound("k2")), (ITEMS, bound("k1"))]
    assert len(progress.rereads) == 3
    rest = progress.without_rereads(ORDERS, frozenset({"k1", "k7"})).rereads
    assert list(rest) == [(ORDERS, bound("k2")), (ITEMS, bound("k1"))]
    assert not rest.without(ORDERS, frozenset({"k2"})).without(ITEMS, frozenset({"k1"}))


def test_only_the_newest_ended_requests_are_remembered() -> None:
    """By when they ended, not by when they came; those that have not ended always are, and one that has just ended is,
    for the state before this batch does not know it as ended."""
    ended = [RequestProgress(f"q{n}", request().origin, (DONE,), ended_in=9 - n) for n in range(4)]
    waiting, new = RequestProgress.accepted(request("w")), RequestProgress("new", request().origin, (DONE,))
    progress = Progress(batch_id=9, requests=(ended[1], waiting, *ended[2:], new))
    known = progress.forgetting(2)
    assert [r.id for r in known.requests] == ["q1", "w", "new"]
    assert [r.ended_in for r in known.requests] == [8, None, 9]
    assert [r.id for r in progress.forgetting(0).requests] == ["w", "new"]
    assert replace(known, batch_id=10).forgetting(1).requests == known.requests[1:]
    assert known.forgetting(9) == known
