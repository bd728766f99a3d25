"""The status collection on a real MongoDB: which of two words about a request stays, and what a server that refuses
or fails makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from pymongo import MongoClient

from signals.client.client import SnapshotClient
from signals.outcomes import SnapshotStatus, key_of
from snapshotter.core.rules.signal_batch import Affected
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import Origin
from snapshotter.core.values.tasks import TaskProgress, TaskState
from snapshotter.reporting.answers import CollectionEstimate, DryRun
from snapshotter.reporting.outcomes import SignalOutcome
from snapshotter.reporting.status_collection import StatusCollection
from snapshotter.testing.mongodb import start_mongodb
from snapshotter.testing.processes import wait_until
from streaming.namespaces import Namespace

Client = MongoClient[dict[str, Any]]
Tell = Callable[[StatusCollection], None]
ORDERS = Namespace("shop", "orders")


def progress(state: TaskState, request_id: str = "q", **more: Any) -> Progress:
    task = TaskProgress(ORDERS, state=state, **more)
    return Progress(requests=(RequestProgress(request_id, Origin.SIGNAL, (task,)),))


@contextmanager
def writing(
    client: Client, database: str, life: str = "one", engine: str = "shop"
) -> Iterator[StatusCollection]:
    """One life of an engine; all that it told is written at the end of the block."""
    written = StatusCollection(
        client, Namespace(database, "signals_status"), engine, lambda: life, retry_seconds=0.01
    )
    written.open()
    yield written
    written.close()


def document(client: Client, database: str, request_id: str = "q") -> dict[str, Any]:
    found = client[database]["signals_status"].find_one({"_id": key_of(request_id, "shop")})
    assert found is not None
    return found


def test_a_document_says_how_far_a_request_is(mongo_client: Client, database: str) -> None:
    """Its state, its collections with their counts, and after a failure why, and what to do next."""
    with writing(mongo_client, database) as status:
        counts = {"rows": 3, "superseded": 1, "changed": 1, "unchanged": 1, "chunks": 2, "estimated": 9}
        status.saved(progress(TaskState.FAILED, **counts, error="no disk"))
    found = document(mongo_client, database)
    collection = {"name": "shop.orders", "state": "failed", "rows": 3, "dropped": 1}
    found_there = {"inserted": 1, "changed": 1, "unchanged": 1, "filter": None, "keys": None, "range": False}
    assert found["collections"] == [
        {**collection, "deleted": 0, "chunks": 2, "estimated": 9, "error": "no disk", **found_there}
    ]
    assert (found["state"], found["origin"], found["engine"]) == ("failed", "signal", "shop")
    assert "resume-snapshot" in found["next_step"]
    assert found["updated_at"] is not None


def test_a_finished_state_stays_until_there_is_a_newer_one(mongo_client: Client, database: str) -> None:
    """A batch that is repeated after a restart tells an older state, and it is not believed. One that goes on after a
    failure is newer, and so is everything of a state that began anew."""
    with writing(mongo_client, database) as status:
        status.saved(progress(TaskState.FAILED, rows=3, error="no disk"))
    with writing(mongo_client, database) as again:
        again.saved(progress(TaskState.RUNNING, rows=1))
    assert document(mongo_client, database)["state"] == "failed"
    with writing(mongo_client, database) as resumed:
        resumed.saved(progress(TaskState.RUNNING, rows=3, resumed=1))
    found = document(mongo_client, database)
    assert (found["state"], found["collections"][0]["error"], found["next_step"]) == ("running", None, None)
    with writing(mongo_client, database) as done:
        done.saved(progress(TaskState.DONE, rows=9, resumed=1))
    with writing(mongo_client, database) as late:
        late.saved(progress(TaskState.FAILED, rows=3, error="no disk"))
    assert document(mongo_client, database)["state"] == "completed"
    with writing(mongo_client, database, life="two") as anew:
        anew.saved(progress(TaskState.WAITING))
    assert document(mongo_client, database)["state"] == "queued"


def test_engines_that_share_a_signal_collection_tell_each_for_itself(
    mongo_client: Client, database: str
) -> None:
    """A signal reaches both. What one has finished stays finished, whatever the other says; a client sees who is still
    at it, then who has not rejected it, or the engine that it asks for."""
    client = SnapshotClient(mongo_client, f"{database}.signals")
    with writing(mongo_client, database) as shop:
        shop.saved(progress(TaskState.DONE, rows=3))
    with writing(mongo_client, database, "two", "other") as other:
        other.saved(progress(TaskState.RUNNING))
    assert document(mongo_client, database)["state"] == "completed"
    states = {engine: client.status("q", engine) for engine in ("shop", "other", "third")}
    assert {e: s and s.state for e, s in states.items()} == {
        "shop": "completed",
        "other": "running",
        "third": None,
    }
    found = client.status("q")
    assert found is not None
    assert (found.engine, found.state, found.id) == ("other", "running", "q")
    with writing(mongo_client, database, "two", "other") as other:
        other.saved(progress(TaskState.FAILED, error="no disk"))
        other.refused("r", "captures no such collection")
    with writing(mongo_client, database) as shop:
        shop.saved(progress(TaskState.DONE, "r"))
    assert (client.wait("q", 0, engine="shop").state, client.wait("r", 0).engine) == ("completed", "shop")
    assert len(client.history()) == 4


def test_documents_of_earlier_versions_are_read(mongo_client: Client, database: str) -> None:
    """They have the signal's id as their own; where the engine has written anew since, that is what counts."""
    statuses = mongo_client[database]["signals_status"]
    for name in ("q", "old"):
        written = {**SnapshotStatus(name, "running", engine="shop").to_document(), "_id": name}
        del written["id"]
        statuses.insert_one({**written, "updated_at": datetime.now(UTC)})
    client = SnapshotClient(mongo_client, f"{database}.signals")
    old = client.status("old")
    assert old is not None
    assert (old.id, old.state, old.engine) == ("old", "running", "shop")
    with writing(mongo_client, database) as status:
        status.saved(progress(TaskState.DONE))
    assert client.wait("q", 0).state == "completed"
    assert [(s.id, s.state) for s in client.history()] == [("old", "running"), ("q", "completed")]


