"""Notifications of a real engine: what each channel gets of a backfill, and that no channel holds up the data."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from signals.notification_channel import NotificationChannel
from signals.notifications.notification import Aggregate, Notification, Subject
from snapshotter.engine import engine as engine_module
from snapshotter.reporting.notification_table import NotificationTable
from snapshotter.reporting.status import Status
from snapshotter.testing.kafka import KafkaBroker
from tests.support.engines import SECONDS, Lab, lab, limits
from tests.support.kafka_records import consumed
from tests.support.tables import rows

__all__ = ["lab"]


SKIPPED = ("initial", "SKIPPED", {"connector_name": "shops"})
"""What is told at a start that loads nothing, before anybody listens."""


def backfilled(lab: Lab, request_id: str) -> list[Notification]:
    """A backfill of 30 documents in three chunks, and an empty collection; what a listener heard of it."""
    heard: list[Notification] = []
    lab.tune = limits(chunk_docs=10, windows=1)
    lab.collection("orders").insert_many([{"_id": n} for n in range(30)])
    lab.client[lab.database].create_collection("nothing")
    with lab.running() as engine:
        engine.on_notification(heard.append)
        engine.execute_snapshot(lab.name("orders"), lab.name("nothing"), request_id=request_id)
        engine.wait(request_id, SECONDS)
    return heard


def told(notifications: Sequence[Notification]) -> list[tuple[str, str, dict[str, str]]]:
    return [(n.id, n.type, dict(n.additional_data)) for n in notifications]


@pytest.mark.slow
def test_every_channel_is_notified_of_a_backfill_in_order(lab: Lab, kafka: KafkaBroker, topic: str) -> None:
    """STARTED, IN_PROGRESS for each chunk that landed, TABLE_SCAN_COMPLETED for each collection, COMPLETED: the same in
    the process, in the log, in the Delta table, and in the Kafka topic, under the request's id."""
    lab.with_options(
        snapshot__mode="no_data",
        notification__enabled__channels="log,delta,sink",
        notification__sink__topic__name=topic,
        notification__sink__bootstrap__servers=kafka.bootstrap,
        topic__prefix="shops",
    )
    with capture_logs() as logs:
        heard = backfilled(lab, "again-1")
    both = {"connector_name": "shops", "data_collections": f"{lab.name('orders')},{lab.name('nothing')}"}
    orders = {"current_collection_in_progress": lab.name("orders"), "maximum_key": "29"}
    scanned = {"scanned_collection": lab.name("orders"), "total_rows_scanned": "30", "status": "SUCCEEDED"}
    empty = {"scanned_collection": lab.name("nothing"), "total_rows_scanned": "0", "status": "EMPTY"}
    of_orders = [n for n in told(heard) if n[2].get("scanned_collection") != lab.name("nothing")]
    assert of_orders == [
        ("again-1", "STARTED", both),
        *(
            ("again-1", "IN_PROGRESS", both | orders | {"last_processed_key": key})
            for key in ("9", "19", "29")
        ),
        ("again-1", "TABLE_SCAN_COMPLETED", both | scanned),
        ("again-1", "COMPLETED", {"connector_name": "shops"}),
    ]
    assert ("again-1", "TABLE_SCAN_COMPLETED", both | empty) in told(heard)
    assert {n.aggregate_type for n in heard} == {"Incremental Snapshot"}

    fields = {"event", "log_level", "id", "aggregate_type", "type"}
    lines = [log for log in logs if log["event"] == "notification"]
    assert [
        (line["id"], line["type"], {k: v for k, v in line.items() if k not in fields}) for line in lines
    ] == [SKIPPED, *told(heard)]

    records = [Notification.from_json(r.value().decode()) for r in consumed(kafka, topic, 1 + len(heard))]
    assert (told(records[:1]), records[1:]) == ([SKIPPED], heard)

    table = lab.state / "notifications"
    found = sorted(rows(table), key=lambda row: row["timestamp"])
    assert [(r["id"], r["type"], dict(r["additional_data"])) for r in found] == [SKIPPED, *told(heard)]
    assert {r["engine"] for r in found} == {f"engine-{lab.database}"}
    assert [r["aggregate_type"] for r in found] == ["Initial Snapshot", *(n.aggregate_type for n in heard)]
    assert [r["timestamp"].timestamp() for r in found[1:]] == [n.timestamp_ms / 1000 for n in heard]
    columns = [(f.name, f.type) for f in DeltaTable(str(table)).schema().fields]
    assert [name for name, _ in columns] == [
        "id",
        "aggregate_type",
        "type",
        "additional_data",
        "timestamp",
        "engine",
    ]


