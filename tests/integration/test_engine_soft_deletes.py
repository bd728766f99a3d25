"""Soft deletes, end to end: every road on which rows leave a state table marks them instead."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from snapshotter.api import Snapshotter
from snapshotter.core.values.tasks import TaskProgress, TaskState
from snapshotter.testing.mongodb import MongoDeployment
from tests.support.engines import SECONDS, Lab, lab, limits, quiet_rereads
from tests.support.mongos import mongos_before
from tests.support.oplogs import forget, forgetful
from tests.support.tables import time_types

__all__ = ["forgetful", "lab"]

pytestmark = pytest.mark.guard


def ask(lab: Lab, engine: Snapshotter, name: str, **data: object) -> TaskProgress:
    lab.signal("execute-snapshot", name, data__collections=[lab.name("orders")], **data)
    (task,) = engine.wait(name, SECONDS).tasks
    assert (task.state, task.error) == (TaskState.DONE, None)
    return task


def found(task: TaskProgress) -> tuple[int, int, int, int]:
    return task.inserted, task.changed, task.deleted, task.unchanged


def states(lab: Lab) -> dict[Any, tuple[int, str, bool | None]]:
    """Of each id its row's value, operation and mark."""
    return {row["_id"]: (row["v"], row["_op"], row["_deleted"]) for row in lab.rows("orders")}


def live(lab: Lab, engine: Snapshotter) -> set[Any]:
    """The ids of live rows, as a program asks for them; in SQL they are the same."""
    found = {row["_id"] for row in engine.live_rows(lab.name("orders")).select("_id").collect()}
    path = engine.table_path(lab.name("orders"))
    chosen = f"SELECT * FROM delta.`{path}` WHERE _deleted IS NOT TRUE"
    engine.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW live_orders AS {chosen}")
    assert found == {row["_id"] for row in engine.spark.sql("SELECT _id FROM live_orders").collect()}
    return found


def assert_sound(lab: Lab, engine: Snapshotter) -> None:
    """Two independent readers: the live rows are the collection."""
    lab.assert_equal("orders")
    assert engine.verify(lab.name("orders")).equal
    assert live(lab, engine) == {document["_id"] for document in lab.collection("orders").find()}


def test_a_deleted_row_stays_and_comes_back(lab: Lab) -> None:
    """A streamed delete leaves the document in its row, with the delete's own operation and time; an insert revives it
    as the new document says, and so does a READ of what the stream did not show. A document that came and went between
    two landings has no row. What is deleted is not missing again: a second reconcile writes nothing, nor is a deleted
    row data to `verify`."""
    lab.with_options("insert_insert", snapshot__mode="initial", delta__deletes__mode="soft")
    lab.tune = limits(chunk_docs=4, windows=2)
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": n} for n in range(8)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        before = {row["_id"]: row["_cluster_time"] for row in lab.rows("orders")}
        orders.delete_many({"_id": {"$in": [1, 2, 3]}})
        with lab.client.start_session() as session, session.start_transaction():
            orders.insert_one({"_id": 99, "v": 0}, session=session)
            orders.delete_one({"_id": 99}, session=session)
        engine.catch_up(SECONDS)
        gone = {n: (n, "d", True) for n in (1, 2, 3)}
        kept = {n: (n, "r", False) for n in (0, 4, 5, 6, 7)}
        assert states(lab) == kept | gone
        times = {row["_id"]: row["_cluster_time"] for row in lab.rows("orders")}
        assert all((times[n] > before[n]) is (n in gone) for n in before)
        assert_sound(lab, engine)
        orders.insert_one({"_id": 2, "v": 22})
        engine.catch_up(SECONDS)
        assert states(lab)[2] == (22, "c", False)
        assert found(ask(lab, engine, "again", reconcile=True)) == (0, 0, 0, 6)
        assert_sound(lab, engine)
    # While no engine follows the stream one document comes back, and two go.
    orders.insert_one({"_id": 1, "v": 1})
    orders.delete_many({"_id": {"$in": [4, 5]}})
    shutil.rmtree(lab.state)
    lab.options |= {"snapshot.mode": "no_data", "engine.position.start": "now"}
    with lab.running() as engine:
        assert found(ask(lab, engine, "mend", reconcile=True)) == (1, 0, 2, 4)
        mended = states(lab)
        assert (mended[1], mended[4], mended[5]) == ((1, "r", False), (4, "d", True), (5, "d", True))
        assert_sound(lab, engine)
        assert found(ask(lab, engine, "sound", reconcile=True)) == (0, 0, 0, 5)
        assert states(lab) == mended
    lab.assert_one_commit_a_batch("orders")
    assert list(lab.table("orders").glob("part-*")), "Spark has written nothing"
    assert time_types(lab.table("orders")) == {"INT64"}


