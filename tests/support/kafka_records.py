"""What lies in a Kafka topic, read by a client of its own."""

from __future__ import annotations

import uuid
from typing import Any


def records_of(kafka: Any, topic: str) -> int:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "count"})
    try:
        _, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
        return int(high)
    finally:
        consumer.close()


def consumed(kafka: Any, topic: str, count: int) -> list[Any]:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    try:
        found: list[Any] = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), timeout=60)
            assert messages, f"{len(found)} of {count} records"
            assert all(message.error() is None for message in messages)
            found += messages
        return found
    finally:
        consumer.close()
