"""`core.values.suspension` and what progress makes of it; how the machine uses both is in the trace ``suspended``."""

from __future__ import annotations

from dataclasses import replace

from snapshotter.core.values.chunks import Bound, KeyRange
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import SnapshotRequest, Wanted
from snapshotter.core.values.rereads import Rereads
from snapshotter.core.values.suspension import Suspension, repairing
from snapshotter.core.values.tasks import TaskState
from streaming.delta.table_identity import TableMark
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

ORDERS, ITEMS = Namespace("shop", "orders"), Namespace("shop", "items")
AT = ClusterTime(7, 1)
WHY = Suspension("changed", "somebody deleted rows", "read it again", AT, waiting=frozenset({"there"}))


def request(name: str, *wanted: Wanted) -> RequestProgress:
    return RequestProgress.accepted(SnapshotRequest(name, wanted))


def suspended(*requests: RequestProgress, suspension: Suspension = WHY) -> Progress:
    return Progress(3, AT, requests, suspended={ORDERS: suspension}, tables={ORDERS: TableMark("t", 4)})


def in_state(request: RequestProgress, state: TaskState) -> RequestProgress:
    (task,) = request.tasks
    return request.with_task(replace(task, state=state))


def test_only_a_whole_reconcile_that_came_later_ends_a_suspension() -> None:
    """Not one that was there, nor a plain read, one of a filter, of single ids or of a range."""
    key = Bound(b"1", "1")
    wanted = {
        "later": Wanted(ORDERS, reconcile=True),
        "there": Wanted(ORDERS, reconcile=True),
        "plain": Wanted(ORDERS),
        "filtered": Wanted(ORDERS, "{}"),
        "keys": Wanted(ORDERS, keys=(key,), reconcile=True),
        "range": Wanted(ORDERS, range=KeyRange(None, key), reconcile=True),
    }
    progress = suspended(*[request(name, want) for name, want in wanted.items()])
    going = [r.id for r in progress.requests if not progress.rests(r, r.tasks[0])]
    assert going == ["later"]
    assert all(progress.resting(r) for r in progress.requests if r.id != "later")


def test_a_request_rests_as_long_as_all_that_is_left_of_it_does() -> None:
    """What it reads elsewhere goes on."""
    both = request("there", Wanted(ORDERS), Wanted(ITEMS))
    progress = suspended(both)
    assert progress.rests(both, both.tasks[0])
    assert not progress.resting(both)
    done = both.with_task(replace(both.tasks[1], state=TaskState.DONE))
    assert progress.resting(done)


def test_events_land_again_once_a_read_has_begun_and_others_wait_until_it_is_done() -> None:
    """What the table was before matters no more; another reconcile waits, too."""
    cure, another = (request(name, Wanted(ORDERS, reconcile=True)) for name in ("cure", "another"))
    begun = suspended(in_state(cure, TaskState.RUNNING), another).restoring(ORDERS, "cure")
    assert (begun.left_out, begun.tables) == (frozenset(), {})
    assert begun.rests(another, another.tasks[0])
    assert not begun.rests(cure, cure.tasks[0])
    done = begun.with_request(in_state(cure, TaskState.DONE)).restored()
    assert done.suspended == {}


def test_a_restoring_read_that_does_not_come_to_its_end_leaves_the_collection_suspended() -> None:
    """Since then events are left out again, so going on behind what had landed would not do: it waits for the next."""
    cure = request("cure", Wanted(ORDERS, reconcile=True))
    for state in (TaskState.STOPPED, TaskState.FAILED):
        begun = suspended(cure).restoring(ORDERS, "cure")
        begun = replace(
            begun, position=ClusterTime(9, 1), rereads=Rereads().adding(ORDERS, [Bound(b"1", "1")])
        )
        again = begun.with_request(in_state(cure, state)).restored()
        assert again.left_out == {ORDERS}
        assert again.suspended[ORDERS].waiting == {"there", "cure"}
        assert again.suspended[ORDERS].since == ClusterTime(9, 1)
        assert not again.rereads


def test_a_suspension_ends_first_loads_and_single_ids() -> None:
    """Events of ids that no window has reached are left out with all others from here on."""
    load = request("load", Wanted(ORDERS), Wanted(ITEMS))
    load = replace(
        load, tasks=tuple(replace(t, state=TaskState.RUNNING, first_load=True) for t in load.tasks)
    )
    ids = Rereads().adding(ORDERS, [Bound(b"1", "1")]).adding(ITEMS, [Bound(b"2", "2")])
    progress = Progress(3, AT, (load,), ids).suspending(ORDERS, WHY)
    assert [task.first_load for task in progress.requests[0].tasks] == [False, True]
    assert list(progress.rereads) == [(ITEMS, Bound(b"2", "2"))]
    assert progress.left_out == {ORDERS}


def test_nothing_is_known_of_what_is_not_captured() -> None:
    """A list that leaves a collection out ends its suspension; captured again, its table is looked at anew."""
    assert suspended().capturing(lambda namespace: namespace != ORDERS) == Progress(3, AT)
    assert suspended().capturing(lambda namespace: True) == suspended()


def test_each_repair_has_an_id_of_its_own() -> None:
    """Also where the position stands still in between; the same progress gives the same id."""
    first = repairing(ORDERS, AT, set())
    assert repairing(ORDERS, AT, set()) == first
    assert repairing(ORDERS, AT, {first.id}).id == f"{first.id}/2"
    assert first.wanted == (Wanted(ORDERS, reconcile=True),)
