"""The position of an engine as an operator sees and sets it, on a real oplog."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bson
import pytest
from click.testing import Result
from pyspark.sql import SparkSession

from snapshotter.engine.start_times import resolved
from snapshotter.errors import DefiniteError
from snapshotter.position.starts import Start
from snapshotter.state.generation import Cause, Generation, current
from snapshotter.state.storage import LocalStorage
from snapshotter.testing.mongodb import MongoDeployment
from streaming.mongo.deployment import connect, majority_time
from streaming.mongo.errors import classify
from streaming.mongo.server_codes import Kind
from streaming.positions import ClusterTime
from tests.support.commands import run, share
from tests.support.engines import SECONDS, Lab, lab
from tests.support.java_streams import java_map
from tests.support.mongos import mongos_before
from tests.support.oplogs import forget, forgetful

__all__ = ["forgetful", "lab"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]

Command = Callable[..., Result]


@pytest.fixture
def command(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command with a lab's configuration."""
    share(spark, monkeypatch)
    return run


def loaded(lab: Lab, **options: object) -> None:
    """Ten documents in a table, and an engine that has stopped."""
    lab.with_options("cluster_time", snapshot__mode="initial", **options)
    lab.collection("orders").insert_many([{"_id": n, "total": n} for n in range(10)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        engine.catch_up(SECONDS)


def generation(lab: Lab) -> Generation:
    return current(LocalStorage(lab.state))


def shown(command: Command, lab: Lab) -> dict[str, Any]:
    result = command(lab, "position show", "--json")
    assert result.exit_code == 0
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def time_of(found: dict[str, Any]) -> ClusterTime:
    return ClusterTime.from_json(found["position"])


def files(folder: Path) -> dict[str, bytes]:
    """All that the state holds, but for locks."""
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    return {name: data for name, data in found.items() if not name.startswith("lock/")}


def goes_on(lab: Lab, load: str | None = None) -> list[str]:
    """Start the engine until it has caught up; the ids of the requests that it knows then."""
    with lab.running() as engine:
        if load is not None:
            engine.wait(load, SECONDS)
        engine.catch_up(SECONDS)
        newest = engine.engine.store.newest()
        assert newest is not None
        return [request.id for request in newest.requests]


def test_it_is_shown_while_the_engine_runs_and_set_while_it_does_not(lab: Lab, command: Command) -> None:
    """``show`` takes no lock; whatever sets the position is refused with the holder's name, and nothing is touched."""
    assert "has not begun" in command(lab.with_options("cluster_time"), "position show").stdout
    assert command(lab, "position export").exit_code == 3
    loaded(lab)
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        found = shown(command, lab)
        assert time_of(found) <= majority_time(lab.client)
        assert (found["next_start"], found["oplog_error"]) == (False, None)
        assert 0 <= found["age_seconds"] < 600
        assert "runway_hours" in found
        assert found["oplog"]["capacity_bytes"] > found["oplog"]["used_bytes"] > 0
        text = command(lab, "position show").stdout
        assert [line.split()[0] for line in text.splitlines()] == ["position", "age", "oplog", "runway"]
        before = generation(lab)
        refused = command(lab, "position reset", "--to", "now")
        assert refused.exit_code == 3
        assert f"another engine named 'engine-{lab.database}' is running" in refused.output
        assert generation(lab) == before


def test_backward_repeats_and_doubles_nothing(lab: Lab, command: Command) -> None:
    """All since then lands again, deletes included; nothing is read for it, and the state is that of the collection."""
    before = majority_time(lab.client)
    loaded(lab)
    lab.collection("orders").delete_one({"_id": 3})
    lab.collection("orders").update_one({"_id": 4}, {"$set": {"total": -4}})
    assert goes_on(lab) == ["initial"]
    commits = len(lab.commits("orders"))
    moved = command(lab, "position reset", "--to", str(before))
    assert moved.exit_code == 0
    assert "none is doubled" in moved.stdout
    found = shown(command, lab)
    assert (time_of(found), found["next_start"]) == (before.previous(), True)
    assert (generation(lab).gap, generation(lab).heal) == (None, False)
    lab.collection("orders").insert_one({"_id": 10})
    assert goes_on(lab) == ["initial"], "nothing is read again"
    lab.assert_equal("orders")
    assert len(lab.commits("orders")) > commits
    assert shown(command, lab)["next_start"] is False
    assert goes_on(lab) == ["initial"]


def test_forward_is_a_gap_unless_it_heals(lab: Lab, command: Command) -> None:
    """What changed in between stays unseen, which is said and recorded; with ``--heal`` all is read again, and the
    deletes of the gap are in the table."""
    loaded(lab)
    was = time_of(shown(command, lab))
    lab.collection("orders").delete_one({"_id": 3})
    moved = command(lab, "position reset", "--to", "now")
    assert "recorded as a gap" in moved.stdout
    gap = generation(lab).gap
    assert gap is not None
    assert (gap.since, gap.upto, gap.cause) == (was, time_of(shown(command, lab)), Cause.RESET)
    lab.collection("orders").insert_one({"_id": 10})
    assert goes_on(lab) == ["initial"]
    assert sorted(row["_id"] for row in lab.rows("orders")) == list(range(11)), "the delete was not seen"
    (opened,) = lab.status().gaps
    assert (opened.cause, opened.left) == ("reset", (lab.name("orders"),))
    healed = command(lab, "position reset", "--to", "now", "--heal")
    assert "read again with reconcile" in healed.stdout
    assert goes_on(lab, "heal") == ["initial", "heal"]
    lab.assert_equal("orders")
    assert lab.status().gaps == ()


def test_a_load_that_was_under_way_goes_on(lab: Lab, command: Command) -> None:
    """Where the position is set in the middle of it, nothing of it is read twice or left out."""
    lab.with_options("cluster_time", snapshot__mode="no_data", incremental__snapshot__chunk__size=2)
    lab.collection("orders").insert_many([{"_id": n} for n in range(10)])
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        engine.execute_snapshot(lab.name("orders"), request_id="asked")
        engine.pause("asked")
    assert command(lab, "position reset", "--to", "oldest").exit_code == 0
    with lab.running() as engine:
        engine.resume("asked")
        engine.wait("asked", SECONDS)
        engine.catch_up(SECONDS)
    lab.assert_equal("orders")


def test_a_position_outside_of_the_oplog_is_refused(
    lab: Lab, forgetful: MongoDeployment, command: Command
) -> None:
    """Before anything is touched: older than what is left of it, ahead of it, or no token of it. The oldest that is
    left can be had; and where the oplog loses it before the start, it is a lost position."""
    lab.uri, lab.client = forgetful.uri, forgetful.client()
    loaded(lab)
    with lab.client.watch() as stream:
        lab.collection("orders").insert_one({"_id": 10})
        token = next(stream)["_id"]["_data"]
    early = time_of(shown(command, lab))
    forget(forgetful)
    before = files(lab.state)
    lost = shown(command, lab)
    assert lost["runway_hours"] == 0
    assert "no longer holds the position" in command(lab, "position show").stdout
    for to, said in (
        (str(early), "no longer holds"),
        (token, "no longer holds"),
        ("2099-01-01", "ahead of the oplog"),
        ("82" * 20, r""),
    ):
        refused = command(lab, "position reset", "--to", to)
        assert refused.exit_code in (2, 3), to
        assert said in refused.output
        assert files(lab.state) == before
    assert command(lab, "position reset", "--to", "soon").exit_code == 2
    assert command(lab, "position reset", "--to", "oldest").exit_code == 0
    forget(forgetful)
    with pytest.raises(Exception, match=r"oplog") as failed:
        lab.engine().engine.run()
    assert classify(failed.value).kind is Kind.POSITION_LOST
    assert command(lab, "position reset", "--to", "now", "--heal").exit_code == 0
    goes_on(lab, "heal")
    lab.assert_equal("orders")


def test_it_is_exported_and_imported(lab: Lab, command: Command, tmp_path: Path) -> None:
    """By a file, to the same engine later: what came since lands once more."""
    loaded(lab)
    file = tmp_path / "position.json"
    assert command(lab, "position export", str(file)).exit_code == 0
    exported = time_of(shown(command, lab))
    assert json.loads(file.read_text())["position"] == exported.to_json()
    assert command(lab, "position export").stdout == file.read_text()
    lab.collection("orders").delete_one({"_id": 3})
    goes_on(lab)
    for how in (["position reset", "--to", str(file)], ["position import", str(file)]):
        assert command(lab, *how).exit_code == 0
        assert time_of(shown(command, lab)) == exported
    assert generation(lab).cause is Cause.IMPORTED
    goes_on(lab)
    lab.assert_equal("orders")


def stores(token: str, time: ClusterTime) -> dict[str, bytes]:
    """An event as each product stores its position after it."""
    raw = base64.b64encode(bson.encode({"_data": token})).decode()
    offset = json.dumps({"sec": time.t, "ord": time.i, "resume_token": raw})
    key = json.dumps({"schema": None, "payload": ["shop", {"server_id": "shop"}]})
    return {
        "Debezium's file": java_map({key.encode(): offset.encode()}),
        "Debezium's heartbeat": json.dumps({"sec": -1, "ord": -1, "resume_token": raw}).encode(),
        "the Kafka connector": json.dumps({"_id": json.dumps({"_data": token})}).encode(),
    }


@pytest.mark.parametrize("product", ["Debezium's file", "Debezium's heartbeat", "the Kafka connector"])
def test_an_engine_begins_where_another_product_has_stopped(
    lab: Lab, command: Command, tmp_path: Path, product: str
) -> None:
    """At its very first start: the stored event is read again where its time is known, else what follows; and nothing
    of a transaction is lost that the other product had seen half of."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    orders = lab.collection("orders")
    orders.insert_one({"_id": "before"})
    with lab.client.watch() as stream, lab.client.start_session() as session:
        with session.start_transaction():
            for name in ("first", "second"):
                lab.client[lab.database]["orders"].insert_one({"_id": name}, session=session)
        half = next(stream)
    orders.insert_one({"_id": "after"})
    stamp = half["clusterTime"]
    file = tmp_path / "offset.dat"
    file.write_bytes(stores(half["_id"]["_data"], ClusterTime(stamp.time, stamp.inc))[product])
    result = command(lab, "position import", str(file))
    assert result.exit_code == 0
    assert "a position of" in result.stdout
    assert shown(command, lab)["next_start"] is True
    goes_on(lab)
    assert sorted(row["_id"] for row in lab.rows("orders")) == ["after", "first", "second"]
    assert (lab.state / "checkpoint").exists(), "it is the engine's first life"


def test_a_first_start_begins_where_the_option_says(lab: Lab, tmp_path: Path) -> None:
    """``engine.position.start``: what happened since is seen; a later start goes on where the engine was. A position
    that is not to be had is refused with the option's name."""
    lab.with_options("cluster_time", snapshot__mode="no_data", engine__position__start="2099-01-01")
    with pytest.raises(
        DefiniteError, match=r"engine\.position\.start: the position .* lies ahead of the oplog"
    ):
        lab.engine().engine.run()
    assert not (lab.state / "beginning.json").exists()
    lab.collection("orders").insert_one({"_id": "early"})
    lab.with_options("cluster_time", engine__position__start=str(majority_time(lab.client).next()))
    lab.collection("orders").insert_one({"_id": "seen"})
    goes_on(lab)
    assert [row["_id"] for row in lab.rows("orders")] == ["seen"]
    lab.with_options("cluster_time", engine__position__start="oldest")
    goes_on(lab)
    assert [row["_id"] for row in lab.rows("orders")] == ["seen"], "it counts at the first start only"


def test_another_name_is_another_position(lab: Lab) -> None:
    """``offset.partition.name``: the engine begins as at its first start, and reads what the mode says; rows that the
    stream has not followed are read with reconcile. The same name goes on."""
    loaded(lab, offset__partition__name="one")
    assert generation(lab) == Generation(partition="one")
    assert goes_on(lab) == ["initial"]
    lab.collection("orders").delete_one({"_id": 3})
    lab.with_options("cluster_time", offset__partition__name="two")
    assert goes_on(lab, "initial-2") == ["initial", "initial-2"]
    lab.assert_equal("orders")
    named = generation(lab)
    assert (named.number, named.cause, named.partition, named.heal) == (2, Cause.RENAMED, "two", False)
    assert goes_on(lab) == ["initial", "initial-2"]


def test_through_a_router_the_time_of_a_token_counts(mongo_uri: str, lab: Lab) -> None:
    """It may be of another router's stream, or of one shard's; what carries its time is read again."""
    with lab.client.watch() as stream:
        lab.collection("orders").insert_one({"_id": 1})
        event = next(stream)
    token = bson.encode(event["_id"])
    stamp = ClusterTime(event["clusterTime"].time, event["clusterTime"].inc)
    with mongos_before(mongo_uri) as mongos:
        options = {"mongodb.connection.string": mongos.uri, "database.include.list": lab.database}
        position = resolved(Start(token=token), options, connect(mongos.uri))
    assert position == stamp.previous()
