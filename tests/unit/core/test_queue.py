"""`core.rules.queue`: whose turn it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from snapshotter.core.rules import queue
from snapshotter.core.values.progress import Progress, RequestProgress
from streaming.namespaces import Namespace

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


def turns(*requests: RequestProgress) -> list[tuple[str, str]]:
    return [(r.id, t.namespace.collection) for r, t in queue.active(accepted(*requests))]


def some(name: str, *wanted: Namespace, **more: Any) -> RequestProgress:
    return RequestProgress.accepted(replace(request(name, *wanted), **more))


def test_the_more_urgent_goes_first_and_of_equals_the_earlier() -> None:
    """A higher priority wins the collection, and comes first; of the same priority whoever was accepted first does."""
    low, high, late = some("low"), some("high", priority=5), some("late", priority=5)
    assert turns(low, high, late) == [("high", "orders")]
    assert turns(low, some("other", ITEMS, priority=-1)) == [("low", "orders"), ("other", "items")]
    assert turns(some("other", ITEMS, priority=-1), low) == [("low", "orders"), ("other", "items")]
    assert turns(some("first"), some("second")) == [("first", "orders")]


def test_a_blocking_request_has_the_turn_alone() -> None:
    """Before all others, whatever their priority; of several the first. One that is paused keeps nobody waiting."""
    urgent = some("urgent", ITEMS, priority=9)
    first, second = (some(name, ORDERS, ITEMS, blocking=True) for name in ("b1", "b2"))
    assert turns(urgent, first, second) == [("b1", "orders"), ("b1", "items")]
    assert turns(urgent, replace(first, paused=True), second) == [("b2", "orders"), ("b2", "items")]
    assert turns(urgent, replace(first, paused=True)) == [("urgent", "items")]
