"""What an engine's topics are: names, brokers, the form of records, free of how they were configured.

`client` is what Spark's Kafka sink is given: properties of Kafka's Java client by its own names, as Kafka Connect takes
them under ``producer.override.*``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.connect.topic_names import TopicNames

_DEFAULTS = {
    "acks": "all",
    "enable.idempotence": "true",  # no record twice, none out of order, within one attempt
    "max.block.ms": "10000",
    "request.timeout.ms": "10000",
    "delivery.timeout.ms": "30000",
}
OURS = {
    "bootstrap.servers": "use engine.topics.bootstrap.servers",
    "key.serializer": "keys are JSON",
    "value.serializer": "values are JSON",
    "transactional.id": "a repeated stretch is sent again, not taken back",
    "interceptor.classes": "Spark's sink takes none",
}
"""Properties of a producer that are not passed through, each with the reason."""


@dataclass(frozen=True, slots=True)
class TopicsConfig:
    """``producer``: properties of Kafka's client, which may hold secrets. ``key_schemas`` and ``value_schemas``:
    whether records have their schemas with them. ``tombstones``: whether a delete is followed by one. ``max_bytes``:
    what may wait, as bytes of the outbox's files. ``heartbeat_ms``: a heartbeat this often at most; 0 is never.
    ``transactions``: whether there is a topic of them."""

    names: TopicNames
    bootstrap_servers: str
    producer: Mapping[str, str] = field(default_factory=dict, repr=False)
    key_schemas: bool = True
    value_schemas: bool = True
    tombstones: bool = True
    max_bytes: int = 10 << 30
    heartbeat_ms: int = 0
    transactions: bool = False

    @property
    def server_name(self) -> str:
        """What records call the source."""
        return self.names.prefix

    def client(self) -> dict[str, str]:
        """The producer's properties: what is given wins over the defaults."""
        return {**_DEFAULTS, **self.producer, "bootstrap.servers": self.bootstrap_servers}

    @property
    def delivery_seconds(self) -> float:
        """After this long a record that was not taken is given up by the client, and can't arrive any more."""
        return int(self.client()["delivery.timeout.ms"]) / 1_000
