"""A batch's events as rows: the latest of each key that lands something, decoded, with what the plan does not know."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import bson
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from streaming.decode import streamed_rows
from streaming.decode.streamed_rows import EVENT_COLUMNS, decode_latest, latest_of_each_key, row_schema
from streaming.keys.ranges import key_ranges
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.observe import observe
from streaming.layouts.columns.plan import TablePlan
from tests.support.changes import EVENT_SCHEMA

PLAN = observe(bson.encode({"_id": 1, "v": 1}))
WALL = datetime(2024, 6, 1, 12, tzinfo=UTC)


def events(*rows: tuple[str, str | None, dict[str, Any] | None], first: int = 0) -> pa.RecordBatch:
    """(key, operation, document), in stream order; increments count the seconds."""
    made = [
        {
            "_key": key,
            "op": op,
            "document": None if document is None else bson.encode(document),
            "cluster_time": (1_700_000_000 << 32) + first + place,
            "wall_time": WALL if place % 2 == 0 else None,
            "ord": first + place,
        }
        for place, (key, op, document) in enumerate(rows)
    ]
    return pa.RecordBatch.from_pylist(made, schema=EVENT_SCHEMA)


def decoded(*batches: pa.RecordBatch, plan: TablePlan = PLAN) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows, and the plans of fields that were not known."""
    rows = pa.Table.from_batches(list(decode_latest(COLUMNS, plan)(iter(batches)))).to_pylist()
    texts = [row["_trailer"] for row in rows if row["_trailer"] is not None]
    return [row for row in rows if row["_trailer"] is None], texts


def test_the_latest_of_a_key_that_lands_something() -> None:
    """A later update without its document hides nothing; a delete lands; an event of no document (a drop) does not."""
    batch = events(
        ("a", "c", {"_id": 1, "v": 1}),
        ("b", "c", {"_id": 2, "v": 1}),
        ("a", "u", {"_id": 1, "v": 2}),
        ("a", "u", None),
        ("b", "d", None),
        ("c", "u", None),
        ("d", "d", None),
        ("d", "c", {"_id": 4, "v": 9}),
    )
    rows, texts = decoded(batch)
    found = {row["_key"]: (row["_op"], row["v"], row["_cluster_time"] & 0xFFFFFFFF) for row in rows}
    assert found == {"a": ("u", 2, 2), "b": ("d", None, 4), "d": ("c", 9, 7)}
    assert [TablePlan.from_json(text) for text in texts] == [TablePlan()]
    dropped = pa.Table.from_batches([events(("x", None, None))])
    assert latest_of_each_key(dropped).num_rows == 0


def test_a_key_that_changes_again_and_again_is_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As its rows come: 2,000 versions of one document of 100 kB take the memory of a few."""
    monkeypatch.setattr(streamed_rows, "_COMPACTED_FROM", 1 << 20)
    text = "x" * 100_000

    def versions() -> Iterator[pa.RecordBatch]:
        for n in range(200):
            rows = [("hot", "u", {"_id": 1, "v": 10 * n + at, "text": text}) for at in range(10)]
            yield events(*rows, (f"{n:03}", "c", {"_id": n, "v": n}), first=20 * n)

    before = pa.total_allocated_bytes()
    most = 0

    def watched() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for batch in versions():
            most = max(most, pa.total_allocated_bytes() - before)
            yield batch

    rows = pa.Table.from_batches(list(decode_latest(COLUMNS, PLAN)(watched()))).to_pylist()
    found = {row["_key"]: row["v"] for row in rows if row["_trailer"] is None}
    assert found == {"hot": 1_999, **{f"{n:03}": n for n in range(200)}}
    assert most < 10 << 20


def test_over_several_arrow_batches() -> None:
    """The latest of a key may come in another Arrow batch than the rest of it; empty ones are nothing."""
    first = events(("a", "c", {"_id": 1, "v": 1}), ("b", "c", {"_id": 2, "v": 1}))
    second = events(("a", "u", {"_id": 1, "v": 2}), first=2)
    rows, _ = decoded(first, first.slice(0, 0), second)
    assert sorted((row["_key"], row["v"]) for row in rows) == [("a", 2), ("b", 1)]
    assert decoded_nothing() == []


def decoded_nothing() -> list[pa.RecordBatch]:
    return list(decode_latest(COLUMNS, PLAN)(iter([events().slice(0, 0)])))


def test_fields_that_the_plan_does_not_know() -> None:
    """They are rescued, and told once for the partition, so that the table can grow."""
    batch = events(
        ("a", "c", {"_id": 1, "v": 1, "x": {"y": 2.5}}), ("b", "c", {"_id": 2, "v": "text", "z": True})
    )
    rows, texts = decoded(batch)
    assert [row["_rescued_data"] for row in rows] == [
        '{"/x":{"y":{"$numberDouble":"2.5"}}}',
        '{"/v":"text","/z":true}',
    ]
    (text,) = texts
    assert {column.name for column in TablePlan.from_json(text).columns} == {"x", "z"}
    grown = PLAN.merge(TablePlan.from_json(text))
    rows, texts = decoded(batch, plan=grown)
    assert [(row["x"], row["z"], row["_rescued_data"]) for row in rows] == [
        ({"y": 2.5}, None, None),
        (None, True, '{"/v":"text"}'),
    ]
    assert [TablePlan.from_json(text) for text in texts] == [TablePlan()]


def test_times() -> None:
    """The wall clock of the event, and where the server gives none, the seconds of its cluster time."""
    rows, _ = decoded(events(("a", "c", {"_id": 1}), ("b", "c", {"_id": 2})))
    assert [row["_source_ts"] for row in rows] == [WALL, datetime.fromtimestamp(1_700_000_000, UTC)]


def test_as_spark_runs_it(spark: SparkSession) -> None:
    """The schema that is declared is the one that comes, key by key what the plain function gives."""
    batch = events(*((f"k{n % 7}", "c", {"_id": n % 7, "v": n}) for n in range(50)))
    frame = spark.createDataFrame(pa.Table.from_batches([batch])).coalesce(1).select(*EVENT_COLUMNS)
    found = (
        frame.mapInArrow(decode_latest(COLUMNS, PLAN), row_schema(COLUMNS, PLAN))
        .where("_trailer is null")
        .collect()
    )
    expected, _ = decoded(batch)
    assert sorted((r["_key"], r["v"]) for r in found) == sorted((r["_key"], r["v"]) for r in expected)
    assert len(key_ranges([r["_key"] for r in found])) == 7
