"""A position that tables tell: the start of the newest batch, and every reason not to believe it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from snapshotter.core.values.chunks import Bound
from snapshotter.core.values.coverage import Coverage
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import Origin as RequestOrigin
from snapshotter.core.values.requests import SnapshotRequest, Wanted
from snapshotter.core.values.suspension import Suspension
from snapshotter.engine.found_position import Found, NotToBeFound, beside_checkpoint, find, is_of
from snapshotter.landing.origin import NAMES_MAX, Origin, origin_of, scope_digest, unsettled_in
from snapshotter.state.generation import Cause, Generation
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storage import MemoryStorage
from streaming.delta.last_landing import LastLanding
from streaming.delta.table_identity import Owner, TableMark
from streaming.namespaces import Namespace
from streaming.positions import ORIGIN, ClusterTime

ORDERS, PEOPLE, STOCK = (Namespace("shop", name) for name in ("orders", "people", "stock"))
OWNER = Owner("e", "life-1")
APP = "snapshotter:e:abc"


def at(seconds: int) -> ClusterTime:
    return ClusterTime(1_764_000_000 + seconds, 1)


def landed(batch: int, start: int, generation: int = 1, app_id: str = APP, **origin: Any) -> LastLanding:
    """The newest landing of a table: that of a batch which began at so many seconds."""
    metadata = Origin(at(start), generation, "scope", frozenset(origin.get("unsettled", ()))).to_json()
    metadata |= {name: value for name, value in origin.items() if name != "unsettled"}
    said = {"app_id": app_id, "batch": batch, "metadata": metadata}
    return LastLanding(OWNER, said, TableMark("id", batch, f"c{batch}"), False)


UNTOLD = replace(
    landed(9, 90), said={**(landed(9, 90).said or {}), "metadata": Origin(at(90), 1, "scope", None).to_json()}
)
MADE = LastLanding(OWNER, None, None, True)
CLEANED = LastLanding(OWNER, None, None, False)


def found(
    landings: Mapping[Namespace, LastLanding], recorded: int | None = None, scope: str = "scope"
) -> Found:
    return find(landings, "e", scope, lambda namespace, app_id: recorded if app_id == APP else None)


def test_the_newest_batch_of_all_tables_counts() -> None:
    """Its start, for a crash may have kept it from other tables; each table is known by its newest landing."""
    result = found({ORDERS: landed(7, 70), PEOPLE: landed(9, 90), STOCK: MADE})
    assert (result.start, result.number) == (at(90), 2)
    assert result.settled == {ORDERS, PEOPLE, STOCK}
    assert result.tables == {ORDERS: TableMark("id", 7, "c7"), PEOPLE: TableMark("id", 9, "c9")}
    assert result.progress.coverage == Coverage(result.settled)
    assert not result.progress.fresh


def test_a_later_generation_is_newer_whatever_its_time() -> None:
    """A position that was set back lands earlier times later."""
    result = found(
        {ORDERS: landed(90, 900), PEOPLE: landed(2, 30, generation=3, app_id="snapshotter:e:def")}, 1
    )
    assert (result.start, result.number) == (at(30), 4)


def test_what_was_unsettled_then_has_no_mark() -> None:
    """So that the start reads it again."""
    result = found({ORDERS: landed(9, 90, unsettled=[PEOPLE]), PEOPLE: landed(9, 90, unsettled=[PEOPLE])})
    assert result.settled == {ORDERS}


@pytest.mark.parametrize(
    ("landings", "recorded", "scope", "why"),
    [
        (
            {ORDERS: replace(landed(9, 90), owner=Owner("e", "life-2")), PEOPLE: landed(8, 80)},
            9,
            "scope",
            "several",
        ),
        ({ORDERS: landed(9, 90)}, 9, "another", "something else was captured"),
        ({ORDERS: UNTOLD}, 9, "scope", "whole"),
        ({ORDERS: landed(9, 90), PEOPLE: CLEANED}, None, "scope", "log of the table of shop.people"),
        ({ORDERS: landed(9, 90), PEOPLE: CLEANED}, 10, "scope", "log of the table of shop.people"),
        (
            {ORDERS: landed(9, 90), PEOPLE: landed(3, 1, app_id="snapshotter:other:x")},
            9,
            "scope",
            "another engine",
        ),
        ({ORDERS: CLEANED}, None, "scope", "no commit says"),
    ],
    ids=["two lives", "scope", "not told", "cleaned up", "newer", "another engine", "nothing told"],
)
def test_a_table_that_is_not_accounted_for_is_not_believed(
    landings: Mapping[Namespace, LastLanding], recorded: int | None, scope: str, why: str
) -> None:
    """Then the answer is that it is not to be found."""
    with pytest.raises(NotToBeFound, match=why):
        found(landings, recorded, scope)


def test_a_cleaned_log_is_enough_where_the_batch_is_recorded() -> None:
    """The record stays in the table's checkpoints: nothing newer has landed there."""
    assert found({ORDERS: landed(9, 90), PEOPLE: CLEANED}, 9).settled == {ORDERS, PEOPLE}