def test_a_document_has_the_times_of_its_request(mongo_client: Client, database: str) -> None:
    """When it was asked for, accepted, started and ended. They stay, whatever another life of the engine has seen; the
    end goes while it goes on after a failure, and another life of the state has its own."""
    with writing(mongo_client, database) as status:
        status.times.asked("q", 1_700_000_000)
        for state in (TaskState.WAITING, TaskState.RUNNING):
            status.saved(progress(state))
        status.saved(progress(TaskState.FAILED, error="no disk"))
    times = ("asked_at", "accepted_at", "started_at", "ended_at")
    first = document(mongo_client, database)
    found = [first[name] for name in times]
    assert found == sorted(found)
    client = SnapshotClient(mongo_client, f"{database}.signals")
    (told,) = client.history()
    assert (told.kind, told.asked_at) == ("incremental", datetime.fromtimestamp(1_700_000_000, UTC))
    assert told.took_seconds is not None
    with writing(mongo_client, database) as again:
        again.saved(progress(TaskState.RUNNING, rows=1, resumed=1))
    after = document(mongo_client, database)
    assert [after[name] for name in times] == [*found[:3], None]
    with writing(mongo_client, database) as done:
        done.saved(progress(TaskState.DONE, rows=9, resumed=1))
    after = document(mongo_client, database)
    assert [after[name] for name in times[:3]] == found[:3]
    assert after["ended_at"] >= found[3]
    with writing(mongo_client, database, life="two") as anew:
        anew.saved(progress(TaskState.WAITING))
    after = document(mongo_client, database)
    assert [after[name] is None for name in times] == [True, False, True, True]


