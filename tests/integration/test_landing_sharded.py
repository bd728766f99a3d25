"""Documents that share an `_id`, as a sharded collection may hold them: rows of their own, on values."""

from __future__ import annotations

from pathlib import Path

import bson
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from snapshotter.core.values.chunks import KeyList, KeyRange, Target
from snapshotter.landing.stale_rows import stale_rows
from snapshotter.reading.range_find import bound_of
from streaming.keys.keys import sharded_key
from streaming.positions import ClusterTime
from tests.support.histories import Change, Document, History, PlannedWindow, closing_window
from tests.support.landings import Landings, follow


def document(number: int, region: str, version: int) -> Document:
    return {"_id": number, "region": region, "v": version}


def key(number: int, region: str) -> str:
    return sharded_key(bson.encode(document(number, region, 0)), [b"region"])


def put(number: int, region: str, at: int) -> Change:
    return Change(key(number, region), "c", ClusterTime(1_000, at), 0, document(number, region, at))


IDS = [bound_of(bson.encode({"_id": number})) for number in range(5)]
TARGETS = {
    "ids": KeyList((IDS[1].past_id(), IDS[2].past_id())),
    "range": KeyRange(IDS[0], IDS[2]).of_whole_ids(),
    "closed": KeyRange(IDS[1], IDS[2], closed=True).of_whole_ids(),
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_documents_of_one_id_are_rows_of_their_own(
    spark: SparkSession, tmp_path: Path, target: Target
) -> None:
    """A window that reconciles reads and deletes all documents of its ids, each by itself, and none of another id: one
    of two that share an id is gone, the other is read; what streams meanwhile beats both."""
    found = {key(1, "us"): document(1, "us", 100), key(2, "eu"): document(2, "eu", 100)}
    window = closing_window(target, len(found), ClusterTime(1_000, 5), ClusterTime(1_000, 10))
    changes = [[], [put(2, "us", 15), put(2, "eu", 16)], [put(3, "eu", 25)]]
    ends = [ClusterTime(1_000, end) for end in (5, 20, 30)]
    last = {key(n, region): document(n, region, -1) for n in (0, 3) for region in ("eu", "us")}
    last |= {key(1, "us"): document(1, "us", 100), key(3, "eu"): document(3, "eu", 25)}
    last |= {key(2, "eu"): document(2, "eu", 16), key(2, "us"): document(2, "us", 15)}
    history = History(ClusterTime(1_000, 0), changes, ends, [PlannedWindow(window, 0, 2, found)], last)
    landings = Landings(spark, tmp_path / "table", first_load=False, reconcile=True, shard_key=("region",))
    landings.hold({key(n, region): document(n, region, -1) for n in (0, 1, 2, 3) for region in ("eu", "us")})
    follow(landings, history)


def test_what_a_replacement_may_have_left_behind(spark: SparkSession, tmp_path: Path) -> None:
    """Of the replacements in a batch, those whose id has another key: in the table, or in the batch itself."""
    landings = Landings(spark, tmp_path / "table", first_load=False)
    landings.hold({key(n, "eu"): document(n, "eu", 0) for n in range(4)})
    came = [
        ("replace", 1, "us"),
        ("replace", 2, "eu"),
        ("update", 3, "us"),
        ("insert", 5, "eu"),
        ("replace", 5, "us"),
    ]
    rows = [
        {
            "operation_type": what,
            "_key": key(n, region),
            "document_key": bson.encode({"region": region, "_id": n}),
        }
        for what, n, region in came
    ]
    schema = pa.schema(
        [("operation_type", pa.string()), ("_key", pa.string()), ("document_key", pa.binary())]
    )
    events = spark.createDataFrame(pa.Table.from_pylist(rows, schema))
    told = stale_rows([], events, landings.opened.table)
    assert sorted(told) == [(key(n, "us"), bson.encode({"region": "us", "_id": n})) for n in (1, 5)]
    assert [found[0] for found in stale_rows([], events, None)] == [key(5, "us")]
