"""The demo's shop: the same each time, and as large as it says."""

from __future__ import annotations

import random
from collections import Counter

import bson
from pymongo import DeleteOne, InsertOne, ReplaceOne, UpdateOne

from snapshotter.demo.shop import changes, order, order_id


def test_orders_are_made_from_their_number() -> None:
    """Twice the same order; another version differs, under the same id."""
    assert order(7) == order(7)
    assert order(7) != order(8)
    assert order(7, version=2)["_id"] == order(7)["_id"] == order_id(7)
    assert order(7, version=2) != order(7)


def test_ids_ascend_and_are_unique() -> None:
    """As ObjectIds that MongoDB makes."""
    ids = [order_id(number) for number in range(5_000)]
    assert ids == sorted(set(ids))


def test_an_order_is_about_three_hundred_bytes() -> None:
    """With nested documents, arrays, dates and decimals; some have a note."""
    orders = [order(number) for number in range(500)]
    sizes = [len(bson.encode(document)) for document in orders]
    assert 250 < sum(sizes) / len(sizes) < 450
    assert {type(document["items"][0]["price"]).__name__ for document in orders} == {"Decimal128"}
    assert len({frozenset(document) for document in orders}) == 2


def test_changes_are_of_every_kind() -> None:
    """Inserts, updates, replaces, deletes, and orders that are deleted and made again in one bulk; never twice the same
    order otherwise."""
    chance = random.Random(1)
    kinds: Counter[type] = Counter()
    next_number = 1_000
    for _ in range(20):
        operations, next_number = changes(chance, 1_000, next_number)
        assert len(operations) >= 100
        kinds.update(map(type, operations))
    assert set(kinds) == {InsertOne, UpdateOne, ReplaceOne, DeleteOne}
    assert kinds[UpdateOne] > kinds[InsertOne] > kinds[ReplaceOne]
    assert changes(random.Random(2), 1_000, 5) == changes(random.Random(2), 1_000, 5)
