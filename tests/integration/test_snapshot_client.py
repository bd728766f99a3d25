"""The client for notebooks and scripts, against a real engine: what it asks for is done, and it sees what becomes
of it."""

from __future__ import annotations

import threading
from io import StringIO
from typing import Any

import pytest
from pymongo import MongoClient
from rich.console import Console

from signals import SnapshotClient, SnapshotFailed, SnapshotRejected
from signals.actions import ExecuteSnapshot
from signals.client.client import COLUMNS, NoStatusCollection, UnknownRequest, WrongSignalCollection
from signals.client.progress_bar import showing
from signals.errors import DuplicateSignal, MalformedSignal
from signals.outcomes import CollectionStatus, SnapshotStatus
from snapshotter.errors import DefiniteError
from snapshotter.reading.chunk_reader import ReadJob
from tests.support.engines import SECONDS, Lab, Reads, lab, limits, reads
from tests.support.signal_channels import PREFIX, KafkaRig, polled

__all__ = ["lab", "reads"]

Client = MongoClient[dict[str, Any]]


def prepared(lab: Lab, documents: int) -> SnapshotClient:
    lab.with_options(snapshot__mode="no_data")
    lab.collection("orders").insert_many([{"_id": n, "total": n} for n in range(documents)])
    return SnapshotClient(lab.client, lab.name("signals"))


@pytest.mark.slow
def test_what_was_asked_for_and_what_was_refused(lab: Lab) -> None:
    """A request is waited for, and has its counts; a malformed signal that somebody inserted is rejected with the
    reason, under its own id. The status collection gets no table, though a pattern names it. After a restart the
    history is the same."""
    client = prepared(lab, 30)
    with lab.running():
        request = client.execute(
            f"{lab.database}\\..*", filters={lab.name("orders"): {"total": {"$gte": 10}}}, id="first"
        )
        done = client.wait(request, SECONDS)
        assert (done.state, done.origin, done.rows) == ("completed", "signal", 20)
        assert [(c.name, c.state, c.rows) for c in done.collections] == [
            (lab.name("orders"), "completed", 20)
        ]
        assert (done.kind, done.collections[0].filter is not None) == ("incremental", True)
        times = [done.asked_at, done.accepted_at, done.started_at, done.ended_at]
        known = [time for time in times if time is not None]
        assert (len(known), known) == (4, sorted(known))
        lab.signals.insert_one({"_id": "typo", "type": "execute-snapshto", "data": {}})
        with pytest.raises(SnapshotRejected, match=r"'typo' was rejected.*execute-snapshto.*next: correct"):
            client.wait("typo", SECONDS)
        nothing = client.execute(lab.name("no_such"), id="nothing")
        with pytest.raises(SnapshotRejected, match="no captured collection"):
            client.wait(nothing, SECONDS)
        with pytest.raises(DuplicateSignal):
            client.execute(lab.name("orders"), id="first")
    before = client.history()
    with lab.running() as engine:
        engine.catch_up(SECONDS)
    assert [(s.id, s.state, s.rows) for s in client.history()] == [(s.id, s.state, s.rows) for s in before]
    assert sorted(s.id for s in before) == ["first", "nothing", "typo"]
    assert [path.name for path in lab.table("orders").parent.iterdir()] == ["orders"]


@pytest.mark.slow
def test_control_through_the_client(lab: Lab, reads: Reads) -> None:
    """Pause, resume and stop are seen in the status: paused keeps its counts, resumed goes on, stopped has ended
    without an error."""
    client = prepared(lab, 12)
    lab.tune = limits(3, 1)
    gates = [threading.Event() for _ in range(2)]
    reached = [threading.Event() for _ in range(2)]

    def before(number: int, job: ReadJob) -> None:
        if number in (1, 2):
            reached[number - 1].set()
            assert gates[number - 1].wait(SECONDS)

    reads.before = before
    with lab.running() as engine:
        client.execute(lab.name("orders"), id="q")

        def shows(state: str) -> bool:
            status = client.status("q")
            return status is not None and status.state == state

        assert reached[0].wait(SECONDS)
        engine.until("running", lambda: shows("running"), SECONDS)
        client.pause()
        engine.until(
            "the pause to be known", lambda: engine.engine.run_state.standing().requests[0].paused, SECONDS
        )  # type: ignore[union-attr]
        gates[0].set()
        engine.until("paused", lambda: shows("paused"), SECONDS)
        client.resume()
        assert reached[1].wait(SECONDS)
        # The third chunk is read while the second one lands, and a stop would find it on its way.
        engine.until("two chunks to have landed", lambda: rows_of(client, "q") == 6, SECONDS)
        client.stop()
        stopped = client.wait("q", SECONDS)
        gates[1].set()
    assert (stopped.state, stopped.error) == ("stopped", None)
    assert stopped.rows == 6


