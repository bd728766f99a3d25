"""An engine before a sharded cluster, as far as a proxy can play one (`tests.support.mongos`): one key a document."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from snapshotter.api import Snapshotter
from tests.support.engines import SECONDS, Lab, Reads, lab, quiet_rereads, reads
from tests.support.mongos import Mongos, mongos_before

__all__ = ["lab", "reads"]

pytestmark = pytest.mark.guard


@pytest.fixture
def mongos(lab: Lab) -> Iterator[Mongos]:
    """Before the tests' server; the lab's engine goes through it, the test itself does not."""
    with mongos_before(lab.uri) as proxy:
        lab.uri = proxy.uri
        yield proxy


def keys(lab: Lab) -> list[str]:
    return sorted(row["_key"] for row in lab.rows("orders"))


def settle(engine: Snapshotter) -> None:
    """All that is at the source has landed, and what was to be read again is."""
    engine.catch_up(SECONDS)
    quiet_rereads(engine)
    engine.catch_up(SECONDS)


def requests(engine: Snapshotter, prefix: str) -> list[str]:
    run = engine.engine.run_state
    assert run is not None
    return [request.id for request in run.standing().requests if request.id.startswith(prefix)]


def test_reads_and_events_of_a_document_are_one_row(lab: Lab, mongos: Mongos) -> None:
    """A READ finds the shard key in the document, an event in its documentKey: changes replace and delete what was
    read, and a snapshot what was streamed. Documents without the shard key are no exception."""
    mongos.shard(lab.name("orders"), "address.region", "tenant")
    lab.with_options("cluster_time", snapshot__mode="initial")
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": 0, "tenant": n % 2, "address": {"region": "eu"}} for n in range(8)])
    orders.insert_many([{"_id": n, "v": 0} for n in (8, 9)])
    mongos.learn(lab.name("orders"), orders.find())
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        for n in (1, 9):
            orders.update_one({"_id": n}, {"$set": {"v": 1}})
        for n in (2, 8):
            orders.delete_one({"_id": n})
        orders.insert_one({"_id": 10, "v": 2, "tenant": 0})
        settle(engine)
        lab.assert_equal("orders")
        assert keys(lab)[-2:] == ["|Na9! ", "|Nb10! tenant!NZ!"]
        assert keys(lab)[0] == "|NZ! address.region!Seu!tenant!NZ!"
        assert not requests(engine, "resharded/")
        again = engine.execute_snapshot(lab.name("orders"), reconcile=True)
        assert not engine.wait(again, SECONDS).failed
        lab.assert_equal("orders")
        assert engine.verify(lab.name("orders")).equal


def test_parts_are_of_whole_ids(lab: Lab, mongos: Mongos, reads: Reads) -> None:
    """Single ids and ranges of ids are asked for as anywhere else; a range that reconciles deletes what is gone in it,
    and an update without its document is read again."""
    mongos.shard(lab.name("orders"), "region")
    lab.with_options("cluster_time", snapshot__mode="initial", capture__mode="change_streams")
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": 0, "region": "eu"} for n in range(10)])
    mongos.learn(lab.name("orders"), orders.find())
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        orders.update_one({"_id": 3}, {"$set": {"v": 1}})
        settle(engine)
        lab.assert_equal("orders")
        one = engine.wait(
            engine.execute_snapshot(lab.name("orders"), keys=[5, 6, 77], reconcile=True), SECONDS
        )
        part = engine.wait(
            engine.execute_snapshot(lab.name("orders"), id_range=(2, 7), reconcile=True), SECONDS
        )
        assert [one.tasks[0].rows, part.tasks[0].rows] == [2, 6]
        assert one.tasks[0].deleted == part.tasks[0].deleted == 0
        lab.assert_equal("orders")


def test_a_change_of_the_shard_keys_value_leaves_no_row_behind(lab: Lab, mongos: Mongos) -> None:
    """An update and a replacement tell the new documentKey only: the row under the old one goes, also where both came
    in one batch, or another change of the document follows in it."""
    mongos.shard(lab.name("orders"), "region")
    lab.with_options("cluster_time", snapshot__mode="initial")
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": 0, "region": "eu"} for n in range(10)])
    mongos.learn(lab.name("orders"), orders.find())
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        orders.update_one({"_id": 1}, {"$set": {"region": "us"}})
        orders.replace_one({"_id": 2}, {"region": "us", "v": 1})
        orders.replace_one({"_id": 3}, {"region": "eu", "v": 1})
        with lab.client.start_session() as session, session.start_transaction():
            orders.insert_one({"_id": 11, "region": "eu"}, session=session)
            orders.replace_one({"_id": 11}, {"region": "us"}, session=session)
            orders.update_one({"_id": 4}, {"$set": {"region": "us"}}, session=session)
            orders.replace_one({"_id": 5}, {"region": "us", "v": 1}, session=session)
            for n in (4, 5):
                orders.update_one({"_id": n}, {"$set": {"v": 2}}, session=session)
        settle(engine)
        lab.assert_equal("orders")
        assert [key for key in keys(lab) if "us" in key] == [
            f"|N{n}! region!Sus!" for n in ("a1", "a2", "a4", "a5", "b11")
        ]


def test_a_change_of_shard_key_is_read_again(lab: Lab, mongos: Mongos) -> None:
    """A collection is sharded while the engine runs, and resharded while it does not: rows get the keys of now, those
    under keys of before go, and nothing is read twice for one change."""
    lab.with_options("cluster_time", snapshot__mode="initial")
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "region": "eu", "zone": n} for n in range(5)])
    lab.collection("people").insert_one({"_id": 1})
    mongos.learn(lab.name("orders"), orders.find())
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        assert keys(lab)[0] == "NZ"
        mongos.shard(lab.name("orders"), "region")
        orders.update_one({"_id": 1}, {"$set": {"v": 1}})
        engine.catch_up(SECONDS)
        (first,) = requests(engine, "resharded/")
        assert not engine.wait(first, SECONDS).failed
        assert keys(lab) == [f"|N{n}! region!Seu!" for n in ("Z", "a1", "a2", "a3", "a4")]
        lab.assert_equal("orders", "people")
    mongos.shard(lab.name("orders"), "zone")
    with lab.running() as engine:
        orders.delete_one({"_id": 4})
        engine.catch_up(SECONDS)
        second = requests(engine, "resharded/")[-1]
        assert second != first
        assert not engine.wait(second, SECONDS).failed
        orders.delete_one({"_id": 3})
        engine.catch_up(SECONDS)
        assert keys(lab) == ["|NZ! zone!NZ!", "|Na1! zone!Na1!", "|Na2! zone!Na2!"]
        lab.assert_equal("orders")
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        assert requests(engine, "resharded/")[-1] == second
