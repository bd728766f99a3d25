"""Starts that fail before any run has begun, and are tried again where `engine.auto.restart.enabled` says so."""

from __future__ import annotations

import json
import threading

import pytest

from snapshotter.errors import Stopped
from snapshotter.outbox.table import Outbox
from snapshotter.reporting.status import STATUS_FILE, EngineState
from snapshotter.state.storage import StorageError
from snapshotter.testing.kafka import KafkaBroker
from snapshotter.testing.processes import wait_until
from tests.integration.test_engine_failures import restarting, status, until
from tests.integration.test_engine_topics import with_topics
from tests.support.engines import SECONDS, Lab, lab
from tests.support.kafka_records import consumed

__all__ = ["lab"]

pytestmark = pytest.mark.guard


def test_a_start_that_fails_is_tried_again(lab: Lab) -> None:
    """Where the engine's state belongs lies a file: it waits without a status. Once that is gone it starts by itself,
    reads what is there, and keeps the count."""
    lab.with_options("cluster_time", snapshot__mode="initial")
    lab.tune = restarting(minute_ms=250.0, most=None)
    lab.collection("orders").insert_one({"_id": 1})
    engine = lab.engine()
    lab.state.parent.parent.mkdir(parents=True)
    lab.state.parent.write_text("in the way")
    recovery = engine.engine.recovery

    def remove() -> None:
        wait_until(lambda: recovery.restarts >= 2, "a second restart", seconds=SECONDS)
        lab.state.parent.unlink()

    helper = threading.Thread(target=remove)
    helper.start()
    with engine:
        helper.join()
        engine.wait("initial", SECONDS)
        until(lab, "health", lambda s: s.health == "Active" and s.error is None)
    assert json.loads((lab.state / "restarts.json").read_text())["last_ms"] is not None
    lab.assert_equal("orders")


def test_a_mongodb_that_stays_away_at_the_start_is_said_in_the_status(lab: Lab) -> None:
    """Attempts to reconnect are used up: the engine takes its name, is broken, and says when it starts again. A stop
    ends the wait."""
    lab.with_options("cluster_time", snapshot__mode="no_data", connect__max__attempts=1)
    lab.options["mongodb.connection.string"] = (
        "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200&directConnection=true"
    )
    lab.tune = restarting(minute_ms=3_600_000.0)
    engine = lab.engine()
    ended: list[BaseException] = []

    def start() -> None:
        try:
            engine.start()
        except Stopped as stopped:
            ended.append(stopped)

    thread = threading.Thread(target=start)
    thread.start()
    wait_until((lab.state / STATUS_FILE).exists, "a status", seconds=SECONDS)
    found = until(
        lab, "the wait", lambda s: s.restarts is not None and s.restarts.count == 1 and s.restarts.next_at
    )
    assert (found.state, found.health) == (EngineState.FAILED, "Broken")
    assert found.error is not None
    assert found.error.condition == "source-unreachable"
    engine.engine.stop()
    thread.join(SECONDS)
    assert ended
    assert status(lab).state is EngineState.STOPPED


def test_an_outbox_that_cannot_be_opened_is_tried_again(
    lab: Lab, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storage fails twice right before the first run; then topics are fed from the first batch on."""
    (topic,) = with_topics(lab, kafka, "orders", snapshot__mode="initial")
    lab.tune = restarting(minute_ms=50.0, most=None)
    lab.collection("orders").insert_one({"_id": 1})
    original, failed = Outbox.open, []

    def fails(outbox: Outbox) -> None:
        if len(failed) < 2:
            failed.append(outbox)
            raise StorageError("cannot list 'outbox': Stale file handle")
        original(outbox)

    monkeypatch.setattr(Outbox, "open", fails)
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        (record,) = consumed(kafka, topic, 1)
        assert json.loads(record.value())["payload"]["op"] == "r"
    assert len(failed) == 2
    lab.assert_equal("orders")
