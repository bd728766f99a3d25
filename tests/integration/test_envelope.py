"""Changes of a real MongoDB in the documented envelope (`streaming.events.envelope`)."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import bson
import pyarrow as pa
import pytest
from bson.decimal128 import Decimal128
from bson.objectid import ObjectId
from pymongo import MongoClient
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from streaming.events.envelope import (
    INCREMENTAL,
    SCHEMA,
    Envelope,
    JsonSerialization,
    key_of,
    of_events,
    transaction_orders,
)
from streaming.events.read_envelopes import ReadTeller, told_texts
from streaming.keys.keys import key_of_document
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from streaming.source.change_events import ARROW_SCHEMA
from streaming.source.change_stream import RangePartition
from tests.support.changes import now, reader

Client = MongoClient[dict[str, Any]]
Row = dict[str, Any]
ENVELOPE = Envelope("shop", "1.2.3")
NOTE = "n" * 200
"""Makes a document that the server rather tells the changes of."""
AT_NS = 1_700_000_000_123_456_789


def source_rows(uri: str, bounds: list[ClusterTime], **options: str) -> pa.Table:
    """What the source gives between the first and the last of ``bounds``, in as many splits as there are steps."""
    source = reader(uri, **options)
    splits = [RangePartition(a, b, split, len(bounds) - 1) for split, (a, b) in enumerate(pairwise(bounds))]
    return pa.Table.from_batches([b for split in splits for b in source.read(split)], ARROW_SCHEMA)


def frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table.combine_chunks()).coalesce(1)


def envelopes(
    spark: SparkSession, uri: str, start: ClusterTime, envelope: Envelope = ENVELOPE, **options: str
) -> list[Row]:
    events = frame(spark, source_rows(uri, [start, now(uri)], **options))
    return told(of_events(events, envelope, AT_NS))


def told(frame: DataFrame) -> list[Row]:
    return [row.asDict(recursive=True) for row in frame.collect()]


@pytest.fixture
def start(mongo_uri: str, database: str) -> ClusterTime:
    """A position before anything that the test does."""
    return now(mongo_uri)


def test_each_operation_as_it_is_documented(
    spark: SparkSession, mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """c, u and d; a replacement is a u without updateDescription; a delete has no document. Before-images come where
    they are asked for, and the server keeps them. The table of `docs/events.md` is made of the same fields."""
    images = {"changeStreamPreAndPostImages": {"enabled": True}}
    orders = mongo_client[database].create_collection("orders", **images)
    orders.insert_one({"_id": 7, "state": "new", "lines": [NOTE, "b", "c"], "gone": 1, "note": NOTE})
    orders.update_one({"_id": 7}, [{"$set": {"state": "paid", "lines": [NOTE, "b"]}}, {"$unset": "gone"}])
    orders.replace_one({"_id": 7}, {"state": "old"})
    orders.delete_one({"_id": 7})
    mode = {"capture__mode": "change_streams_update_full_with_pre_image"}
    rows = envelopes(spark, mongo_uri, start, database__include__list=database, **mode)
    assert [(row["op"], row["key"]) for row in rows] == [("c", "7"), ("u", "7"), ("u", "7"), ("d", "7")]
    insert, update, replaced, delete = rows
    first = f'{{"_id": 7,"state": "new","lines": ["{NOTE}","b","c"],"gone": 1,"note": "{NOTE}"}}'
    assert (insert["before"], insert["after"], insert["updateDescription"]) == (None, first, None)
    assert update["before"] == first
    assert update["updateDescription"] == {
        "removedFields": ["gone"],
        "updatedFields": '{"state": "paid"}',
        "truncatedArrays": [{"field": "lines", "size": 2}],
    }
    assert (replaced["after"], replaced["updateDescription"]) == ('{"_id": 7,"state": "old"}', None)
    assert (delete["before"], delete["after"]) == ('{"_id": 7,"state": "old"}', None)
    source = insert["source"]
    time = ClusterTime.from_int(insert["_cluster_time"])
    assert (insert["ts_ms"], insert["ts_us"], insert["ts_ns"]) == (AT_NS // 10**6, AT_NS // 10**3, AT_NS)
    assert source == {
        "version": "1.2.3",
        "connector": "mongodb",
        "name": "shop",
        "ts_ms": source["wallTime"],
        "snapshot": "false",
        "db": database,
        "sequence": None,
        "ts_us": source["wallTime"] * 1_000,
        "ts_ns": source["wallTime"] * 1_000_000,
        "collection": "orders",
        "ord": time.i,
        "lsid": None,
        "txnNumber": None,
        "wallTime": source["wallTime"],
    }
    assert abs(source["wallTime"] - time.t * 1_000) < 10_000
    assert {row["_key"] for row in rows} == {key_of_document(bson.encode({"_id": 7}))}
    assert [row["_order"] for row in rows] == [0, 0, 0, 0]


def test_an_update_whose_document_is_gone(
    spark: SparkSession, mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """Without lookup there is no document after an update; what it changed is told all the same."""
    items = mongo_client[database]["items"]
    items.insert_one({"_id": 1})
    items.update_one({"_id": 1}, {"$set": {"a.b": 2}})
    rows = envelopes(
        spark, mongo_uri, start, database__include__list=database, capture__mode="change_streams"
    )
    assert (rows[1]["op"], rows[1]["after"]) == ("u", None)
    assert rows[1]["updateDescription"]["updatedFields"] == '{"a": {"b": 2}}'
    assert rows[1]["updateDescription"]["removedFields"] is None


def test_drops_and_renames_are_no_envelopes(
    spark: SparkSession, mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """They change no document; Debezium never sees them."""
    mongo_client[database]["a"].insert_one({"_id": 1})
    mongo_client[database]["a"].rename("b")
    mongo_client[database]["b"].drop()
    rows = envelopes(spark, mongo_uri, start, database__include__list=database)
    assert [row["op"] for row in rows] == ["c"]


def test_the_place_of_an_event_is_the_same_however_it_is_read(
    spark: SparkSession, mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """In one range or in splits, from whichever position: cluster time and order name an event for good. In a
    transaction the events of a collection are counted from 0, each collection's for itself."""
    first, second = (mongo_client[database].create_collection(name) for name in ("first", "second"))
    first.insert_one({"_id": 0})
    middle = now(mongo_uri)
    with mongo_client.start_session() as session, session.start_transaction():
        for number in range(1, 6):
            (first if number % 2 else second).insert_one({"_id": number}, session=session)
    end = now(mongo_uri)
    tables = [
        source_rows(mongo_uri, bounds, database__include__list=database)
        for bounds in ([start, end], [start, middle, end], [middle, end])
    ]
    found = [
        [
            (row["source"]["collection"], row["key"], row["_cluster_time"], row["_order"])
            for row in told(of_events(frame(spark, table), ENVELOPE, AT_NS))
        ]
        for table in tables
    ]
    whole, split, later = found
    assert whole == split
    assert whole[1:] == later
    assert [(name, key, order) for name, key, _, order in later] == [
        ("first", "1", 0),
        ("second", "2", 0),
        ("first", "3", 1),
        ("second", "4", 1),
        ("first", "5", 2),
    ]
    assert tables[0]["ord"].to_pylist() != tables[1]["ord"].to_pylist()


