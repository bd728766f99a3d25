"""A position that is of no use any more, on real parts: what is said, what is recorded, and what heals."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from bson import Int64, Timestamp
from deltalake import DeltaTable

from signals.notifications.notification import Notification
from snapshotter.api import Snapshotter
from snapshotter.core.values.gaps import Cause
from snapshotter.engine.lost_positions import PositionGone
from snapshotter.errors import EXIT_DEFINITE, EXIT_OK, exit_code
from snapshotter.testing.mongodb import MongoDeployment, start_mongodb
from streaming.mongo.deployment import newest_time
from tests.support.engine_process import EngineProcess
from tests.support.engines import SECONDS, Lab, lab, limits
from tests.support.oplogs import forget, forgetful
from tests.support.tables import difference

__all__ = ["forgetful", "lab"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]


def landed(lab: Lab, deployment: MongoDeployment, mode: str, **options: object) -> None:
    """An engine has landed 30 orders and 5 people, and has stopped."""
    lab.uri, lab.client = deployment.uri, deployment.client()
    lab.with_options("cluster_time", snapshot__mode=mode, **options)
    lab.tune = limits(8, 2)
    if mode == "no_data":
        lab.collection("orders").insert_one({"_id": -1})
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        lab.collection("orders").insert_many([{"_id": n, "v": n} for n in range(30)])
        lab.collection("people").insert_many([{"_id": n} for n in range(5)])
        engine.catch_up(SECONDS)


def changed_meanwhile(lab: Lab) -> None:
    """What nobody streams: 3 inserts, 2 updates, 4 deletes among the orders."""
    orders = lab.collection("orders")
    orders.insert_many([{"_id": 100 + n, "v": 0} for n in range(3)])
    orders.update_many({"_id": {"$in": [4, 5]}}, {"$inc": {"v": 1000}})
    orders.delete_many({"_id": {"$in": [1, 2, 20, 29]}})


def gaps(lab: Lab) -> list[dict[str, object]]:
    """The rows of the table of gaps, as another reader sees them."""
    rows: list[dict[str, object]] = DeltaTable(str(lab.state / "gaps")).to_pyarrow_table().to_pylist()
    return rows


def failure(lab: Lab) -> PositionGone:
    """What ends an engine that is left to itself."""
    with pytest.raises(PositionGone, match="position is lost") as failed:
        lab.engine().engine.run()
    assert lab.status().error is not None
    return failed.value


def test_healing_compares_every_table(lab: Lab, forgetful: MongoDeployment) -> None:
    """Under ``no_data``, and whatever the initial load would leave out: inserts, updates and deletes of the gap are in
    the tables, counted as an independent comparison counts them, and so is what was never read before. The gap is open
    until the last collection is compared; it is announced, in the status, and in its table."""
    landed(lab, forgetful, "no_data", snapshot__include__collection__list=lab.name("people"))
    changed_meanwhile(lab)
    lab.collection("made_meanwhile").insert_one({"_id": 1})
    forget(forgetful)
    error = failure(lab)
    assert "history-lost" in str(error)
    assert "engine.position.lost=heal" in (error.next_step or "")
    assert not (lab.state / "gaps").exists()
    independent = difference(lab.uri, lab.database, "orders", lab.table("orders"))
    assert len(independent) == 3 + 2 + 4 + 1, "and the order that was there before the engine"
    lab.options["engine.position.lost"] = "heal"
    heard: list[Notification] = []
    engine = lab.engine()
    engine.on_notification(heard.append)
    with engine:
        engine.until("the gap", lambda: lab.status().gaps, SECONDS)
        request = engine.wait("heal", SECONDS)
        found = {t.namespace.collection: t for t in request.tasks}
        orders = found["orders"]
        assert (orders.inserted, orders.changed, orders.deleted, orders.unchanged) == (4, 2, 4, 24)
        assert (found["people"].unchanged, found["made_meanwhile"].inserted) == (5, 1)
        engine.catch_up(SECONDS)
        engine.until("the gap to close", lambda: not lab.status().gaps, SECONDS)
        engine.until("its end to be told", lambda: "GAP_CLOSED" in [n.type for n in heard], SECONDS)
    lab.assert_equal("orders", "people", "made_meanwhile")
    (row,) = gaps(lab)
    assert (row["cause"], row["policy"], row["closed_at"] is not None) == ("history-lost", "heal", True)
    assert row["collections"] == [lab.name(c) for c in ("made_meanwhile", "orders", "people")]
    assert [n.type for n in heard if n.aggregate_type == "Position"] == ["GAP_OPENED", "GAP_CLOSED"]
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        assert [r.id for r in lab.status().requests] == ["heal"]


def test_going_on_leaves_a_gap_until_somebody_reads(lab: Lab, forgetful: MongoDeployment) -> None:
    """``continue``: what changes from then on lands, what was missed does not, over a restart too. The status names the
    command that reads each collection; once all are read, the gap is closed."""
    landed(lab, forgetful, "when_needed", engine__position__lost="continue")
    changed_meanwhile(lab)
    forget(forgetful)
    with lab.running() as engine:
        engine.until("the gap", lambda: lab.status().gaps, SECONDS)
        lab.collection("orders").insert_one({"_id": 200, "v": 0})
        engine.catch_up(SECONDS)
    assert len(difference(lab.uri, lab.database, "orders", lab.table("orders"))) == 3 + 2 + 4
    with lab.running() as engine:
        (gap,) = engine.until("the gap", lambda: lab.status().gaps, SECONDS)
        assert (gap.cause, gap.policy) == (Cause.HISTORY, "continue")
        assert gap.next_step.endswith(f"--reconcile {lab.name('orders')} {lab.name('people')}")
        done = engine.wait(engine.execute_snapshot(lab.name("orders"), reconcile=True), SECONDS).tasks[0]
        assert (done.inserted, done.changed, done.deleted) == (3, 2, 4)
        engine.until(
            "one to be left",
            lambda: [g.left for g in lab.status().gaps] == [(lab.name("people"),)],
            SECONDS,
        )
        engine.wait(engine.execute_snapshot(lab.name("people"), reconcile=True), SECONDS)
        engine.catch_up(SECONDS)
        engine.until("the gap to close", lambda: not lab.status().gaps, SECONDS)
    lab.assert_equal("orders", "people")
    (row,) = gaps(lab)
    assert (row["policy"], row["closed_at"] is not None) == ("continue", True)


def test_another_deployment_is_no_silent_start(lab: Lab, forgetful: MongoDeployment) -> None:
    """A replica set of another id, whose oplog may well reach back: named, with exit code 3. Healed, the tables are
    what it holds."""
    landed(lab, forgetful, "initial")
    database = lab.database
    with start_mongodb() as other:
        lab.uri, lab.client = other.uri, other.client()
        lab.client[database]["orders"].insert_many([{"_id": n, "v": -n} for n in range(3)])
        error = failure(lab)
        assert exit_code(error) == EXIT_DEFINITE
        assert "another-deployment" in str(error)
        assert "replicaSetId" in str(error)
        lab.options["engine.position.lost"] = "heal"
        with lab.running() as engine:
            engine.wait("heal", SECONDS)
            engine.catch_up(SECONDS)
        lab.assert_equal("orders")
        assert lab.rows("people") == []


def test_an_older_copy_is_no_silent_wait(tmp_path: Path) -> None:
    """The source's newest change lies before the position: a data directory was put back, of a server whose clock was
    an hour ahead. Once that copy is written to, and has come further than the position, its oplog lacks an entry that
    the position has passed. Each engine is a process of its own, for a client that remembers the later time would tell
    it."""
    with start_mongodb() as deployment:
        options = {
            "name": "shop",
            "mongodb.connection.string": deployment.uri,
            "database.include.list": "shop",
        }
        engine = EngineProcess(tmp_path, options)

        def once(first: int, ahead: int = 0) -> int:
            with deployment.client() as client, client.start_session() as session:
                # A server without access control takes the time that a client tells: its clock is ahead from then on.
                now = newest_time(client)
                told = {"hash": bytes(20), "keyId": Int64(0)}
                session.advance_cluster_time(
                    {"clusterTime": Timestamp(now.t + ahead, now.i), "signature": told}
                )
                documents = [{"_id": first + n} for n in range(5)]
                client["shop"]["orders"].insert_many(documents, session=session)
            return engine.start("--once").wait()

        node = deployment.node(0)
        data = node.folder / "data"
        assert once(0) == EXIT_OK
        node.stop()
        shutil.copytree(data, tmp_path / "copy")
        deployment.restart(node)
        assert once(100, ahead=3_600) == EXIT_OK
        node.stop()
        shutil.rmtree(data)
        shutil.copytree(tmp_path / "copy", data)
        deployment.restart(node)
        assert engine.start("--once").wait() == EXIT_DEFINITE
        assert "source-behind" in error_of(engine)
        assert once(200, ahead=7_200) == EXIT_DEFINITE
        assert "source-behind" in error_of(engine)
        assert "which was written to since" in error_of(engine)


def error_of(engine: EngineProcess) -> str:
    status = engine.status()
    assert status is not None
    assert status.error is not None
    return status.error.message


def test_a_heal_goes_on_after_a_restart(lab: Lab, forgetful: MongoDeployment) -> None:
    """And what is not compared yet stays in the status; a stop of all requests leaves the gap open, and the way out."""
    landed(lab, forgetful, "when_needed")
    changed_meanwhile(lab)
    forget(forgetful)
    with lab.running() as engine:
        engine.pause()
        engine.until("the gap", lambda: lab.status().gaps, SECONDS)
        engine.pause("heal")
        engine.catch_up(SECONDS)
    with lab.running() as engine:
        (gap,) = engine.until("the gap", lambda: lab.status().gaps, SECONDS)
        assert (gap.left, gap.next_step) == ((lab.name("orders"), lab.name("people")), "")
        engine.stop_snapshot("heal")
        engine.until("the way out", lambda: [g.next_step for g in lab.status().gaps] != [""], SECONDS)
        again(lab, engine)
        engine.until("the gap to close", lambda: not lab.status().gaps, SECONDS)
        engine.catch_up(SECONDS)
    lab.assert_equal("orders", "people")


def again(lab: Lab, engine: Snapshotter) -> None:
    engine.wait(engine.execute_snapshot(lab.name("orders"), lab.name("people"), reconcile=True), SECONDS)
