"""`core.announcements`: the difference between two saved states, in words."""

from __future__ import annotations

from snapshotter.core.announcements import between
from snapshotter.core.progress import Progress, RequestProgress, TaskProgress

from .some import ITEMS, ORDERS, bound, request

WAITING = RequestProgress.accepted(request("q1", ORDERS, ITEMS))
OPENED = TaskProgress(ORDERS).opened(bound("k4"), 4, ordered_keys=True)
RUNNING = OPENED.begun(table_empty=False)
MOVED = RUNNING.advanced(bound("k2"), rows=2, dropped=0)
DONE = MOVED.advanced(bound("k4"), rows=2, dropped=0).finished()
EMPTY = TaskProgress(ITEMS).opened(None, 0, ordered_keys=True)


def said(before: RequestProgress | None, after: RequestProgress) -> list[str]:
    old = Progress(requests=(before,) if before else ())
    told = between(old, Progress(requests=(after,)))
    return [" ".join(str(w) for w in (a.kind, a.request_id, a.namespace, a.detail) if w) for a in told]


def test_each_step_is_told_once() -> None:
    """And nothing is told where nothing moved."""
    opened, moved = WAITING.with_task(OPENED), WAITING.with_task(MOVED)
    done = WAITING.with_task(DONE)
    assert said(None, WAITING) == []
    assert said(WAITING, opened) == ["STARTED q1"]
    assert said(opened, moved) == ["IN_PROGRESS q1 shop.orders"]
    assert said(moved, moved) == []
    assert said(moved, done) == ["TABLE_SCAN_COMPLETED q1 shop.orders SUCCEEDED"]
    assert said(done, done.with_task(EMPTY)) == ["TABLE_SCAN_COMPLETED q1 shop.items EMPTY", "COMPLETED q1"]


def test_several_steps_at_once_are_told_in_order() -> None:
    """A request that came and went within one batch."""
    assert said(None, WAITING.with_task(DONE).with_task(EMPTY)) == [
        "STARTED q1",
        "TABLE_SCAN_COMPLETED q1 shop.orders SUCCEEDED",
        "TABLE_SCAN_COMPLETED q1 shop.items EMPTY",
        "COMPLETED q1",
    ]


def test_a_failed_task_aborts_its_request_once_the_others_have_ended() -> None:
    """With its reason."""
    failed = WAITING.with_task(RUNNING.failed("not allowed"))
    assert said(WAITING.with_task(RUNNING), failed) == ["FAILED q1 shop.orders not allowed"]
    assert said(failed, failed.with_task(EMPTY)) == ["TABLE_SCAN_COMPLETED q1 shop.items EMPTY", "ABORTED q1"]