def test_rows_out_of_order_are_refused(spark: SparkSession, mongo_uri: str, start: ClusterTime) -> None:
    """Places in a transaction can't be counted then: better an error than wrong places."""
    rows = [
        {"kind": "event", "op": "d", "db": "d", "collection": "c", "ord": place, "cluster_time": 1}
        | {"document_key": bson.encode({"_id": 1})}
        for place in (1, 0)
    ]
    events = frame(spark, pa.Table.from_pylist(rows, ARROW_SCHEMA))
    with pytest.raises(PySparkException, match="event 0 follows event 1"):
        told(of_events(events, ENVELOPE, AT_NS))


def test_events_name_their_transaction(
    spark: SparkSession, mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """Where that is asked for: its id, and their place in all of it and in their collection, also where the events of
    only one collection are told. lsid and txnNumber are told in any case; events of no transaction have none of it."""
    a, b = (mongo_client[database].create_collection(name) for name in ("a", "b"))
    a.insert_one({"_id": 0})
    with mongo_client.start_session() as session, session.start_transaction():
        for target, number in ((a, 1), (b, 2), (b, 3), (a, 4)):
            target.insert_one({"_id": number}, session=session)
    events = frame(spark, source_rows(mongo_uri, [start, now(mongo_uri)], database__include__list=database))
    telling = replace(ENVELOPE, transactions=True)
    rows = told(of_events(events.where("collection = 'a'"), telling, AT_NS, transaction_orders(events)))
    plain, one, four = rows
    assert plain["transaction"] is None
    places = [
        (r["transaction"]["total_order"], r["transaction"]["data_collection_order"]) for r in (one, four)
    ]
    assert places == [(1, 1), (4, 2)]
    lsid, number = one["source"]["lsid"], one["source"]["txnNumber"]
    assert one["transaction"]["id"] == four["transaction"]["id"] == f"{lsid}:{number}"
    assert json.loads(lsid)["id"]["$binary"]["subType"] == "04"
    untold = told(of_events(events, ENVELOPE, AT_NS))
    assert all(row["transaction"] is None for row in untold)
    assert [row["source"]["txnNumber"] for row in untold] == [None, number, number, number, number]


def test_reads(spark: SparkSession) -> None:
    """Events of operation r, as of their window's low watermark, with the window and the request that they are of."""
    document = bson.encode({"_id": "x", "n": bson.Int64(3)})
    low = ClusterTime(1_700_000_000, 5)
    key, text = (array[0].as_py() for array in told_texts(JsonSerialization.LEGACY, [document]))
    row = {
        "_key": key_of_document(document),
        "_told_key": key,
        "_told_document": text,
        "cluster_time": low.to_int(),
        "snapshot": INCREMENTAL,
        "_window": "run/3",
        "_request": "ad-hoc-1",
    }
    teller = ReadTeller(ENVELOPE, AT_NS, Namespace("shop", "orders"))
    (read,) = told(spark.createDataFrame(pa.Table.from_pylist([row])).mapInArrow(teller.batches, SCHEMA))
    assert (read["op"], read["key"], read["before"]) == ("r", '"x"', None)
    assert read["after"] == '{"_id": "x","n": {"$numberLong": "3"}}'
    assert (read["_order"], read["_window"], read["_request"]) == (None, "run/3", "ad-hoc-1")
    assert read["source"]["snapshot"] == "incremental"
    assert (read["source"]["db"], read["source"]["collection"], read["source"]["ord"]) == (
        "shop",
        "orders",
        5,
    )
    assert (read["source"]["ts_ms"], read["source"]["wallTime"]) == (low.t * 1_000, None)


@pytest.mark.parametrize(
    ("mode", "after", "updated"),
    [
        (
            JsonSerialization.LEGACY,
            '{"$numberLong": "5"},"at": {"$date": 0}',
            '5, "at": {"$date": "1970-01-01T00:00:00Z"}',
        ),
        (
            JsonSerialization.STRICT,
            '{"$numberLong": "5"},"at": {"$date": 0}',
            '{"$numberLong": "5"},"at": {"$date": 0}',
        ),
        (
            JsonSerialization.EXTENDED,
            '{"$numberLong": "5"},"at": {"$date": {"$numberLong": "0"}}',
            '{"$numberLong": "5"},"at": {"$date": {"$numberLong": "0"}}',
        ),
        (
            JsonSerialization.RELAXED,
            '5,"at": {"$date": "1970-01-01T00:00:00Z"}',
            '5,"at": {"$date": "1970-01-01T00:00:00Z"}',
        ),
    ],
)
def test_how_documents_are_written(
    spark: SparkSession, mode: JsonSerialization, after: str, updated: str
) -> None:
    """`json.serialization.mode`: the default writes documents and changed fields in two forms, the others in one. The
    key is relaxed, whatever it says."""
    fields = {"n": bson.Int64(5), "at": datetime.fromtimestamp(0, UTC)}
    row = {
        "kind": "event",
        "op": "u",
        "operation_type": "update",
        "db": "d",
        "collection": "c",
        "document_key": bson.encode({"_id": bson.Int64(1)}),
        "document": bson.encode(fields),
        "update_description": bson.encode({"updatedFields": fields}),
        "cluster_time": 1,
        "ord": 0,
    }
    events = frame(spark, pa.Table.from_pylist([row], ARROW_SCHEMA))
    (found,) = told(of_events(events, replace(ENVELOPE, serialization=mode), AT_NS))
    assert found["key"] == "1"
    assert found["after"] == f'{{"n": {after}}}'
    assert found["updateDescription"]["updatedFields"] == f'{{"n": {updated}}}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (bson.Int64(2147483657), "2147483657"),
        ("123", '"123"'),
        ({"company": 32, "dept": "home improvement"}, '{"company": 32,"dept": "home improvement"}'),
        (datetime(2017, 11, 28, 18, 58, 8, tzinfo=UTC), '{"$date": "2017-11-28T18:58:08Z"}'),
        (Decimal128("123.45678"), '{"$numberDecimal": "123.45678"}'),
        (ObjectId("596e275826f08b2730779e1f"), '{"$oid": "596e275826f08b2730779e1f"}'),
    ],
)
def test_keys_are_written_as_documented(value: Any, text: str) -> None:
    """Those of the peer's own tests."""
    assert key_of(bson.encode({"shard": 1, "_id": value})) == text
