"""What the trailer of a batch counts: events as they came, by namespace and by operation."""

from __future__ import annotations

import json
from typing import Any

import bson

from streaming.positions import ClusterTime
from streaming.source.change_events import RowBuilder
from streaming.source.places import Places
from streaming.source.raw_events import Event, fields_of


def event(operation: str, collection: str, **fields: Any) -> Event:
    place = {"db": "shop", "coll": collection}
    raw = bson.encode({"ns": place, "documentKey": {"_id": 1}, **fields})
    return operation.encode(), 1, 100, fields_of(raw)


def trailer_of(*events: Event) -> dict[str, Any]:
    places = Places(lambda namespace: namespace.collection != "hidden")
    rows = RowBuilder(places, wide=False)
    made = [*rows.add(rows.numbered(events)), *rows.rest()]
    assert sum(batch.num_rows for batch in made) == places.events
    (last,) = rows.trailer(ClusterTime(9, 1), None).to_pylist()
    return dict(json.loads(last["trailer"]))


def test_events_are_counted_by_collection_and_operation() -> None:
    """A replacement is an update. What is not captured does not count; a drop counts as an event, and as no
    operation."""
    found = trailer_of(
        event("insert", "orders"),
        event("insert", "orders"),
        event("replace", "orders"),
        event("update", "orders"),
        event("delete", "items"),
        event("drop", "items"),
        event("insert", "hidden"),
    )
    assert found["events"] == 6
    assert found["namespaces"] == {"shop.items": 2, "shop.orders": 4}
    assert found["operations"] == {"shop.items": {"d": 1}, "shop.orders": {"c": 2, "u": 2}}


def test_a_rename_takes_no_counts_along() -> None:
    """Neither of where it came from, nor of where it goes to, before and after it."""
    found = trailer_of(
        event("insert", "orders"),
        event("insert", "old"),
        event("rename", "orders", to={"db": "shop", "coll": "old"}),
        event("rename", "hidden", to={"db": "shop", "coll": "orders"}),
        event("insert", "old"),
    )
    assert found["namespaces"] == {"shop.hidden": 1, "shop.old": 2, "shop.orders": 2}
    assert found["operations"] == {"shop.old": {"c": 2}, "shop.orders": {"c": 1}}
