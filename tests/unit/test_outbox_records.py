"""Envelopes as records of the outbox: what follows a delete, and the place of each in the stream."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from snapshotter.outbox.records import _records
from streaming.connect.topic_names import TopicNames
from streaming.events.envelope import SCHEMA

SOURCE = {
    "version": "1",
    "connector": "mongodb",
    "name": "shop",
    "ts_ms": 1,
    "db": "inventory",
    "collection": "orders",
    "ord": 1,
}


def envelope(op: str, order: int | None, **more: Any) -> dict[str, Any]:
    """Of the document 7, at one time."""
    return {"key": "7", "op": op, "source": SOURCE, "_cluster_time": 5, "_order": order, "ts_ms": 2, **more}


def records(*envelopes: dict[str, Any], tombstones: bool) -> list[dict[str, Any]]:
    batch = pa.RecordBatch.from_pylist(list(envelopes), to_arrow_schema(SCHEMA))
    (found,) = _records(TopicNames("shop"), tombstones, 3, [batch])
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


@pytest.mark.parametrize("tombstones", [True, False])
def test_a_delete_has_a_tombstone_where_they_are_wanted(tombstones: bool) -> None:
    """`tombstones.on.delete`: the same key without a value, right behind its delete and before whatever follows; no
    other operation has one, and without the option the delete is all."""
    found = records(
        envelope("c", 0), envelope("d", 1), envelope("c", 2), envelope("r", None), tombstones=tombstones
    )
    told = [None if row["value"] is None else json.loads(row["value"])["op"] for row in found]
    assert told == (["c", "d", None, "c", "r"] if tombstones else ["c", "d", "c", "r"])
    assert {row["key"] for row in found} == {b'{"id":"7"}'}
    assert {(row["topic"], row["stretch"]) for row in found} == {("shop.inventory.orders", 3)}
    places = [row["place"] for row in found]
    assert places == sorted(set(places)), "each has a place of its own, in the order of the stream"
