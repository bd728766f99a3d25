"""Notifications as records of a Kafka topic: Debezium's ``sink`` channel.

Key ``{"id"}``, value ``{"id", "aggregate_type", "type", "additional_data", "timestamp"}``, both JSON without a schema.
All records of one request have one key, so they keep their order within a partition.

Debezium hands its records to Kafka Connect, which knows the brokers. Here they must be named, and other properties of a
producer are passed through to librdkafka. Its names are the Java client's but for a few; those are refused, with what
to use instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from signals.kafka_delivery import CLIENT_LOG, NotSent, empty, undelivered
from signals.notifications.channel import NotificationChannel
from signals.notifications.notification import Notification

_DEFAULTS = {
    "acks": "all",
    "enable.idempotence": "true",  # no record twice, none out of order, within one attempt
    "message.timeout.ms": "10000",
}
# Names of the Java client that librdkafka does not know, or that would have no effect; it explains the others itself.
_INSTEAD = {
    "bootstrap.servers": "use notification.sink.bootstrap.servers",
    "key.serializer": "keys are JSON",
    "value.serializer": "values are JSON",
    "interceptor.classes": "it is a Java class",
    "partitioner.class": "use partitioner",
    "buffer.memory": "use queue.buffering.max.kbytes",
    "max.block.ms": "the producer never blocks here",
    "max.request.size": "use message.max.bytes",
    "ssl.keystore.type": "use ssl.keystore.location (PKCS#12), or ssl.certificate.location and ssl.key.location (PEM)",
}


@dataclass(frozen=True, slots=True)
class KafkaNotificationOptions:
    """Where to, and how. ``producer`` holds librdkafka's properties, by their own names."""

    topic: str
    bootstrap_servers: str
    client_id: str
    producer: Mapping[str, str] = field(default_factory=dict)

    def properties(self) -> dict[str, str]:
        """The producer's configuration: what is given wins over the defaults."""
        given = dict(self.producer)
        # Two names of one property: the Java client's, which more people know, and librdkafka's.
        if "delivery.timeout.ms" in given:
            given["message.timeout.ms"] = given.pop("delivery.timeout.ms")
        ours = {"bootstrap.servers": self.bootstrap_servers}
        return {**_DEFAULTS, "client.id": self.client_id, **given, **ours}

    def delivery_seconds(self) -> float:
        """After this long an attempt has succeeded or failed."""
        return int(self.properties()["message.timeout.ms"]) / 1000 + 1.0


def refused_properties(producer: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Properties that cannot be passed through, each with what to use instead."""
    yield from ((name, _INSTEAD[name]) for name in producer if name in _INSTEAD)


class KafkaNotifications(NotificationChannel):
    """Making one connects to nothing; raises ValueError for properties that librdkafka refuses."""

    name = "sink"

    def __init__(self, options: KafkaNotificationOptions) -> None:
        from confluent_kafka import KafkaException, Producer  # an extra: only senders to Kafka need it

        self._topic = options.topic
        self._seconds = options.delivery_seconds()
        try:
            self._producer: Any = Producer(options.properties(), logger=CLIENT_LOG)
        except KafkaException as error:
            raise ValueError(f"notification.producer.*: Kafka's client refuses these: {error}") from error

    def send(self, batch: Sequence[Notification]) -> None:
        records = [
            {"key": n.key_to_json().encode(), "value": n.to_json().encode(), "timestamp": n.timestamp_ms}
            for n in batch
        ]
        try:
            missing = undelivered(self._producer, self._topic, records, self._seconds)
        except BufferError as error:
            raise NotSent(f"topic {self._topic}: the producer's own queue is full: {error}") from error
        if missing is not None:
            count, why = missing
            why = why or f"no answer within {self._seconds:.0f} s"
            raise NotSent(f"topic {self._topic}: {count} of {len(batch)} not delivered: {why}")

    def close(self) -> None:
        empty(self._producer)
