"""Records handed to Kafka, and waited for: shared by whoever sends there.

A producer that could not deliver is purged: otherwise it would go on trying in the background, and deliver
besides what its caller sends again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

CLIENT_LOG = logging.getLogger("librdkafka")
"""What Kafka's client says: without a logger it writes to standard error, past everybody. What is wrong our own errors
say, so these are for those who want them."""
CLIENT_LOG.addHandler(logging.NullHandler())

Record = dict[str, Any]
"""What ``Producer.produce`` takes besides the topic: key, value, and timestamp in milliseconds where there is one."""


class NotSent(Exception):
    """Kafka has not taken what was sent; the message says why. It may be sent again."""


def undelivered(
    producer: Any, topic: str, records: Iterable[Record], seconds: float
) -> tuple[int, str | None] | None:
    """Send ``records`` to ``topic`` and wait for at most ``seconds``: None once Kafka has all of them; else how many it
    has not, and the first reason (None: no answer in time).

    ``producer`` is confluent_kafka's. Nobody else may have records in it: a failure purges theirs too. Raises
    BufferError where its own queue is full. Either way nothing is left in it.
    """
    from confluent_kafka import KafkaException

    errors: list[str] = []
    waiting = list(records)
    taken = 0
    try:
        for record in waiting:
            producer.produce(
                topic,
                **record,
                on_delivery=lambda error, _: errors.append(str(error)) if error is not None else None,
            )
            taken += 1
        left = producer.flush(seconds)
    except BufferError:
        empty(producer)
        raise
    except (
        KafkaException
    ) as error:  # at once, where it knows that the broker refuses: not this user's topic, say
        empty(producer)
        return len(waiting) - taken + len(errors), str(error)
    if not left and not errors:
        return None
    empty(producer)
    return max(left, len(errors)), errors[0] if errors else None


def empty(producer: Any) -> None:
    """Drop what it has not delivered."""
    producer.purge(in_queue=True, in_flight=True)
    producer.flush(1.0)  # serves the callbacks of what was purged
