"""What a request writes where its collection has a table: only what differs, and a report of what it has found."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Binary, Decimal128, Int64, ObjectId, Regex, Timestamp
from deltalake import DeltaTable
from pymongo.errors import AutoReconnect

from snapshotter.api import Snapshotter
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.tasks import TaskProgress, TaskState
from snapshotter.landing.targets import state_tables
from snapshotter.landing.targets.target import LandedCollection
from snapshotter.state.progress_store import ProgressStore
from tests.support.engines import SECONDS, Lab, lab, limits

__all__ = ["lab"]

pytestmark = pytest.mark.guard

KINDS: list[dict[str, Any]] = [
    {"n": 1, "s": "x", "d": 1.5, "t": datetime(2026, 1, 2, tzinfo=UTC), "b": True, "null": None},
    {"n": 2**40, "d": math.nan, "s": "", "dec": Decimal128("12.30"), "o": ObjectId("65" * 12)},
    {
        "n": Int64(3),
        "d": -math.inf,
        "bin": Binary(b"\0\xff"),
        "deep": {"a": [1, {"b": None}], "c": {"d": "é"}},
    },
    {"n": "text where numbers are", "deep": {"a": [], "c": {}}, "re": Regex("^a"), "ts": Timestamp(9, 1)},
    {"deep": [{"a": 1}], "dec": Decimal128("NaN"), "s": 7},
    {},
]


def ask(lab: Lab, engine: Snapshotter, name: str, **data: object) -> TaskProgress:
    """By a signal in the collection; how it came out."""
    lab.signal("execute-snapshot", name, data__collections=[lab.name("orders")], **data)
    (task,) = engine.wait(name, SECONDS).tasks
    assert (task.state, task.error) == (TaskState.DONE, None)
    return task


def report(task: TaskProgress) -> dict[str, int]:
    counts = ("inserted", "changed", "deleted", "unchanged", "superseded")
    return {name: count for name in counts if (count := getattr(task, name))}


def files(lab: Lab) -> set[str]:
    """The data files of the table's newest version, by name."""
    return set(DeltaTable(str(lab.table("orders"))).file_uris())


def test_a_sound_table_gets_no_new_file(lab: Lab) -> None:
    """Whatever its documents hold, and whether an event or a READ has brought them. Asked to write all, it writes all;
    the report says what was found, in the status too."""
    lab.with_options("insert_insert", snapshot__mode="initial")
    lab.tune = limits(chunk_docs=4, windows=2)
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, **fields} for n, fields in enumerate(KINDS)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        orders.insert_many([{"_id": 100 + n, **fields} for n, fields in enumerate(KINDS)])
        orders.update_one({"_id": 0}, {"$set": {"s": "y"}})
        engine.catch_up(SECONDS)
        count, before = 2 * len(KINDS), files(lab)
        assert report(ask(lab, engine, "plain")) == {"unchanged": count}
        assert report(ask(lab, engine, "reconciling", reconcile=True)) == {"unchanged": count}
        assert report(ask(lab, engine, "single", keys=[0, 3])) == {"unchanged": 2}
        assert report(ask(lab, engine, "blocking", type="blocking")) == {"unchanged": count}
        assert files(lab) == before
        assert report(ask(lab, engine, "all", write="all")) == {"changed": count}
        assert files(lab) != before
        (shown,) = next(r for r in lab.status().requests if r.id == "single").collections
        assert (shown.rows, shown.unchanged, shown.changed, shown.inserted) == (2, 2, 0, 0)
    lab.assert_equal("orders")
    lab.assert_one_commit_a_batch("orders")


def test_what_somebody_has_altered_is_found_and_repaired(lab: Lab) -> None:
    """Rows altered, removed and added by hand: the report counts them, and the table equals the collection."""
    lab.with_options("insert_insert", snapshot__mode="initial")
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": n, "deep": {"a": n}} for n in range(30)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        engine.catch_up(SECONDS)
    table = f"delta.`{lab.table('orders')}`"
    for change in (
        f"UPDATE {table} SET v = -1 WHERE _id IN (3, 7)",
        f"UPDATE {table} SET deep = named_struct('a', 0L) WHERE _id = 11",
        f"UPDATE {table} SET _rescued_data = '{{\"/x\":1}}' WHERE _id = 12",
        f"DELETE FROM {table} WHERE _id IN (20, 21)",
        f"INSERT INTO {table} BY NAME SELECT * EXCEPT (_key), concat(_key, 'x') _key FROM {table} WHERE _id = 29",
    ):
        lab.spark.sql(change)
    orders.delete_one({"_id": 5})
    with lab.running() as engine:
        task = ask(lab, engine, "repair", reconcile=True)
        assert report(task) == {"inserted": 2, "changed": 4, "deleted": 2, "unchanged": 23}
        engine.catch_up(SECONDS)
    lab.assert_equal("orders")


def test_what_was_found_before_a_crash_is_in_the_report(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run ends with one of two tables committed, two more between the commits of a batch and its save. What each of
    them has repaired is counted, once, though its chunks are read again and then equal their rows."""
    lab.with_options("insert_insert", snapshot__mode="initial", retriable__restart__connector__wait__ms=1)
    lab.tune = limits(chunk_docs=8, windows=2)
    names = ("a", "b")
    for name in names:
        lab.collection(name).insert_many([{"_id": n, "v": n} for n in range(30)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        engine.catch_up(SECONDS)
    for name in names:
        table = f"delta.`{lab.table(name)}`"
        lab.spark.sql(f"UPDATE {table} SET v = -1 WHERE _id IN (0, 1, 9, 28)")
        lab.spark.sql(f"DELETE FROM {table} WHERE _id IN (2, 10, 29)")
        extra = "SELECT * EXCEPT (_key), concat(_key, 'x') _key"
        lab.spark.sql(f"INSERT INTO {table} BY NAME {extra} FROM {table} WHERE _id IN (3, 11)")
    land, save = state_tables.land_table, ProgressStore.save
    ended: list[str] = []

    def land_table(spark: Any, opened: Any, batch: Any, identity: Any, **how: Any) -> LandedCollection:
        if batch.closings and batch.namespace.collection == "b" and not ended:
            ended.append("between two commits")
            raise AutoReconnect("the network, just before the commit")
        return land(spark, opened, batch, identity, **how)

    def before_save(store: ProgressStore, progress: Progress) -> None:
        repair, newest = progress.request("repair"), store.newest()
        known = newest.request("repair") if newest is not None else None
        chunks = [sum(t.chunks for t in request.tasks) if request else 0 for request in (known, repair)]
        if chunks[0] < chunks[1] and len(ended) < 3:
            ended.append("before the save")
            raise AutoReconnect("the network, just before the save")
        save(store, progress)

    monkeypatch.setattr(state_tables, "land_table", land_table)
    monkeypatch.setattr(ProgressStore, "save", before_save)
    with lab.running() as engine:
        lab.signal("execute-snapshot", "repair", data__collections=[*map(lab.name, names)], reconcile=True)
        tasks = engine.wait("repair", SECONDS).tasks
        engine.catch_up(SECONDS)
    assert len(ended) == 3
    found = {"inserted": 3, "changed": 4, "deleted": 2, "unchanged": 23}
    assert [report(task) for task in tasks] == [found, found]
    lab.assert_equal(*names)
