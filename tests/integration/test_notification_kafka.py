"""The channel ``sink`` on a real broker."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

import pytest

from signals.notifications.kafka import KafkaNotificationOptions, KafkaNotifications, NotSent
from signals.notifications.notification import Aggregate, Subject
from snapshotter.configuration.notification_config import NotificationConfig
from snapshotter.core.values.effects import Announce
from snapshotter.reporting.delivery_queue import DeliveryQueue
from snapshotter.reporting.notices import Notifier
from tests.support.kafka_records import consumed, records_of

pytest.importorskip("snapshotter.testing.kafka", reason="no broker for tests here")


def test_notifications_are_records_of_the_topic(kafka: Any) -> None:
    """In order, each with the id as its key, the documented value, and the notification's own time."""
    topic = f"told-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic)
    channel = KafkaNotifications(KafkaNotificationOptions(topic, kafka.bootstrap, "test"))
    subject = Subject("again-1", Aggregate.INCREMENTAL, "shop", ("shop.orders",))
    batch = [subject.started(1_000), subject.in_progress(2_000, "shop.orders"), subject.completed(3_000)]
    channel.send(batch)
    channel.close()
    records = consumed(kafka, topic, 3)
    assert [json.loads(r.key()) for r in records] == [{"id": "again-1"}] * 3
    assert [r.value().decode() for r in records] == [n.to_json() for n in batch]
    assert [r.timestamp()[1] for r in records] == [1_000, 2_000, 3_000]


def test_the_fan_out_reaches_the_topic_before_it_ends(kafka: Any) -> None:
    """What waits at a clean stop is sent."""
    topic = f"told-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic)
    notifier = Notifier(NotificationConfig("shop", flush_seconds=60))
    notifier.open([KafkaNotifications(KafkaNotificationOptions(topic, kafka.bootstrap, "test"))])
    for number in range(100):
        notifier.announce(Announce("COMPLETED", f"r{number}"), None)
    notifier.close()
    assert {json.loads(r.key())["id"] for r in consumed(kafka, topic, 100)} == {f"r{n}" for n in range(100)}


@pytest.mark.slow
def test_what_a_dead_broker_did_not_take_is_sent_once_when_it_is_back(kafka: Any) -> None:
    """A failed batch leaves nothing in the client that would be delivered beside the one that is sent again."""
    topic = f"told-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic)
    properties = {"message.timeout.ms": "2000", "reconnect.backoff.max.ms": "200", "log_level": "0"}
    channel = KafkaNotifications(KafkaNotificationOptions(topic, kafka.bootstrap, "test", properties))
    subject = Subject("again-1", Aggregate.INCREMENTAL, "shop")
    channel.send([subject.started(1)])
    kafka.kill()
    try:
        with pytest.raises(NotSent):
            channel.send([subject.paused(2), subject.resumed(3)])
    finally:
        kafka.start()
    queue = DeliveryQueue(channel, capacity=10, retry_seconds=0.1)
    for notification in [subject.paused(2), subject.resumed(3), subject.completed(4)]:
        queue.offer(notification)
    types = [json.loads(r.value())["type"] for r in consumed(kafka, topic, 4)]
    queue.closing()
    queue.await_end(time.monotonic() + 60)
    assert types == ["STARTED", "PAUSED", "RESUMED", "COMPLETED"]
    assert records_of(kafka, topic) == 4