def test_a_drop_marks_all_rows(lab: Lab) -> None:
    """With the time of the drop; rows that were deleted before keep theirs. What is inserted behind it in the same
    batch is live."""
    lab.with_options("cluster_time", snapshot__mode="initial", delta__deletes__mode="soft")
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": n} for n in range(5)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        orders.delete_one({"_id": 0})
        deleted_at = engine.catch_up(SECONDS).to_int()
    orders.drop()
    orders.insert_many([{"_id": n, "v": 10 * n} for n in (3, 7)])
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        gone = {n: (n, "d", True) for n in (0, 1, 2, 4)}
        assert states(lab) == gone | {n: (10 * n, "c", False) for n in (3, 7)}
        times = {row["_id"]: row["_cluster_time"] for row in lab.rows("orders")}
        assert times[0] <= deleted_at < times[1] == times[2] == times[4] < times[7]
        assert_sound(lab, engine)


def test_a_table_that_is_switched_there_and_back(lab: Lab) -> None:
    """A table from before gets the mark by schema evolution: rows that are not written again have none, and are live.
    Switched back, deletes remove their rows, live rows still have the mark, and those that are deleted already stay
    until a request with reconcile removes them, and counts them."""
    lab.with_options("insert_insert", snapshot__mode="initial")
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": n} for n in range(6)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
    lab.options["delta.deletes.mode"] = "soft"
    with lab.running() as engine:
        orders.delete_many({"_id": {"$in": [0, 1]}})
        orders.update_one({"_id": 2}, {"$set": {"v": 20}})
        engine.catch_up(SECONDS)
        gone = {n: (n, "d", True) for n in (0, 1)}
        assert states(lab) == gone | {2: (20, "u", False)} | {n: (n, "r", None) for n in (3, 4, 5)}
        assert found(ask(lab, engine, "soft", reconcile=True)) == (0, 0, 0, 4)
        assert_sound(lab, engine)
    lab.options["delta.deletes.mode"] = "remove"
    with lab.running() as engine:
        orders.delete_many({"_id": {"$in": [2, 3]}})
        orders.insert_one({"_id": 9, "v": 9})
        engine.catch_up(SECONDS)
        assert states(lab) == gone | {4: (4, "r", None), 5: (5, "r", None), 9: (9, "c", False)}
        assert_sound(lab, engine)
        assert found(ask(lab, engine, "remove", reconcile=True)) == (0, 0, 2, 3)
        assert set(states(lab)) == {4, 5, 9}
        assert_sound(lab, engine)


def test_a_configuration_with_unwrap_is_honoured(lab: Lab) -> None:
    """As nearly every lakehouse has it: deletes are rewritten, so they are soft, and fields of the envelope are columns
    of events, READs and deletes alike. A document with a field of such a name keeps it, rescued."""
    unwrap = {
        "type": "io.debezium.connector.mongodb.transforms.ExtractNewDocumentState",
        "delete.tombstone.handling.mode": "rewrite",
        "add.fields": "op,source.ts_ms,source.ord:nr,collection",
    }
    lab.with_options("insert_insert", snapshot__mode="initial", transforms="flat")
    lab.options |= {f"transforms.flat.{name}": value for name, value in unwrap.items()}
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": n, "__op": "theirs"} for n in range(4)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        orders.delete_one({"_id": 0})
        orders.update_one({"_id": 1}, {"$set": {"v": 10}})
        engine.catch_up(SECONDS)
        assert states(lab) == {0: (0, "d", True), 1: (10, "u", False), 2: (2, "r", False), 3: (3, "r", False)}
        for row in lab.rows("orders"):
            assert row["__op"] == row["_op"]
            assert row["__source_ts_ms"] == int(row["_source_ts"].timestamp() * 1_000)
            assert row["__nr"] == row["_cluster_time"] & 0xFFFFFFFF
            assert row["__collection"] == "orders"
        assert found(ask(lab, engine, "again", reconcile=True)) == (0, 0, 0, 3)
        assert_sound(lab, engine)


