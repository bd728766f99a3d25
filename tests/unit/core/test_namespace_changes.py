"""`core.values.namespace_changes`: what drops and renames mean for tables, windows and requests."""

from __future__ import annotations

from snapshotter.core.rules import batches
from snapshotter.core.values import effects as eff
from snapshotter.core.values import inputs as inp
from snapshotter.core.values.namespace_changes import (
    NamespaceChange,
    Truncation,
    resolve,
    still_needed,
    superseded,
)
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.requests import Origin
from snapshotter.core.values.tasks import TaskState
from snapshotter.core.values.window import WindowState
from streaming.namespaces import Namespace
from tests.support.taken import taken

from .some import ITEMS, ORDERS, arrived, at, bound, chunk, machine, request, window

HIDDEN, OTHER = Namespace("shop", "hidden"), Namespace("shop", "other")


def captured(namespace: Namespace) -> bool:
    return namespace != HIDDEN


def drop(namespace: Namespace, ord_: int) -> NamespaceChange:
    return NamespaceChange(namespace, at(ord_ + 10), ord_)


def rename(namespace: Namespace, to: Namespace, ord_: int) -> NamespaceChange:
    return NamespaceChange(namespace, at(ord_ + 10), ord_, to)


def come_to(*changes: NamespaceChange) -> tuple[dict[str, int], list[str]]:
    """By collection after which event it is empty, and the ids of the requests."""
    found = resolve(changes, captured)
    assert all(what.time == at(what.ord + 10) for what in found.truncated.values())
    truncated = {namespace.collection: what.ord for namespace, what in found.truncated.items()}
    return truncated, [request.id for request in found.requests]


def test_a_drop_empties_and_a_rename_empties_both_ends() -> None:
    """Only what a rename fills is read again, under an id that the stream alone gives: a replay asks for the same."""
    assert come_to(drop(ORDERS, 3)) == ({"orders": 3}, [])
    changed = rename(ORDERS, ITEMS, 4)
    assert come_to(changed) == ({"orders": 4, "items": 4}, ["renamed/1.14/shop.items"])
    assert resolve([changed], captured) == resolve([changed], captured)
    (wanted,) = resolve([changed], captured).requests
    assert (wanted.origin, [w.namespace for w in wanted.wanted]) == (Origin.RENAME, [ITEMS])


def test_what_is_not_captured_has_no_table() -> None:
    """Neither the place that documents come from, nor the one they go to."""
    assert come_to(drop(HIDDEN, 0)) == ({}, [])
    assert come_to(rename(HIDDEN, ITEMS, 1)) == ({"items": 1}, ["renamed/1.11/shop.items"])
    assert come_to(rename(ITEMS, HIDDEN, 1)) == ({"items": 1}, [])


def test_of_several_changes_the_last_counts() -> None:
    """What is filled and then truncated is not read; what is filled twice is read once. Rows may come in any order."""
    assert come_to(drop(ORDERS, 5), drop(ORDERS, 2)) == ({"orders": 5}, [])
    chain = [rename(ITEMS, OTHER, 2), rename(ORDERS, ITEMS, 1)]
    assert come_to(*chain) == ({"orders": 1, "items": 2, "other": 2}, ["renamed/1.12/shop.other"])
    twice = [rename(HIDDEN, ITEMS, 1), rename(HIDDEN, ITEMS, 3)]
    assert come_to(*twice) == ({"items": 3}, ["renamed/1.13/shop.items"])
    assert come_to(rename(HIDDEN, ITEMS, 1), drop(ITEMS, 2)) == ({"items": 2}, [])


def test_reads_from_before_are_superseded() -> None:
    """A window whose low watermark is the drop itself reads a state at or after it."""
    assert [superseded(at(low), at(12)) for low in (11, 12, 13)] == [True, False, False]
    assert not superseded(at(11), None)


def test_a_drop_is_known_while_a_window_may_ask() -> None:
    """One that was registered since never does: its low watermark is not below its floor."""
    truncated = {ORDERS: Truncation(at(12), 0)}
    known = still_needed({}, truncated, [(ORDERS, at(10)), (ITEMS, at(10))])
    assert known == {ORDERS: at(12)}
    assert still_needed(known, {}, [(ORDERS, at(10)), (ORDERS, at(20))]) == known
    assert still_needed(known, {ORDERS: Truncation(at(15), 0)}, [(ORDERS, at(10))]) == {ORDERS: at(15)}
    assert still_needed(known, {}, [(ORDERS, at(12))]) == {}
    assert still_needed(known, {}, []) == {}


