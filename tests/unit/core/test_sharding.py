"""A change of shard key: which collections it concerns, and what the machine does about it."""

from __future__ import annotations

import bson

from snapshotter.core.values.chunks import Bound
from snapshotter.core.values.effects import LandBatch, OpenCollection, PlanChunks, SaveProgress
from snapshotter.core.values.inputs import BatchLanded, CollectionOpened
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.requests import Origin, SnapshotRequest, Wanted
from snapshotter.core.values.sharding import reading, rekeyed
from snapshotter.reading.range_find import bound_of
from tests.support.taken import taken

from .some import ITEMS, ORDERS, arrived, at, closing, machine, only, request, seen

EU, ZONE = {ORDERS: ("region",)}, {ORDERS: ("zone",)}


def some_id(value: object) -> Bound:
    return bound_of(bson.encode({"_id": value}))


def test_what_is_keyed_anew() -> None:
    """Sharded, sharded otherwise, or no more; what stayed as it was is none."""
    assert rekeyed({}, {}) == rekeyed(EU, EU) == frozenset()
    assert rekeyed({}, EU) == rekeyed(EU, ZONE) == rekeyed(EU, {}) == {ORDERS}
    assert rekeyed({ITEMS: ("a",), **EU}, {ITEMS: ("a",), **ZONE}) == {ORDERS}


def test_the_request_is_saved_with_what_it_is_for() -> None:
    """In one file: a replay of the batch, from the state before, asks once more under the same id."""
    it = machine()
    again = reading(ORDERS, at(20))
    assert (again.id, again.origin) == ("resharded/1.20/shop.orders", Origin.RESHARD)
    assert again.wanted == (Wanted(ORDERS, reconcile=True),)
    it.step(arrived(0, 20, shard_keys=EU, requests=(again,)))
    (save,) = only(SaveProgress, it.step(BatchLanded(0)))
    kept = Progress.from_json(save.progress.to_json())
    assert kept == save.progress
    assert kept.shard_keys == EU
    assert [r.id for r in kept.requests] == [again.id]
    older = {name: value for name, value in kept.to_json().items() if name != "shard_keys"}
    assert Progress.from_json(older).shard_keys == {}


def test_a_first_load_counts_on_nothing_any_more() -> None:
    """Its range was empty under the keys of before: what it reads now is merged, and all events land."""
    it = machine()
    it.step(taken(it, request()))
    it.step(arrived(0, 10))
    it.step(BatchLanded(0))
    it.step(CollectionOpened("q1", ORDERS, some_id(9)))
    it.step(arrived(1, 11, empty_tables=frozenset({ORDERS})))
    it.step(BatchLanded(1))
    (task,) = it.first_loads()
    assert task.first_load
    (landing,) = only(LandBatch, it.step(arrived(2, 12, shard_keys=EU)))
    assert not landing.unreached
    assert it.first_loads() == ()


def test_ids_of_a_sharded_collection_are_whole() -> None:
    """Single ids, both ends of a range, and the end of a scan lie behind all documents of their id."""
    it = machine()
    part = Wanted(ORDERS, keys=(some_id(2), some_id(1)))
    it.step(taken(it, SnapshotRequest("q1", (part,))))
    it.step(arrived(0, 10))
    it.step(BatchLanded(0))
    it.step(CollectionOpened("q1", ORDERS, some_id(9), sharded=True))
    (task,) = it.progress.requests[0].tasks
    assert [b.key for b in task.keys] == ["|Na1!~", "|Na2!~"]
    assert task.last == task.keys[-1]


def test_an_id_to_read_again_is_read_with_all_its_documents() -> None:
    """And what is gone of them goes: an update of the shard key names the new documentKey only."""
    it = machine()
    it.step(arrived(0, 10, incomplete={ORDERS: (some_id(1).past_id(),), ITEMS: (some_id(1),)}))
    it.step(BatchLanded(0))
    assert {w.namespace: w.reconcile for w in it.windows.values()} == {ORDERS: True, ITEMS: False}
    closing(it, *it.windows)
    it.step(arrived(1, 20, observations=seen(*it.windows)))


def test_a_scan_ends_behind_the_last_id() -> None:
    """The source is asked for chunks up to there, and each event of the last id lies in the last chunk."""
    it = machine()
    it.step(taken(it, request()))
    assert only(OpenCollection, it.step(arrived(0, 10)))
    it.step(BatchLanded(0))
    it.step(CollectionOpened("q1", ORDERS, some_id(9), sharded=True))
    (plan,) = only(PlanChunks, it.step(arrived(1, 11)))
    it.step(BatchLanded(1))
    assert plan.upto == some_id(9).past_id()
