"""`core.progress`: named transitions that refuse impossible steps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from snapshotter.core.progress import Progress, RequestProgress, TaskProgress, TaskState

from .some import ITEMS, ORDERS, bound, request

WAITING = TaskProgress(ORDERS)
OPENED = WAITING.opened(bound("k9"), 9, ordered_keys=True)
RUNNING = OPENED.begun(table_empty=True)
DONE = RUNNING.finished()
FAILED = RUNNING.failed("no")

STEPS: dict[str, Callable[[TaskProgress], TaskProgress]] = {
    "opened": lambda t: t.opened(bound("k9"), 9, ordered_keys=True),
    "begun": lambda t: t.begun(table_empty=False),
    "advanced": lambda t: t.advanced(bound("k2"), rows=2, dropped=1),
    "finished": lambda t: t.finished(),
    "failed": lambda t: t.failed("no"),
}
NEXT = {
    ("opened", TaskState.WAITING): TaskState.OPENED,
    ("begun", TaskState.OPENED): TaskState.RUNNING,
    ("advanced", TaskState.RUNNING): TaskState.RUNNING,
    ("finished", TaskState.RUNNING): TaskState.DONE,
    ("failed", TaskState.WAITING): TaskState.FAILED,
    ("failed", TaskState.OPENED): TaskState.FAILED,
    ("failed", TaskState.RUNNING): TaskState.FAILED,
}


@pytest.mark.parametrize("before", [WAITING, OPENED, RUNNING, DONE, FAILED], ids=lambda t: t.state)
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
    there = RUNNING.advanced(bound("k4"), rows=3, dropped=1).advanced(bound("k6"), rows=1, dropped=0)
    assert (there.frontier, there.chunks, there.rows, there.dropped) == (bound("k6"), 2, 4, 1)
    with pytest.raises(ValueError, match="would go back from 'k6' to 'k5'"):
        there.advanced(bound("k5"), rows=0, dropped=0)
    collated = WAITING.opened(bound("k1"), 9, ordered_keys=False).begun(table_empty=False)
    assert collated.advanced(bound("k6"), rows=0, dropped=0).advanced(bound("k5"), rows=0, dropped=0)


def test_a_request_ends_with_its_last_task() -> None:
    """It failed if any of them did."""
    progress = RequestProgress.accepted(request("q1", ORDERS, ITEMS))
    half = progress.with_task(FAILED)
    assert (half.ended, half.failed) == (False, True)
    whole = half.with_task(TaskProgress(ITEMS, state=TaskState.DONE))
    assert (whole.ended, whole.failed) == (True, True)


def test_ids_to_read_again_are_listed_once() -> None:
    """By collection and key."""
    progress = Progress().with_reread(ORDERS, (bound("k1"), bound("k2"))).with_reread(ORDERS, (bound("k1"),))
    progress = progress.with_reread(ITEMS, (bound("k1"),))
    assert progress.rereads == ((ORDERS, bound("k1")), (ORDERS, bound("k2")), (ITEMS, bound("k1")))
    assert progress.without_rereads(ORDERS, frozenset({"k1"})).rereads == (
        (ORDERS, bound("k2")),
        (ITEMS, bound("k1")),
    )


def test_only_the_newest_ended_requests_are_remembered() -> None:
    """Those that have not ended always are."""
    ended = [RequestProgress(f"q{n}", request().origin, (DONE,)) for n in range(4)]
    waiting = RequestProgress.accepted(request("w"))
    progress = Progress(requests=(ended[0], waiting, *ended[1:]))
    assert [r.id for r in progress.forgetting(2).requests] == ["w", "q2", "q3"]
    assert progress.forgetting(9) == progress
