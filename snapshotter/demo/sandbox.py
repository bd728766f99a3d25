"""A MongoDB with a small shop, and a Kafka broker where one is wanted: to try first steps on (docs/first-steps.md).

The environment variables that it gives are all that a configuration needs. Orders are the demo's; customers have whole
numbers for ids, so that ranges of them can be typed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from pymongo import MongoClient

from snapshotter.demo.shop import COLLECTION, DATABASE, load
from snapshotter.testing.kafka import start_kafka
from snapshotter.testing.mongodb import start_mongodb

CUSTOMERS = "customers"
_CUSTOMERS = 100
SIGNAL_TOPIC = f"{DATABASE}-signal"


@contextmanager
def sandbox(orders: int, *, kafka: bool) -> Iterator[dict[str, str]]:
    """Yield the environment variables that say where everything is; all of it is gone after the block.

    A shop that is there already (on a MongoDB that was given by address) is left as it is. Raises
    MongoUnavailableError, KafkaUnavailableError, ServerStartError.
    """
    with ExitStack() as stack:
        uri = stack.enter_context(start_mongodb()).uri
        _fill(uri, orders)
        found = {"MONGODB_URI": uri}
        if kafka:
            broker = stack.enter_context(start_kafka())
            broker.create_topic(SIGNAL_TOPIC)
            found["KAFKA_BROKERS"] = broker.bootstrap
        yield found


def _fill(uri: str, orders: int) -> None:
    with MongoClient[dict[str, Any]](uri) as client:
        shop = client[DATABASE]
        if shop[COLLECTION].find_one() is None:
            for _ in load(uri, orders):
                pass
        if shop[CUSTOMERS].find_one() is None:
            shop[CUSTOMERS].insert_many(
                [{"_id": n, "name": f"customer {n}", "since": 2015 + n % 10} for n in range(_CUSTOMERS)]
            )
