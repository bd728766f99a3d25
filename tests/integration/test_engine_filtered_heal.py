"""Rows that the stream has not followed, under a filter override: what matches is read, and every row's document."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pymongo.collection import Collection

from snapshotter.testing.mongodb import MongoDeployment
from streaming.keys.decoded import key_of
from tests.support.engines import SECONDS, Lab, lab, limits
from tests.support.oplogs import forget, forgetful
from tests.support.tables import difference

__all__ = ["forgetful", "lab"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]

LARGE = 10**12


def filtered(lab: Lab, docs: int) -> Collection[dict[str, Any]]:
    """Orders of which an initial load reads the open ones. Ids are integers, and some strings."""
    orders = lab.collection("orders")
    ids: list[object] = [n if n % 7 else f"s{n:04}" for n in range(docs)]
    orders.insert_many([{"_id": i, "open": n % 3 == 0, "v": n} for n, i in enumerate(ids)])
    lab.options["snapshot.collection.filter.overrides"] = lab.name("orders")
    lab.options[f"snapshot.collection.filter.overrides.{lab.name('orders')}"] = '{"open": true}'
    return orders


def test_healing_reads_what_matches_and_what_the_table_has(lab: Lab, forgetful: MongoDeployment) -> None:
    """In the gap a row's document is changed so that it no longer matches, one that never matched and came by the
    stream is changed, some are deleted, one comes that matches and one that does not. The rows are then those of the
    documents that match, and of those that had a row; the request's counts say so."""
    lab.uri, lab.client = forgetful.uri, forgetful.client()
    orders = filtered(lab, 60)
    lab.with_options("cluster_time", snapshot__mode="initial", engine__position__lost="heal")
    lab.tune = limits(8, 2)
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        orders.update_many({"_id": {"$in": [1, 2, 4, 5]}}, {"$inc": {"v": 1}})  # not open: by the stream
        engine.catch_up(SECONDS)
    loaded = keys(lab)
    assert loaded == {key_of(d["_id"]) for d in orders.find({"open": True})} | set(map(key_of, (1, 2, 4, 5)))
    orders.update_one({"_id": 3}, {"$set": {"open": False}})
    orders.update_one({"_id": 1}, {"$set": {"v": -1}})
    orders.delete_many({"_id": {"$in": [2, 6, "s0000"]}})
    orders.insert_many([{"_id": 1000, "open": True}, {"_id": 1001, "open": False}])
    forget(forgetful)
    with lab.running() as engine:
        engine.until("the gap", lambda: lab.status().gaps, SECONDS)
        (found,) = [t for t in engine.wait("heal", SECONDS).tasks if t.namespace.collection == "orders"]
        assert (found.inserted, found.changed, found.deleted, found.unchanged) == (1, 2, 3, 19)
        engine.until("the gap to close", lambda: not lab.status().gaps, SECONDS)
    assert keys(lab) == loaded - set(map(key_of, (2, 6, "s0000"))) | {key_of(1000)}
    assert_rows_are_right(lab)


def test_beside_writes_no_row_is_lost_or_left_behind(lab: Lab, forgetful: MongoDeployment) -> None:
    """Beside writes that make documents match, and no longer match, come and go: every row equals its document, no row
    is without one, and every document that matches, or has been written since, has a row."""
    seed = random.randrange(LARGE)
    print(f"seed {seed}")
    lab.uri, lab.client = forgetful.uri, forgetful.client()
    orders = filtered(lab, 300)
    lab.with_options("cluster_time", engine__position__lost="heal")
    lab.tune = limits(50, 3)
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
    orders.delete_many({"v": {"$lt": 30}})
    orders.update_many({"v": {"$gte": 30, "$lt": 60}}, {"$set": {"open": False}})
    with lab.running() as engine, writing(orders, random.Random(seed)):
        engine.wait("initial", SECONDS)
        engine.until(
            "writes beside it", lambda: orders.count_documents({"w": {"$exists": True}}) > 50, SECONDS
        )
    with lab.running() as engine:
        engine.catch_up(SECONDS)
    assert_rows_are_right(lab)
    without = [d for d in orders.find() if key_of(d["_id"]) not in keys(lab)]
    assert without, "the filter has left nothing out"
    assert not [d for d in without if d["open"] or "w" in d]


def keys(lab: Lab) -> set[str]:
    return {row["_key"] for row in lab.rows("orders")}


def assert_rows_are_right(lab: Lab) -> None:
    """Every row equals its document; documents may be without a row."""
    wrong = difference(lab.uri, lab.database, "orders", lab.table("orders"))
    assert not [text for text in wrong if not text.startswith("missing: ")]


@contextmanager
def writing(orders: Collection[dict[str, Any]], rng: random.Random) -> Iterator[None]:
    """Somebody writes to the orders meanwhile."""
    stopped = threading.Event()

    def write() -> None:
        changes: list[Callable[[int], object]] = [
            lambda n: orders.update_one({"_id": n}, {"$set": {"open": True, "w": 1}}),
            lambda n: orders.update_one({"_id": n}, {"$set": {"open": False, "w": 1}}),
            lambda n: orders.delete_one({"_id": n}),
            lambda n: orders.replace_one({"_id": n}, {"open": n % 2 == 0, "w": 1}, upsert=True),
        ]
        while not stopped.wait(0.02):
            rng.choice(changes)(rng.randrange(400))

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
