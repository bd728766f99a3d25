"""Signals sent through a Kafka topic, as `signals.channels.kafka_channel` reads them: the key is ``topic.prefix``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signals.actions import Action, to_json
from signals.kafka_delivery import CLIENT_LOG, NotSent, undelivered

_SECONDS = 30.0


class KafkaSender:
    """Sends to ``topic`` at ``bootstrap_servers`` (``host:port``, separated by commas), under the key ``prefix``, which
    must be the engine's ``topic.prefix``. ``producer``: more of librdkafka's properties, for example for TLS. Making it
    does not contact the broker."""

    def __init__(
        self, bootstrap_servers: str, topic: str, prefix: str, producer: Mapping[str, str] | None = None
    ) -> None:
        from confluent_kafka import Producer  # an extra: only senders to Kafka need it

        self._topic = topic
        self._key = prefix.encode()
        self._where = f"topic {topic} of Kafka at {bootstrap_servers}"
        ours = {"bootstrap.servers": bootstrap_servers, "message.timeout.ms": str(int(_SECONDS * 1000))}
        self._producer: Any = Producer(
            {"enable.idempotence": "true", **(producer or {}), **ours}, logger=CLIENT_LOG
        )

    def send(self, action: Action) -> str:
        """Send the signal and return its id; Kafka has it when this returns. Raises NotSent: nobody will see it,
        and it may be sent again, also under the same id."""
        record = {"key": self._key, "value": to_json(action).encode()}
        missing = undelivered(self._producer, self._topic, [record], _SECONDS + 1.0)
        if missing is not None:
            why = missing[1] or "no answer in time"
            raise NotSent(
                f"signal {action.id!r} did not reach {self._where}: {why}; check the broker, send it again"
            )
        return action.id
