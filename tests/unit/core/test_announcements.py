"""`core.rules.announcements`: the difference between two saved states, in words."""

from __future__ import annotations

from dataclasses import replace

from snapshotter.core.rules.announcements import between
from snapshotter.core.values.outcome import Outcome
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.tasks import TaskProgress

from .some import ITEMS, ORDERS, bound, request

WAITING = RequestProgress.accepted(request("q1", ORDERS, ITEMS))
OPENED = TaskProgress(ORDERS).opened(bound("k4"), 4, ordered_keys=True)
RUNNING = OPENED.begun(table_empty=False)
MOVED = RUNNING.advanced(bound("k2"), Outcome(2, 0))
DONE = MOVED.advanced(bound("k4"), Outcome(2, 0)).finished()
EMPTY = TaskProgress(ITEMS).opened(None, 0, ordered_keys=True)


def said(before: RequestProgress | None, after: RequestProgress) -> list[str]:
    old = Progress(requests=(before,) if before else ())
    told = between(old, Progress(requests=(after,)))
    return [" ".join(str(w) for w in (a.kind, a.request_id, a.namespace, a.detail) if w) for a in told]


def test_each_step_is_announced_once() -> None:
    """And nothing is told where nothing moved."""
    opened, moved = WAITING.with_task(OPENED), WAITING.with_task(MOVED)
    done = WAITING.with_task(DONE)
    assert said(None, WAITING) == []
    assert said(WAITING, opened) == ["STARTED q1"]
    assert said(opened, moved) == ["IN_PROGRESS q1 shop.orders"]
    assert said(moved, moved) == []
    assert said(moved, done) == [
        "IN_PROGRESS q1 shop.orders",
        "TABLE_SCAN_COMPLETED q1 shop.orders SUCCEEDED",
    ]
    assert said(done, done.with_task(EMPTY)) == ["TABLE_SCAN_COMPLETED q1 shop.items EMPTY", "COMPLETED q1"]


def test_several_steps_at_once_are_announced_in_order() -> None:
    """A request that came and went within one batch."""
    assert said(None, WAITING.with_task(DONE).with_task(EMPTY)) == [
        "STARTED q1",
        "IN_PROGRESS q1 shop.orders",
        "TABLE_SCAN_COMPLETED q1 shop.orders SUCCEEDED",
        "TABLE_SCAN_COMPLETED q1 shop.items EMPTY",
        "COMPLETED q1",
    ]


def test_a_failed_task_fails_its_request_once_the_others_have_ended() -> None:
    """With its reason."""
    failed = WAITING.with_task(RUNNING.failed("not allowed"))
    assert said(WAITING.with_task(RUNNING), failed) == ["FAILED q1 shop.orders not allowed"]
    assert said(failed, failed.with_task(EMPTY)) == ["TABLE_SCAN_COMPLETED q1 shop.items EMPTY", "FAILED q1"]


def test_pause_resume_and_stop() -> None:
    """Each once; what was stopped is named, and a request of which something was stopped is never COMPLETED."""
    running = WAITING.with_task(RUNNING)
    paused = replace(running, paused=True)
    assert said(running, paused) == ["PAUSED q1"]
    assert said(paused, running) == ["RESUMED q1"]
    half = running.with_task(TaskProgress(ITEMS).stopped())
    (aborted,) = between(Progress(requests=(running,)), Progress(requests=(half,)))
    assert (aborted.kind, dict(aborted.data)) == ("ABORTED", {"data_collections": "shop.items"})
    assert said(half, half.with_task(DONE)) == [
        "IN_PROGRESS q1 shop.orders",
        "TABLE_SCAN_COMPLETED q1 shop.orders SUCCEEDED",
        "STOPPED q1",
    ]


def test_stopped_before_it_began() -> None:
    """It never started; one that ends while it is paused does not resume."""
    stopped = WAITING.with_task(TaskProgress(ORDERS).stopped()).with_task(TaskProgress(ITEMS).stopped())
    assert said(WAITING, stopped) == ["ABORTED q1", "STOPPED q1"]
    assert said(replace(WAITING, paused=True), stopped) == ["ABORTED q1", "STOPPED q1"]


def test_going_on_after_a_failure() -> None:
    """RESUMED, and then as ever; if it fails again before that was saved, it fails twice."""
    failed = WAITING.with_task(MOVED.failed("reset")).with_task(EMPTY)
    again = failed.with_task(failed.tasks[0].going_on(1))
    assert said(failed, again) == ["RESUMED q1"]
    assert said(again, again.with_task(DONE))[-1] == "COMPLETED q1"
    twice = again.with_task(again.tasks[0].failed("reset again"))
    assert said(failed, twice) == ["FAILED q1 shop.orders reset again"]


def test_what_goes_with_it() -> None:
    """By the documented names."""
    told = {a.kind: dict(a.data) for a in between(Progress(), Progress(requests=(WAITING.with_task(DONE),)))}
    queue = {"data_collections": "shop.orders,shop.items"}
    assert told["STARTED"] == queue
    assert told["TABLE_SCAN_COMPLETED"] == queue | {
        "scanned_collection": "shop.orders",
        "total_rows_scanned": "4",
        "status": "SUCCEEDED",
    }
    before, after = (Progress(requests=(WAITING.with_task(task),)) for task in (RUNNING, MOVED))
    (progress,) = between(before, after)
    assert progress.data == queue | {
        "current_collection_in_progress": "shop.orders",
        "maximum_key": "k4",
        "last_processed_key": "k2",
    }