def test_what_is_reported_again_keeps_its_time(mongo_client: Client, database: str) -> None:
    """A start tells of all requests that it remembers; the history stays in the order in which things happened."""
    with writing(mongo_client, database) as status:
        status.saved(progress(TaskState.DONE, rows=3))
    before = document(mongo_client, database)
    with writing(mongo_client, database) as again:
        again.saved(progress(TaskState.DONE, rows=3))
    assert document(mongo_client, database) == before
    with writing(mongo_client, database) as more:
        more.saved(progress(TaskState.DONE, rows=4))
    assert document(mongo_client, database)["updated_at"] > before["updated_at"]


def test_a_refusal_hides_no_request(mongo_client: Client, database: str) -> None:
    """It is the state of an id that carries no request; at one that does it is only noted, and stays noted."""
    with writing(mongo_client, database) as status:
        status.refused("q", "unknown type")
    found = document(mongo_client, database)
    assert (found["state"], found["reason"]) == ("rejected", "unknown type")
    with writing(mongo_client, database) as status:
        status.saved(progress(TaskState.RUNNING))
    assert (document(mongo_client, database)["state"], document(mongo_client, database)["reason"]) == (
        "running",
        None,
    )
    with writing(mongo_client, database) as status:
        status.refused("q", "it says something else")
    with writing(mongo_client, database) as status:
        status.saved(progress(TaskState.DONE))
    found = document(mongo_client, database)
    assert (found["state"], found["id_reused"]) == ("completed", "it says something else")


def test_a_command_has_its_outcome(mongo_client: Client, database: str) -> None:
    """Which requests it met, and which it named in vain. Told once more by a later life, it keeps what stands there; a
    life that could not tell is made up for."""
    met = Affected(("q1", "q2"), 2)
    with writing(mongo_client, database) as status:
        status.handled(SignalOutcome("p", "pause-snapshot", met, ("$nobody",)))
        status.handled(SignalOutcome("p", "pause-snapshot", again=True))
        status.handled(SignalOutcome("l", "log"))
        status.refused("p", "it says something else")
    found = document(mongo_client, database, "p")
    assert (found["state"], found["command"], found["requests"]) == (
        "completed",
        "pause-snapshot",
        ["q1", "q2"],
    )
    assert (found["requests_met"], found["unknown"], found["engine"]) == (2, ["$nobody"], "shop")
    with writing(mongo_client, database) as status:
        status.handled(SignalOutcome("p", "pause-snapshot", again=True))
        status.handled(SignalOutcome("untold", "stop-snapshot", again=True))
        status.refused("p", "it says something else")
    after = document(mongo_client, database, "p")
    assert after == {**found, "id_reused": "it says something else"}
    untold = SnapshotStatus.from_document(document(mongo_client, database, "untold"))
    assert (untold.state, untold.command, untold.requests_met) == ("completed", "stop-snapshot", None)
    logged = SnapshotStatus.from_document(document(mongo_client, database, "l"))
    assert (logged.state, logged.command, logged.requests, logged.ended) == ("completed", "log", (), True)


