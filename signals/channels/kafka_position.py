"""Where a Kafka topic is read from, found out at the broker when a channel begins.

All that may take long, or fail, is in ``find_start``: it runs on another thread than the engine's loop, and talks to
the broker through clients of its own.

The order: our own stored position; without one, what the consumer group has committed (so whoever comes from Debezium
goes on where that stopped); without that, the beginning of the topic, as Debezium does, or its end if
``signal.consumer.auto.offset.reset`` says latest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from signals.channels.kafka_options import KafkaSignalOptions

PARTITION = 0
_SECONDS = 3.0
_CONSUMERS_OWN = frozenset(
    {
        "group.id",
        "auto.offset.reset",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
    }
)


class TopicUnusable(Exception):
    """No signals can come by the topic as it is; the message says what to do."""


@dataclass(frozen=True, slots=True)
class KafkaPosition:
    """The next offset to read, in the topic that had this id.

    A topic that was deleted and made anew begins at 0 again: it is another ``generation``.
    """

    topic_id: str
    next: int
    generation: int = 0

    def to_json(self, topic: str) -> str:
        """As it is kept; with the topic's name, because another topic's offset says nothing."""
        fields = {"topic": topic, "topic_id": self.topic_id, "next": self.next, "generation": self.generation}
        return json.dumps(fields) + "\n"

    @classmethod
    def from_json(cls, text: str, topic: str) -> KafkaPosition | None:
        """What was kept of this topic; None where it was of another."""
        fields = json.loads(text)
        return cls(**fields) if fields.pop("topic") == topic else None


@dataclass(frozen=True, slots=True)
class Start:
    """Read from ``position`` on. ``lost``: offsets that were to be read next and are gone, as ``(from, up to)``."""

    position: KafkaPosition
    lost: tuple[int, int] | None = None


def find_start(client: Mapping[str, Any], options: KafkaSignalOptions, wanted: KafkaPosition | None) -> Start:
    """Look the topic of ``options`` up, and say where to read on. Takes seconds while the broker does not answer.

    ``client`` is librdkafka's configuration of the consumer. ``wanted``: the next offset to read, None where nothing
    has been stored; then the module's order decides. Raises TopicUnusable, and the client's KafkaException.
    """
    import confluent_kafka

    topic_id = _topic_id(client, options.topic)
    consumer = confluent_kafka.Consumer(dict(client))
    try:
        here = confluent_kafka.TopicPartition(options.topic, PARTITION)
        low, high = consumer.get_watermark_offsets(here, timeout=_SECONDS)
        if wanted is not None:
            return continued(wanted, topic_id, low, high)
        (committed,) = consumer.committed([here], timeout=_SECONDS)
        if low <= committed.offset <= high:
            return Start(KafkaPosition(topic_id, committed.offset))
        return Start(KafkaPosition(topic_id, high if options.from_end else low))
    finally:
        consumer.close()


def continued(wanted: KafkaPosition, topic_id: str, low: int, high: int) -> Start:
    """Where to go on from ``wanted`` in a topic that now has the offsets from ``low`` to before ``high``.

    Where ``topic_id`` is not that of ``wanted``, the topic was made anew: it is read from ``low``, and nothing counts
    as lost.
    """
    if wanted.topic_id != topic_id:
        return Start(KafkaPosition(topic_id, low, wanted.generation + 1))
    if wanted.next < low:
        return Start(replace(wanted, next=low), lost=(wanted.next, low))
    if wanted.next > high:  # the broker lost its own end: an unclean election of a leader, a restored disk
        return Start(KafkaPosition(topic_id, low, wanted.generation + 1), lost=(high, wanted.next))
    return Start(wanted)


def _topic_id(client: Mapping[str, Any], topic: str) -> str:
    from confluent_kafka import KafkaError, KafkaException, TopicCollection
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({name: value for name, value in client.items() if name not in _CONSUMERS_OWN})
    try:
        found = admin.describe_topics(TopicCollection([topic]), request_timeout=_SECONDS)[topic].result()
    except KafkaException as error:
        admin.poll(0)  # why there is no answer goes to the client's `error_cb`
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise
        raise TopicUnusable(
            f"the topic {topic!r} does not exist yet; create it with one partition, or name another in "
            "signal.kafka.topic"
        ) from error
    if len(found.partitions) != 1:
        raise TopicUnusable(
            f"the topic {topic!r} has {len(found.partitions)} partitions, and signals have an order only in one: "
            "make a topic with one partition, and name it in signal.kafka.topic"
        )
    return str(found.topic_id)