def test_commits_of_an_earlier_version_say_nothing() -> None:
    """Neither does a batch with too many unsettled collections, or from before any position."""
    assert Origin.from_json({"engine": "e", "position": {}}) is None
    crowd = frozenset(Namespace("shop", str(n)) for n in range(NAMES_MAX + 1))
    crowded = Progress(0, at(1), coverage=Coverage(unread=crowd))
    assert origin_of(crowded, at(1), 1, "s").unsettled is None
    assert origin_of(Progress(), ORIGIN, 1, "s").unsettled is None
    told = origin_of(Progress(0, at(1), coverage=Coverage(unread=frozenset({ORDERS}))), at(1), 2, "s")
    assert Origin.from_json(told.to_json()) == told == Origin(at(1), 2, "s", frozenset({ORDERS}))


def test_unsettled_is_what_has_still_to_be_read_or_does_not_land() -> None:
    """Requests that have not ended, or have failed; ids to read again; suspensions; what is unread. A request that is
    done settles, and so does one that was stopped: an operator wanted no more of it."""
    asked = RequestProgress.accepted(SnapshotRequest("r", (Wanted(ORDERS),), RequestOrigin.SIGNAL))
    task = asked.tasks[0]
    for state, left in ((task, {ORDERS}), (task.failed("x"), {ORDERS}), (task.stopped(), set())):
        assert unsettled_in(Progress(requests=(asked.with_task(state),))) == left
    assert unsettled_in(Progress().with_reread(PEOPLE, (Bound(b"\x01", "a"),))) == {PEOPLE}
    suspended = {STOCK: Suspension("changed", "x", "y", at(1))}
    assert unsettled_in(Progress(suspended=suspended)) == {STOCK}


def test_the_digest_is_of_what_is_captured_alone() -> None:
    """Other options may change."""
    lists = {"database.include.list": "shop", "capture.scope": "deployment"}
    assert scope_digest(lists) == scope_digest({**lists, "engine.batch.max.events": "5"})
    assert scope_digest(lists) != scope_digest({**lists, "database.include.list": "shop,other"})


def test_whose_tables_they_are() -> None:
    """By the name that they say; one in which nothing has landed is nobody's evidence."""
    assert is_of(landed(1, 1), "e")
    assert is_of(CLEANED, "e")
    assert not is_of(MADE, "e")
    assert not is_of(landed(1, 1), "other")
    assert not is_of(replace(landed(1, 1), owner=None), "e")


@pytest.mark.parametrize("holds", [True, False])
def test_a_checkpoint_that_is_gone_beside_progress(holds: bool) -> None:
    """Progress holds the position, as long as the oplog does."""
    store = ProgressStore(MemoryStorage())
    assert beside_checkpoint(store, lambda position: True) is None
    store.save(Progress(8, at(8), coverage=Coverage(frozenset({ORDERS}))))
    asked: list[ClusterTime] = []
    new = beside_checkpoint(store, lambda position: bool(asked.append(position)) or holds)
    assert asked == [at(8)]
    if not holds:
        assert new is None
        return
    assert new is not None
    assert new.generation == Generation(2, cause=Cause.REMOVED, start=at(8), heals=False)
    assert new.load_before(0).coverage == Coverage(frozenset({ORDERS}))
    assert beside_checkpoint(new, lambda position: True) is None