def waiting(lab: Lab) -> dict[str, int]:
    """What the status says of each channel."""
    status = Status.from_json((lab.state / "status.json").read_text())
    return {told.name: told.waiting for told in status.notifications}


class Stuck(NotificationChannel):
    """Blocks for ever at the first notification."""

    name = "stuck"

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.released = threading.Event()

    def send(self, batch: Sequence[Notification]) -> None:
        self.reached.set()
        self.released.wait()


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stuck]:
    """A custom channel of every engine in this process, beside those that are configured."""
    made = Stuck()
    real = engine_module.open_channels

    def open_channels(*args: Any) -> list[NotificationChannel]:
        return [made, *real(*args)]

    monkeypatch.setattr(engine_module, "open_channels", open_channels)
    yield made
    made.released.set()


@pytest.mark.slow
def test_a_channel_that_blocks_for_ever_does_not_hold_up_the_data(lab: Lab, stuck: Stuck) -> None:
    """The backfill and the stream land, other channels are told, and the stop leaves the channel behind in time."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    tune = limits(chunk_docs=10, windows=1)
    lab.tune = lambda config: tune(
        replace(config, notifications=replace(config.notifications, flush_seconds=0.2))
    )
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": 0} for n in range(20)])
    heard: list[Notification] = []
    completed = threading.Event()

    def listen(notification: Notification) -> None:
        heard.append(notification)
        if notification.type == "COMPLETED":
            completed.set()

    with capture_logs() as logs, lab.running() as engine:
        engine.on_notification(listen)
        engine.execute_snapshot(lab.name("orders"), request_id="again-1")
        engine.wait("again-1", SECONDS)
        orders.update_many({}, {"$set": {"v": 1}})
        engine.catch_up(SECONDS)
        assert stuck.reached.is_set()
        assert completed.wait(SECONDS)
        (queue,) = (o for o in engine.engine.notifier.queues if o.name == "stuck")
        # The stuck one was told besides that nothing is loaded at this start, before anybody listened.
        assert queue.left >= len(heard), "it has taken none"
        engine.until("the status to say so", lambda: waiting(lab).get("stuck") == queue.left, SECONDS)
    lab.assert_equal("orders")
    assert heard[-1].type == "COMPLETED"
    assert any("left behind" in log["event"] and log["channel"] == "stuck" for log in logs)


def test_a_batch_that_was_written_already_is_not_written_twice(spark: SparkSession, tmp_path: Path) -> None:
    """When the answer to a commit is lost, the channel is given the batch again: the table has it once, and what
    follows is there."""
    channel = NotificationTable(spark, str(tmp_path / "told"), "shop")
    subject = Subject("a", Aggregate.INCREMENTAL, "shop", ("shop.orders",))
    first, second = [subject.started(1), subject.paused(2)], [subject.resumed(3)]
    channel.send(first)
    channel._number -= 1  # as after an error that came once the commit was there
    channel.send(first)
    channel.send(second)
    found = sorted(rows(tmp_path / "told"), key=lambda row: row["timestamp"])
    assert [r["type"] for r in found] == ["STARTED", "PAUSED", "RESUMED"]
    assert found[1]["timestamp"] - found[0]["timestamp"] == timedelta(milliseconds=1)
