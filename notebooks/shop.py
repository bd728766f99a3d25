"""What the notebooks share: a MongoDB, a shop's orders, people who keep changing them, and one look of all plots.

Orders are made from their number, so every run has the same ones; their ids are whole numbers, which are easy to name.
"""

from __future__ import annotations

import os
import random
import threading
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

import matplotlib.pyplot as plt
from pymongo import DeleteOne, InsertOne, UpdateOne
from pymongo.collection import Collection

from snapshotter import log
from snapshotter.testing.mongodb import MongoDeployment, start_mongodb

Orders = Collection[dict[str, Any]]

BLUE, ORANGE, GREEN, GREY = "#1f5a85", "#d9762b", "#2f8f6b", "#b4bcc6"
STATES = ("new", "paid", "packed", "shipped", "delivered", "returned")
_ARTICLES = ("tea", "kettle", "cup", "spoon", "honey", "lemon", "biscuits", "tray")
_OPENED = datetime(2024, 6, 1, 8, tzinfo=UTC)
_BULK, _BULKS_A_SECOND = 40, 10

_ours: list[MongoDeployment] = []


def mongodb_uri() -> str:
    """The MongoDB at ``MONGODB_URI`` if that is set; else one of our own, which ends with this process."""
    given = os.environ.get("MONGODB_URI")
    if given:
        return given
    if not _ours:
        _ours.append(start_mongodb())
    return _ours[0].uri


def quiet(level: str = "warning") -> None:
    """The engine logs what it does; in a notebook only warnings are of interest, if these. Plots get one look."""
    log.set_up(level=level)
    plt.rcParams.update(
        {
            "figure.figsize": (8.5, 3.6),
            "figure.dpi": 90,
            "figure.constrained_layout.use": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": "medium",
            "axes.titlelocation": "left",
            "legend.frameon": False,
        }
    )


def order(number: int) -> dict[str, Any]:
    """One order, with one to three lines."""
    chance = random.Random(number)
    lines: list[dict[str, Any]] = [
        {
            "article": chance.choice(_ARTICLES),
            "quantity": chance.randint(1, 5),
            "price": chance.randint(2, 60) + 0.5,
        }
        for _ in range(chance.randint(1, 3))
    ]
    return {
        "_id": number,
        "customer": f"C{chance.randrange(2_000):04d}",
        "status": chance.choice(STATES),
        "placed": _OPENED + timedelta(minutes=number),
        "lines": lines,
        "total": sum(line["quantity"] * line["price"] for line in lines),
    }


class Shopkeepers:
    """People who place, change and cancel orders, about 400 times a second, for as long as the ``with`` block lasts.

    Of five changes three set another status, one places an order, one cancels one. ``changes`` counts them.
    """

    def __init__(self, orders: Orders) -> None:
        self.changes = 0
        self._orders = orders
        self._next = self._first = orders.estimated_document_count() + 1
        self._chance = random.Random(7)
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="shopkeepers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        try:
            while not self._stop.wait(1 / _BULKS_A_SECOND):
                self._orders.bulk_write([self._change(n) for n in range(_BULK)])
                self.changes += _BULK
        except Exception as error:  # noqa: BLE001 - raised at the end of the block
            self._error = error

    def _change(self, place: int) -> InsertOne[dict[str, Any]] | UpdateOne | DeleteOne:
        known = {"_id": self._chance.randrange(1, self._first)}
        if place % 5 == 0:
            self._next += 1
            return InsertOne(order(self._next - 1))
        if place % 5 == 1:
            return DeleteOne(known)
        return UpdateOne(known, {"$set": {"status": self._chance.choice(STATES)}})