def rows_of(client: SnapshotClient, request: str) -> int:
    status = client.status(request)
    return status.rows if status is not None else 0


@pytest.mark.slow
def test_a_failure_is_reported_and_mended_through_the_client(lab: Lab, reads: Reads) -> None:
    """A blocking snapshot that cannot be read raises, where it is waited for, with its reason and what to do; doing
    that completes it. What changed meanwhile has landed too."""
    client = prepared(lab, 12)
    lab.tune = limits(3, 1)

    def broken(number: int, job: ReadJob) -> None:
        if number == 2:
            raise DefiniteError("the disk is on fire")

    reads.before = broken
    with lab.running() as engine:
        request = client.execute(lab.name("orders"), blocking=True, id="q")
        with pytest.raises(SnapshotFailed, match=r"on fire.*resume-snapshot"):
            client.wait(request, SECONDS)
        failed = client.status(request)
        assert failed is not None
        assert (failed.state, failed.ended, failed.collections[0].state) == ("failed", True, "failed")
        lab.collection("orders").insert_one({"_id": 100})
        client.resume([request])
        engine.until("the request to go on", lambda: state(client, request) == "completed", SECONDS)
        done = client.wait(request, SECONDS)
        assert done.error is None
        assert done.rows >= 12
        assert engine.wait(request, SECONDS).blocking
        engine.catch_up(SECONDS)
    lab.assert_equal("orders")


def state(client: SnapshotClient, request: str) -> str:
    found = client.status(request)
    return "" if found is None else found.state


def test_what_no_signal_can_say_is_refused_at_once(mongo_client: Client, database: str) -> None:
    """By the engine's own parser, before anything is sent."""
    client = SnapshotClient(mongo_client, f"{database}.signals")
    with pytest.raises(MalformedSignal, match="keys and range exclude each other"):
        client.execute("shop.orders", keys=[1], id_range=(1, 2))
    with pytest.raises(MalformedSignal, match="nothing that MongoDB stores"):
        client.execute("shop.orders", keys=[object()])
    assert mongo_client[database]["signals"].count_documents({}) == 0


def test_a_wrong_signal_collection_is_an_error(mongo_client: Client, database: str) -> None:
    """Where another one is there that it was meant for: one of nearly the same name, or one beside which an engine
    writes what becomes of signals. Nothing is made by that. Without any sign of that it is made by the first signal."""
    shop = mongo_client[database]
    fresh = SnapshotClient(mongo_client, f"{database}.signals")
    assert fresh.history() == []
    fresh.log("hello", "first")
    with SnapshotClient(mongo_client, f"{database}.signal") as misspelt:
        for asks in (lambda: misspelt.execute_snapshot("shop.orders"), misspelt.history, misspelt.status):
            with pytest.raises(
                WrongSignalCollection, match=rf"no signal collection .*; did you mean {database}\.signals"
            ):
                asks()
    shop.drop_collection("signals")
    shop.create_collection("control")
    shop.create_collection("control_status")
    with pytest.raises(WrongSignalCollection, match=rf"did you mean {database}\.control\?"):
        SnapshotClient(mongo_client, f"{database}.signals").log("hello")
    assert sorted(shop.list_collection_names()) == ["control", "control_status"]


def test_the_names_of_an_engine_in_a_program_are_understood(mongo_client: Client, database: str) -> None:
    """They send what the older names do. A text where a list of ids is meant is one id."""
    client = SnapshotClient(mongo_client, f"{database}.signals")
    client.execute_snapshot("shop.orders", keys="65a1", request_id="r")
    client.pause_snapshot("r", signal_id="p")
    client.stop_snapshot("r", collections=["shop.orders"], signal_id="s")
    client.stop_snapshot(signal_id="all")
    client.resume_snapshot("r", "q", signal_id="g")
    client.restart("b")
    sent = {d["_id"]: (d["type"], d["data"]) for d in mongo_client[database]["signals"].find()}
    assert sent["r"][1]["keys"] == ["65a1"]
    assert sent["p"] == ("pause-snapshot", {"requests": ["r"]})
    assert sent["s"][1] == {"type": "incremental", "data-collections": ["shop.orders"], "requests": ["r"]}
    assert sent["all"][0] == "stop-snapshot"
    assert sent["g"][1] == {"requests": ["r", "q"]}
    assert sent["b"][0] == "restart"
    with pytest.raises(MalformedSignal, match=r"^keys must be a list of ids, at least one"):
        client.execute_snapshot("shop.orders", keys=[])
    statuses = mongo_client[database]["signals_status"]
    statuses.insert_many(
        [SnapshotStatus(name, state).to_document() for name, state in (("r", "running"), ("o", "failed"))]
    )
    assert [s.id for s in client.status()] == ["r"]
    for command in (client.pause_snapshot, client.resume_snapshot, client.stop_snapshot):
        with pytest.raises(UnknownRequest, match=r"there is no request nope; there are '[or]', '[or]'"):
            command("r", "nope")