def test_what_waits_is_bounded(
    mongo_client: Client, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """MongoDB is slower than whoever sends nonsense: the newest are written, the oldest are left out, and that is said;
    of requests nothing is lost."""
    status = StatusCollection(mongo_client, Namespace(database, "signals_status"), "shop", lambda: "one")
    status.saved(progress(TaskState.DONE))
    for number in range(10_003):
        status.refused(f"s{number}", "unknown type")
    status.open()
    status.close()
    ids = {d["_id"]["id"] for d in mongo_client[database]["signals_status"].find({}, {"_id": 1})}
    assert {"q", "s3", "s10002"} <= ids
    assert len(ids) == 10_001
    said = capsys.readouterr()
    assert (said.out + said.err).count("one is left out") == 3


def test_ids_and_reasons_from_outside_do_no_harm(mongo_client: Client, database: str) -> None:
    """What looks like an expression, is no Unicode, or is huge is written as far as MongoDB can hold it. An id that
    could not be read is left out, for nobody can ask for it."""
    with writing(mongo_client, database) as status:
        status.refused("$state", "$$ROOT")
        status.refused("half \ud800", "half \ud800")
        status.refused("x" * 5_000, "y" * 20_000_000)
        status.refused("unknown", "no readable BSON")
    found = {d["id"]: d["reason"] for d in mongo_client[database]["signals_status"].find()}
    assert found == {"$state": "$$ROOT", "half ?": "half ?", "x" * 1_024 + "…": "y" * 2_000 + "…"}


def test_without_a_collection_nothing_is_written(mongo_client: Client, database: str) -> None:
    """No signal collection, or the option says no."""
    status = StatusCollection(mongo_client, None, "shop", lambda: "one")
    status.open()
    status.saved(progress(TaskState.DONE))
    status.refused("q", "why")
    status.close()
    assert not status.on
    assert mongo_client[database].list_collection_names() == []


def test_failures_are_tried_again_and_a_missing_privilege_ends_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is told while the server fails is written afterwards, the newest of it. A user who may not write is told
    once which option is meant, and nothing more is tried."""
    with start_mongodb(auth=True, set_parameters={"enableTestCommands": 1}) as deployment:
        client = deployment.client()
        failing = {"failCommands": ["update"], "errorCode": 262}
        client["admin"].command("configureFailPoint", "failCommand", mode={"times": 3}, data=failing)
        with writing(client, "shop") as status:
            status.saved(progress(TaskState.RUNNING))
            status.saved(progress(TaskState.DONE, rows=4))
            statuses = client["shop"]["signals_status"]
            wait_until(lambda: statuses.find_one({"state": "completed"}), "the newest state")
        client["admin"].command("createUser", "reader", pwd="secret", roles=[{"role": "read", "db": "shop"}])
        with MongoClient[dict[str, Any]](deployment.uri, username="reader", password="secret") as reader:
            with writing(reader, "shop") as status:
                status.saved(progress(TaskState.RUNNING, "other"))
            assert not status.on
            status.saved(progress(TaskState.DONE, "other"))
        assert [d["id"] for d in client["shop"]["signals_status"].find()] == ["q"]
    said = capsys.readouterr()
    assert (said.out + said.err).count("engine.status.collection=false") == 1


def test_a_dry_run_has_its_answer(mongo_client: Client, database: str) -> None:
    """What would be read, or why nobody knows. A request that takes the id afterwards has the document to itself."""
    part = CollectionEstimate(name="shop.orders", first='{"$numberInt": "1"}', documents=7, notes=("so",))
    answer = DryRun(id="q", answered_at=datetime.now(UTC), collections=(part,), documents=7, bytes=2**40)
    with writing(mongo_client, database) as status:
        status.handled(SignalOutcome("q", "dry-run", answer=answer))
        status.handled(
            SignalOutcome(
                "bad", "dry-run", answer=DryRun(id="bad", answered_at=answer.answered_at, error="no")
            )
        )
    told = SnapshotStatus.from_document(document(mongo_client, database))
    assert (told.state, told.command, told.error) == ("completed", "dry-run", None)
    assert told.answer is not None
    assert (told.answer["documents"], told.answer["bytes"], told.answer["seconds"]) == (7, 2**40, None)
    assert told.answer["collections"][0]["first"] == '{"$numberInt": "1"}'
    bad = SnapshotStatus.from_document(document(mongo_client, database, "bad"))
    assert (bad.state, bad.error, bad.answer) == ("failed", "no", None)
    with writing(mongo_client, database) as status:
        status.saved(progress(TaskState.RUNNING))
    asked = SnapshotStatus.from_document(document(mongo_client, database))
    assert (asked.state, asked.command, asked.answer) == ("running", None, None)
