"""The demo's shop: orders of about 300 bytes, and people who keep changing them.

Everything is made from a seed, so two demos of one size load the same shop.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from typing import Any

from bson import Decimal128, ObjectId
from pymongo import DeleteOne, InsertOne, MongoClient, ReplaceOne, UpdateOne

DATABASE = "shop"
COLLECTION = "orders"
_SEED = 20_240_601
_START = datetime(2024, 6, 1, tzinfo=UTC)
_CITIES = ("Berlin", "Lyon", "Porto", "Gdańsk", "Malmö", "Graz", "Turin", "Gent")
_STATES = ("new", "paid", "packed", "shipped", "delivered", "returned")
_ARTICLES = ("tea", "kettle", "cup", "spoon", "honey", "lemon", "biscuits", "tray")
_LOAD_BATCH = 5_000
_BULK = 100


def order_id(number: int) -> ObjectId:
    """The id of the order of this number: ascending, like ids that MongoDB makes."""
    moment = int(_START.timestamp()) + number // 50
    return ObjectId(moment.to_bytes(4, "big") + number.to_bytes(8, "big"))


def order(number: int, version: int = 0) -> dict[str, Any]:
    """One order: a nested address, one to three items, dates and decimals."""
    chance = random.Random(_SEED * 1_000_003 + number * 31 + version)
    items = [
        {
            "sku": f"{chance.choice(_ARTICLES)}-{chance.randrange(1000):03d}",
            "quantity": chance.randrange(1, 6),
            "price": Decimal128(f"{chance.randrange(100, 9_999) / 100:.2f}"),
        }
        for _ in range(1 + chance.randrange(3))
    ]
    created = _START + timedelta(seconds=number, milliseconds=chance.randrange(1000))
    document: dict[str, Any] = {
        "_id": order_id(number),
        "customer": chance.randrange(50_000),
        "status": chance.choice(_STATES),
        "created": created,
        "version": version,
        "address": {
            "street": f"Street {chance.randrange(400)}",
            "city": chance.choice(_CITIES),
            "zip": "10115",
        },
        "items": items,
        "paid": chance.random() < 0.8,
    }
    if chance.random() < 0.3:
        document["note"] = "leave it with the neighbours"
    return document


def load(uri: str, documents: int) -> Iterator[int]:
    """Fill the shop; yields how many orders there are after each batch."""
    with MongoClient[dict[str, Any]](uri) as client:
        orders = client[DATABASE][COLLECTION]
        for first in range(0, documents, _LOAD_BATCH):
            last = min(first + _LOAD_BATCH, documents)
            orders.insert_many([order(n) for n in range(first, last)], ordered=False)
            yield last


def changes(chance: random.Random, documents: int, next_number: int) -> tuple[list[Any], int]:
    """A bulk of changes, chosen by ``chance``: inserts, updates, replaces, deletes, and orders deleted and made again.

    It changes orders whose numbers are below ``documents``, and inserts from ``next_number`` on; the next number that
    is free comes with it. The bulk must be written in order.
    """
    operations: list[Any] = []
    touched: set[int] = set()
    while len(operations) < _BULK:
        number = chance.randrange(documents)
        if number in touched:
            continue
        touched.add(number)
        kind = chance.random()
        key = {"_id": order_id(number)}
        if kind < 0.25:
            operations.append(InsertOne(order(next_number)))
            next_number += 1
        elif kind < 0.75:
            operations.append(
                UpdateOne(key, {"$set": {"status": chance.choice(_STATES)}, "$inc": {"version": 1}})
            )
        elif kind < 0.85:
            operations.append(ReplaceOne(key, order(number, version=chance.randrange(1, 1000)), upsert=True))
        elif kind < 0.95:
            operations.append(DeleteOne(key))
        else:
            operations += [DeleteOne(key), InsertOne(order(number, version=chance.randrange(1, 1000)))]
    return operations, next_number


def write(uri: str, documents: int, rate: int, stop: Event, written: Synchronized[int]) -> None:
    """Change the first ``documents`` orders of the shop at ``uri``, about ``rate`` a second, until ``stop`` is set.
    ``written`` counts the changes. Runs in a process of its own."""
    chance = random.Random(_SEED)
    next_number = documents
    with MongoClient[dict[str, Any]](uri) as client:
        orders = client[DATABASE][COLLECTION]
        due = time.monotonic()
        while not stop.is_set():
            operations, next_number = changes(chance, documents, next_number)
            # In order, because an order may be deleted and made again in one bulk.
            orders.bulk_write(operations, ordered=True)
            written.value += len(operations)
            # Behind by more than a second, it does not make up for the rest: that would be a burst.
            due = max(due + len(operations) / rate, time.monotonic() - 1.0)
            stop.wait(max(0.0, due - time.monotonic()))


@dataclass(slots=True)
class Writer:
    """A process that keeps changing orders."""

    uri: str
    documents: int
    rate: int
    _stop: Event = field(init=False)
    _written: Synchronized[int] = field(init=False)
    _process: BaseProcess = field(init=False)

    def __post_init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._stop = context.Event()
        self._written = context.Value("l", 0)
        arguments = (self.uri, self.documents, self.rate, self._stop, self._written)
        self._process = context.Process(target=write, args=arguments, daemon=True)

    def start(self) -> None:
        self._process.start()

    @property
    def written(self) -> int:
        return self._written.value

    def stop(self) -> int:
        """Stop and return how many changes were written. Raises if the writer had died before."""
        died = not self._process.is_alive()
        self._stop.set()
        self._process.join(10)
        if died or self._process.exitcode != 0:
            raise RuntimeError(f"the demo's writer ended with exit code {self._process.exitcode}")
        return self.written