def test_what_is_sent_is_what_was_asked_for(mongo_client: Client, database: str) -> None:
    """Ids keep their types; named requests are named."""
    client = SnapshotClient(mongo_client, f"{database}.signals")
    client.execute("shop.orders", id_range=("a", None), reconcile=True, priority=3, id="r")
    client.pause(["r"], id="p")
    client.log("at {}", id="l")
    sent = {d["_id"]: d["data"] for d in mongo_client[database]["signals"].find()}
    assert sent["r"]["range"] == {"min": "a"}
    assert (sent["r"]["reconcile"], sent["r"]["priority"]) == (True, 3)
    assert sent["p"] == {"requests": ["r"]}
    assert sent["l"] == {"message": "at {}"}


def test_ends_and_history(mongo_client: Client, database: str) -> None:
    """A failure is raised with its reason and the next step, what has not ended is told after the time is up, and the
    history is a table with a row for each collection."""
    client = SnapshotClient(mongo_client, f"{database}.signals")
    orders = CollectionStatus("shop.orders", "failed", rows=3, error="no disk")
    items = CollectionStatus("shop.items", "completed", rows=4, dropped=1)
    failed = SnapshotStatus("f", "failed", collections=(orders, items), next_step="resume it", engine="shop")
    running = SnapshotStatus("r", "running", engine="shop")
    statuses = mongo_client[database]["signals_status"]
    statuses.insert_many([{**s.to_document(), "more": 1} for s in (failed, running)])
    assert client.status("f") == failed
    assert client.status("none") is None
    with pytest.raises(SnapshotFailed, match=r"'f' failed: shop\.orders: no disk; next: resume it"):
        client.wait("f", 1)
    with pytest.raises(TimeoutError, match="'r' is running"):
        client.wait("r", 0)
    with pytest.raises(TimeoutError, match=r"said nothing about request 'none'.*engine\.status\.collection"):
        client.wait("none", 0)
    frame = client.history_frame()
    assert list(frame.columns) == list(COLUMNS)
    assert frame["id"].tolist() == ["f", "f", "r"]
    assert frame["rows"].tolist()[:2] == [3, 4]


def test_progress_is_shown_on_a_terminal_only() -> None:
    """Bars where somebody looks; not a character where nobody does, or where it is not wanted."""
    running = SnapshotStatus(
        "q", "running", collections=(CollectionStatus("shop.orders", "running", rows=5, estimated=10),)
    )
    for terminal, wanted in ((True, True), (False, True), (True, False)):
        stream = StringIO()
        with showing(wanted, Console(file=stream, force_terminal=terminal, force_jupyter=False)) as show:
            show(running)
        assert ("shop.orders" in stream.getvalue()) is (terminal and wanted)


def test_signals_go_through_kafka(kafka: Any, topic: str, mongo_client: Client, database: str) -> None:
    """They reach whoever reads the topic. The outcome is read from the status collection, by who knows it."""
    client = SnapshotClient.over_kafka(kafka.bootstrap, topic, PREFIX)
    client.execute("shop.orders", keys=[5], id="k")
    with pytest.raises(NoStatusCollection, match="signal_collection="):
        client.wait("k")
    channel = KafkaRig(kafka, topic).open()
    (received,) = polled(channel, 1)
    channel.close()
    assert isinstance(received.action, ExecuteSnapshot)
    assert (received.action.id, received.action.keys) == ("k", ('{"$numberInt": "5"}',))
    knowing = SnapshotClient.over_kafka(
        kafka.bootstrap, topic, PREFIX, client=mongo_client, signal_collection=f"{database}.signals"
    )
    assert knowing.history() == []
