"""`core.queue`: whose turn it is."""

from __future__ import annotations

import pytest

from snapshotter.core import queue
from snapshotter.core.progress import Progress, RequestProgress

from .some import ITEMS, ORDERS, request


def accepted(*requests: RequestProgress) -> Progress:
    return Progress(requests=requests)


def test_of_each_collection_the_first_unfinished_task_is_active() -> None:
    """In the order of the queue; once it has ended, whether well or not, the next one is."""
    first, second = (
        RequestProgress.accepted(request("q1", ORDERS, ITEMS)),
        RequestProgress.accepted(request("q2")),
    )
    active = [(r.id, t.namespace) for r, t in queue.active(accepted(first, second))]
    assert active == [("q1", ORDERS), ("q1", ITEMS)]
    failed = first.with_task(first.tasks[0].failed("no"))
    active = [(r.id, t.namespace) for r, t in queue.active(accepted(failed, second))]
    assert active == [("q1", ITEMS), ("q2", ORDERS)]


def test_a_task_is_found_and_replaced() -> None:
    """By request and collection; one that does not exist is an error that names both."""
    progress = accepted(RequestProgress.accepted(request("q1", ORDERS, ITEMS)))
    task = queue.task_of(progress, "q1", ITEMS).failed("no")
    after = queue.with_task(progress, "q1", task)
    assert queue.task_of(after, "q1", ITEMS) == task
    assert queue.task_of(after, "q1", ORDERS) == queue.task_of(progress, "q1", ORDERS)
    with pytest.raises(ValueError, match=r"no task for shop\.items in request 'q9'"):
        queue.task_of(progress, "q9", ITEMS)
