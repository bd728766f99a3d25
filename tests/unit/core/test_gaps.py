"""Gaps as values: when they are open, what closes them, and what is announced."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snapshotter.core.rules.announcements import GAP_CLOSED, GAP_OPENED, between
from snapshotter.core.rules.proofs import gaps
from snapshotter.core.values.gaps import Cause, Gap, opening
from snapshotter.core.values.inputs import BatchArrived
from snapshotter.core.values.namespace_changes import Truncation
from snapshotter.core.values.outcome import Outcome
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import Origin, SnapshotRequest, Wanted
from snapshotter.core.values.tasks import TaskProgress
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from tests.unit.core.some import bound

ORDERS, PEOPLE = Namespace("shop", "orders"), Namespace("shop", "people")
FOUND = Gap(2, ClusterTime(5, 1), Cause.HISTORY, "the oplog no longer holds it", heals=True, found_ms=7)
OPEN = FOUND.begun(ClusterTime(8, 1), frozenset({ORDERS, PEOPLE}))
BATCH = BatchArrived(3, ClusterTime(8, 1), ClusterTime(9, 1))


def request(wanted: Wanted, origin: Origin = Origin.SIGNAL, *, done: bool = True) -> RequestProgress:
    """One collection, read to its end or under way."""
    task = TaskProgress.of(wanted).opened(bound("k9"), 9, ordered_keys=True).begun(table_empty=False)
    task = task.advanced(bound("k9"), Outcome(9, 0))
    asked = RequestProgress.accepted(SnapshotRequest("r", (wanted,), origin))
    return asked.with_task(task.finished() if done else task)


def test_it_closes_with_the_last_collection() -> None:
    """At the end of the batch by which none is left; and stays as it is from then on."""
    first = OPEN.after_batch([ORDERS], ClusterTime(9, 1))
    assert (first.left, first.closed) == ({PEOPLE}, None)
    closed = first.after_batch([PEOPLE, ORDERS], ClusterTime(10, 1))
    assert (closed.left, closed.closed, closed.affected) == (
        frozenset(),
        ClusterTime(10, 1),
        {ORDERS, PEOPLE},
    )
    assert closed.after_batch([], ClusterTime(11, 1)) is closed


def test_one_that_leaves_nothing_in_doubt_closes_at_once() -> None:
    """As before anything has been captured."""
    assert FOUND.begun(ClusterTime(8, 1), frozenset()).after_batch([], ClusterTime(9, 1)).closed is not None


@pytest.mark.parametrize(
    ("read", "compared"),
    [
        (request(Wanted(ORDERS, reconcile=True)), True),
        (request(Wanted(ORDERS, reconcile=True), done=False), False),
        (request(Wanted(ORDERS)), False),
        (request(Wanted(ORDERS, "{}")), False),
        (request(Wanted(ORDERS), Origin.HEAL), True),
        (request(Wanted(ORDERS), Origin.HEAL, done=False), False),
    ],
    ids=["reconciled", "under way", "not reconciled", "filtered", "healed", "being healed"],
)
def test_what_counts_as_compared(read: RequestProgress, compared: bool) -> None:
    """A read of all of it with reconcile, whoever asked; and whatever the healing request has read."""
    saved = Progress(2, gaps=(OPEN,))
    (gap,) = gaps(saved, saved.accepting([read]), BATCH)
    assert gap.left == ({PEOPLE} if compared else {ORDERS, PEOPLE})


def test_a_drop_ends_the_doubt() -> None:
    """Nothing of before is left to differ."""
    dropped = replace(BATCH, truncated={PEOPLE: Truncation(ClusterTime(9, 1), 0)})
    (gap,) = gaps(Progress(2, gaps=(OPEN,)), Progress(2, gaps=(OPEN,)), dropped)
    assert gap.left == {ORDERS}


def test_a_gap_is_opened_once() -> None:
    """However often a run begins; open ones stay, and the newest of those that are closed."""
    assert opening((OPEN,), FOUND) == (OPEN,)
    closed = tuple(replace(OPEN, number=n, closed=ClusterTime(9, n)) for n in range(3, 40))
    kept = opening((OPEN, *closed), replace(FOUND, number=40))
    assert (kept[0], kept[-1].number, len(kept)) == (OPEN, 40, 22)


def test_a_gap_survives_its_file() -> None:
    """As progress and generations hold it."""
    for gap in (FOUND, OPEN, OPEN.after_batch([ORDERS, PEOPLE], ClusterTime(9, 1))):
        assert Gap.from_json(gap.to_json()) == gap
    assert Progress.from_json(Progress(2, gaps=(OPEN,)).to_json()).gaps == (OPEN,)


def test_it_is_announced_when_it_opens_and_when_it_closes() -> None:
    """Under its number, with what a table of gaps holds of it."""
    before, opened = Progress(2), Progress(3, gaps=(OPEN,))
    (said,) = between(before, opened)
    assert (said.kind, said.request_id, said.detail) == (GAP_OPENED, "gap-2", OPEN.error)
    assert said.data["collections"] == "shop.orders,shop.people"
    assert (said.data["since"], said.data["upto"], said.data["closed"]) == ("5.1", "8.1", "")
    assert list(between(opened, replace(opened, batch_id=4))) == []
    closed = Progress(4, gaps=(OPEN.after_batch([ORDERS, PEOPLE], ClusterTime(9, 1)),))
    (said,) = between(opened, closed)
    assert (said.kind, said.data["closed"]) == (GAP_CLOSED, "9.1")
    assert [a.kind for a in between(before, closed)] == [GAP_OPENED, GAP_CLOSED]