@pytest.mark.slow
def test_healing_marks_what_is_gone(lab: Lab, forgetful: MongoDeployment) -> None:
    """A gap in which documents went, came back and came anew is healed without a row lost: those that are gone are
    marked, one that the stream saw deleted is revived, and counts are those of live rows. Healed once more, nothing
    differs."""
    lab.uri, lab.client = forgetful.uri, forgetful.client()
    lab.with_options("cluster_time", snapshot__mode="initial", delta__deletes__mode="soft")
    lab.options["engine.position.lost"] = "heal"
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": n} for n in range(10)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        orders.delete_many({"_id": {"$in": [0, 1]}})
        engine.catch_up(SECONDS)
    orders.insert_many([{"_id": 0, "v": 0}, {"_id": 20, "v": 20}])
    orders.delete_many({"_id": {"$in": [2, 3, 4]}})
    orders.update_one({"_id": 5}, {"$set": {"v": 50}})
    forget(forgetful)
    with lab.running() as engine:
        engine.until("the gap", lambda: lab.status().gaps, SECONDS)
        assert found(engine.wait("heal", SECONDS).tasks[0]) == (2, 1, 3, 4)
        gone = {n: (n, "d", True) for n in (1, 2, 3, 4)}
        kept = {n: (n, "r", False) for n in (0, 6, 7, 8, 9, 20)}
        assert states(lab) == gone | kept | {5: (50, "r", False)}
        assert_sound(lab, engine)
        again = engine.wait(engine.execute_snapshot(lab.name("orders"), reconcile=True), SECONDS)
        assert found(again.tasks[0]) == (0, 0, 0, 7)


def test_rows_under_a_former_shard_key_are_marked(lab: Lab) -> None:
    """Nothing streams a delete of them; they are deleted all the same, once, while the document lives under its new
    key."""
    with mongos_before(lab.uri) as mongos:
        lab.uri = mongos.uri
        mongos.shard(lab.name("orders"), "region")
        lab.with_options("cluster_time", snapshot__mode="initial", delta__deletes__mode="soft")
        orders = lab.collection("orders")
        orders.insert_many([{"_id": n, "v": 0, "region": "eu"} for n in range(4)])
        mongos.learn(lab.name("orders"), orders.find())
        with lab.running() as engine:
            engine.wait("initial", SECONDS)
            for version in (1, 2):  # the second one finds the deleted row beside the live one
                orders.replace_one({"_id": 1}, {"region": "us", "v": version})
                orders.update_one({"_id": 2}, {"$set": {"region": "us", "v": version}})
                for _ in range(2):
                    engine.catch_up(SECONDS)
                    quiet_rereads(engine)
            engine.catch_up(SECONDS)
            found = {(row["_id"], row["region"]): (row["v"], row["_deleted"]) for row in lab.rows("orders")}
            assert found == {
                **{(n, "eu"): (0, False) for n in (0, 3)},
                **{(n, "eu"): (0, True) for n in (1, 2)},
                **{(n, "us"): (2, False) for n in (1, 2)},
            }
            assert_sound(lab, engine)


def test_an_added_field_that_documents_have_suspends_the_collection(lab: Lab) -> None:
    """Its table is left as it is, and the status says what is in the way; other collections go on."""
    lab.with_options("cluster_time", snapshot__mode="initial")
    orders, people = lab.collection("orders"), lab.collection("people")
    orders.insert_one({"_id": 1, "__op": 7})
    people.insert_one({"_id": 1})
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
    kind = "io.debezium.connector.mongodb.transforms.ExtractNewDocumentState"
    lab.options |= {"transforms": "x", "transforms.x.type": kind, "transforms.x.add.fields": "op"}
    before = lab.rows("orders")
    with lab.running() as engine:
        orders.insert_one({"_id": 2, "__op": 8})
        people.insert_one({"_id": 2})
        engine.catch_up(SECONDS)
        (suspended,) = engine.until("the suspension", lambda: lab.status().suspended, SECONDS)
        assert suspended.collection == lab.name("orders")
        assert "it has a column __op bigint, and __op string is to say op of the change" in suspended.error
    assert lab.rows("orders") == before
    assert {row["_id"]: row["__op"] for row in lab.rows("people")} == {1: None, 2: "c"}