def test_a_window_from_before_closes_without_rows() -> None:
    """In the batch of the drop, and in a later one; the batch says which tables it empties."""
    seen = {"low_acknowledged": at(11), "low_seen": at(11), "high_acknowledged": at(14), "high_seen": at(14)}
    it = window(1, state=WindowState.CLOSING, ended=at(12), rows=2, **seen)
    batch = arrived(5, 20, truncated={ORDERS: Truncation(at(12), 3)})
    plan = batches.plan_landing(batch, {it.id: it}, [it], {}, [], {}, {ORDERS: at(12)})
    assert [c.superseded for c in plan.closings] == [True]
    assert plan.truncated == {ORDERS: Truncation(at(12), 3)}
    for truncated_at in ({}, {ORDERS: at(11)}, {ITEMS: at(12)}):
        later = batches.plan_landing(arrived(6, 30), {it.id: it}, [it], {}, [], {}, truncated_at)
        assert [c.superseded for c in later.closings] == [False]
        assert later.truncated == {}


def test_a_backfill_goes_on_over_a_drop() -> None:
    """Its windows from before land nothing, in whatever batch they close; those after it land what they read."""
    it = machine(windows_in_flight=1, in_stream=False)
    it.step(taken(it, request()))
    it.step(arrived(0, 10))
    it.step(inp.BatchLanded(0))
    it.step(inp.CollectionOpened("q1", ORDERS, bound("k4")))
    it.step(arrived(1, 11))
    it.step(inp.BatchLanded(1))
    it.step(inp.ChunksPlanned("q1", ORDERS, (bound("k2"), bound("k4")), exhausted=True))
    superseded_ = []
    for batch, low in ((2, 12), (4, 32)):
        (window_id,) = it.windows
        it.step(inp.LowWritten(window_id, at(low)))
        if batch == 2:
            it.step(arrived(2, 20, truncated={ORDERS: Truncation(at(15), 0)}))
            it.step(inp.BatchLanded(2))
        it.step(inp.ChunkRead(window_id, at(low + 1), 2))
        it.step(inp.HighWritten(window_id, at(low + 2)))
        said = it.step(arrived(batch + 1, low + 10))
        (landing,) = [effect for effect in said if isinstance(effect, eff.LandBatch)]
        superseded_ += [c.superseded for c in landing.closings]
        it.step(inp.BatchLanded(batch + 1, {window_id: inp.Outcome(0, 2)}))
    assert superseded_ == [True, False]
    assert it.in_flight.truncated_at == {}, "no window in flight can ask any more"
    assert it.progress.requests[0].tasks[0].state is TaskState.DONE


def test_what_a_rename_brought_is_asked_for_with_the_batch() -> None:
    """It is opened at or after the end of the batch, so after the rename; it is saved with the batch and not before,
    so a replay asks for it again, and once it is known it is asked for once."""
    changed = resolve([rename(HIDDEN, ITEMS, 5)], captured)
    it = machine()
    it.step(arrived(0, 10))
    it.step(inp.BatchLanded(0))
    said = it.step(arrived(1, 20, truncated=changed.truncated, requests=changed.requests))
    assert eff.OpenCollection("renamed/1.15/shop.items", ITEMS, None, at(20)) in said
    (saved,) = [e for e in it.step(inp.BatchLanded(1)) if isinstance(e, eff.SaveProgress)]
    assert Progress.from_json(saved.progress.to_json()).requests[0].origin is Origin.RENAME
    it.step(arrived(2, 30, requests=changed.requests))
    it.step(inp.BatchLanded(2))
    assert len(it.progress.requests) == 1


def test_single_ids_read_before_a_drop_are_done_with() -> None:
    """Their READs are superseded like any other; an id that the stream missed since then is read again."""
    it = machine(in_stream=False)
    missing = {ORDERS: (bound("k1"), bound("k2"))}
    it.step(arrived(0, 10, incomplete=missing))
    it.step(inp.BatchLanded(0))
    (window_id,) = it.windows
    it.step(inp.LowWritten(window_id, at(11)))
    it.step(inp.ChunkRead(window_id, at(12), 2))
    it.step(inp.HighWritten(window_id, at(13)))
    truncated = {ORDERS: Truncation(at(12), 0)}
    said = it.step(arrived(1, 20, truncated=truncated, incomplete={ORDERS: (bound("k2"),)}))
    (landing,) = [effect for effect in said if isinstance(effect, eff.LandBatch)]
    assert [c.superseded for c in landing.closings] == [True]
    it.step(inp.BatchLanded(1, {window_id: inp.Outcome(0, 2)}))
    assert [b.key for _, b in it.progress.rereads] == ["k2"]


def test_a_lost_buffer_does_not_undo_it() -> None:
    """The second plan of a batch empties the same tables."""
    it = window(1, chunk(None, "k2"), state=WindowState.CLOSING, low_seen=at(16), high_seen=at(17))
    batch = arrived(5, 20, truncated={ORDERS: Truncation(at(15), 3)})
    plan = batches.plan_landing(batch, {it.id: it}, [it], {}, [], {}, {ORDERS: at(15)})
    assert batches.without(plan, frozenset({it.id})).truncated == plan.truncated
