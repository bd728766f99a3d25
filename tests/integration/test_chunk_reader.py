"""Chunk reads: what a partition reads and says of itself, and what a Spark job of them holds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import bson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bson.timestamp import Timestamp
from pymongo import MongoClient
from pyspark.sql import SparkSession

from snapshotter.core.values.chunks import Bound, KeyList, KeyRange, Target
from snapshotter.core.values.window import WindowId
from snapshotter.reading.chunk_reader import ReadJob, SubRange, free_checkpoint, partition_reader, read
from snapshotter.reading.ranges import IdProber, bound_of
from snapshotter.reading.read_buffer import Buffer, Trailer
from streaming.delta.table_folder import TableFolder
from streaming.events.envelope import JsonSerialization
from streaming.keys.keys import key_of_document
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.observe import observe
from streaming.layouts.columns.plan import TablePlan
from streaming.mongo.deployment import majority_time
from streaming.mongo.errors import classify
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from tests.support.ids import TWENTY_IDS, fill_with_twenty
from tests.support.raw_bson import id_document

Client = MongoClient[dict[str, object]]
WHOLE = KeyRange(None, None)


def bound(value: object) -> Bound:
    return bound_of(bson.encode({"_id": value}))


def job(
    uri: str,
    client: Client,
    database: str,
    *targets: Target,
    plan: TablePlan | None = None,
    filter: dict[str, object] | None = None,
) -> ReadJob:
    """Each target is a window of its own, from 1; the plan is what the documents show."""
    collection = client[database]["things"]
    if plan is None:
        plan = TablePlan()
        for raw in collection.find_raw_batches():
            plan = plan.merge(observe(raw))
    now = majority_time(client)
    ranges = tuple(SubRange(number, target, now) for number, target in enumerate(targets, 1))
    return ReadJob(uri, Namespace(database, "things"), filter, COLUMNS, plan, ranges, None)


def read_here(found: ReadJob) -> pa.Table:
    """What the executors would give, without any."""
    indexes = pa.RecordBatch.from_arrays([pa.array(range(len(found.ranges)), pa.int64())], names=["id"])
    return pa.Table.from_batches(list(partition_reader(found)(iter([indexes]))))


def keys(table: pa.Table, window: int) -> list[str]:
    return [
        row["_key"]
        for row in table.select(["_key", "_window", "_trailer"]).to_pylist()
        if row["_window"] == window and row["_trailer"] is None
    ]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_chunks_of_the_twenty_ids_hold_all_of_them(
    mongo_uri: str, mongo_client: Client, database: str, size: int
) -> None:
    """Each id in the one chunk whose range holds it, in BSON order, across sixteen types."""
    fill_with_twenty(mongo_client[database]["things"])
    namespace = Namespace(database, "things")
    prober = IdProber(mongo_client)
    last = prober.max_bound(namespace, None)
    assert last is not None
    bounds = prober.next_bounds(namespace, None, last, size, 100, None).bounds
    targets = [KeyRange(a, b) for a, b in zip([None, *bounds[:-1]], bounds, strict=True)]
    table = read_here(job(mongo_uri, mongo_client, database, *targets))
    chunks = [keys(table, number) for number in range(1, len(targets) + 1)]
    assert [key for chunk in chunks for key in chunk] == [key_of_document(id_document(v)) for v in TWENTY_IDS]
    assert {len(chunk) for chunk in chunks[:-1]} == {size}


def test_single_ids_filters_and_empty_ranges(mongo_uri: str, mongo_client: Client, database: str) -> None:
    """An id that is not there is no error, and a range without documents has its trailer too."""
    mongo_client[database]["things"].insert_many([{"_id": n, "even": n % 2 == 0} for n in range(10)])
    single = KeyList((bound(3), bound(77), bound(5)))
    table = read_here(job(mongo_uri, mongo_client, database, single, KeyRange(bound(50), None)))
    assert keys(table, 1) == [bound(3).key, bound(5).key]
    assert keys(table, 2) == []
    assert table["_trailer"].drop_null().length() == 2
    even = read_here(job(mongo_uri, mongo_client, database, WHOLE, filter={"even": True}))
    assert len(keys(even, 1)) == 5


def test_a_job_says_what_it_has_read(
    spark: SparkSession, mongo_uri: str, mongo_client: Client, database: str
) -> None:
    """Of each window: rows, bytes, smallest and largest key, fields that the plan does not know, and the time at which
    its cursor ended. The rows are held: what changes later does not show."""
    things = mongo_client[database]["things"]
    things.insert_many([{"_id": n, "v": n} for n in range(100)])
    plan = observe(bson.encode({"_id": 1, "v": 1}))
    things.update_one({"_id": 70}, {"$set": {"late": "field"}})
    middle = bound(49)
    halves = (KeyRange(None, middle), KeyRange(middle, None), KeyRange(bound(500), None))
    before = majority_time(mongo_client)
    buffer = read(spark, job(mongo_uri, mongo_client, database, *halves, plan=plan))
    first, second, third = sorted(buffer.trailers, key=lambda t: t.number)
    assert (first.rows, second.rows, third.rows) == (50, 50, 0)
    assert (first.min_key, first.max_key) == (bound(0).key, bound(49).key)
    assert (third.min_key, third.max_key, third.size_bytes) == (None, None, 0)
    assert first.size_bytes == 50 * len(bson.encode({"_id": 1, "v": 1}))
    assert all(trailer.unique for trailer in buffer.trailers)
    assert first.unknown == TablePlan()
    assert [column.name for column in second.unknown.columns] == ["late"]
    now = majority_time(mongo_client)
    for trailer in buffer.trailers:
        assert before <= trailer.ended <= now
        assert trailer.signed is not None
        assert trailer.signed["clusterTime"] >= Timestamp(trailer.ended.t, trailer.ended.i)
    things.delete_many({})
    rows = buffer.frame.where("_trailer is null")
    assert rows.count() == 100
    assert [r["_rescued_data"] for r in rows.where("_rescued_data is not null").collect()] == [
        '{"/late":"field"}'
    ]
    _freed_with_its_last_holder(buffer)


def test_documents_are_told_alike_wherever_they_wait(
    spark: SparkSession, mongo_uri: str, mongo_client: Client, database: str, tmp_path: Path
) -> None:
    """As texts, with their keys and their windows: whether they lie in files beside those of their rows, or with
    them on the executors. The files go with the buffer, but for those that a commit was asked to add."""
    things = mongo_client[database]["things"]
    things.insert_many([{"_id": n, "v": [n, {"w": None}]} for n in range(20)])
    halves = (KeyRange(None, bound(9)), KeyRange(bound(9), None))
    found = replace(job(mongo_uri, mongo_client, database, *halves), tells=JsonSerialization.RELAXED)
    windows = [WindowId("a", 1), WindowId("a", 2)]
    held = read(spark, found)
    written = read(spark, replace(found, folder=TableFolder(str(tmp_path), str(tmp_path))))

    in_files = [
        (*row.values(), part.number)
        for part in written.trailers
        if part.documents is not None
        for row in pq.read_table(tmp_path / part.documents.name).to_pylist()
    ]
    assert sorted(in_files) == sorted(tuple(row) for row in held.documents().collect())
    texts = {bound(found["_id"]).key: (found["_id"], found) for found in things.find()}
    assert {key: (json.loads(id_), json.loads(text)) for key, id_, text, _ in in_files} == texts
    assert {key: number for key, _, _, number in in_files} == {bound(n).key: 1 + (n > 9) for n in range(20)}
    assert sorted(written.rows(windows).columns) == sorted(held.rows(windows).columns)
    assert len(list(tmp_path.iterdir())) == 4
    rows = [trailer.file for trailer in written.trailers if trailer.file is not None]
    written.hold(windows[0])
    written.offer(rows)
    written.release(windows[0])
    assert {path.name for path in tmp_path.iterdir()} == {file.name for file in rows}


def _freed_with_its_last_holder(buffer: Buffer) -> None:
    """Windows share the buffer of their job; the last one frees it, and it is *not* read again from MongoDB."""
    one, two = WindowId("a", 1), WindowId("a", 2)
    buffer.hold(one)
    buffer.hold(two)
    buffer.release(one)
    assert buffer.frame.count() == 103
    buffer.release(two)
    with pytest.raises(Exception, match=r"Checkpoint block|CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"):
        buffer.frame.count()
    free_checkpoint(buffer.frame)  # twice does no harm


def test_a_read_is_at_or_after_its_low_watermark(mongo_uri: str, mongo_client: Client, database: str) -> None:
    """A node that has not reached the time makes the reader wait, instead of showing an older state; without the
    signature a time from the future is refused."""
    mongo_client[database]["things"].insert_one({"_id": 1})
    found = job(mongo_uri, mongo_client, database, WHOLE)
    future = ClusterTime(found.ranges[0].after_time.t + 3_600, 1)
    ahead = ReadJob(
        mongo_uri, found.namespace, None, COLUMNS, found.plan, (SubRange(1, WHOLE, future),), signed=None
    )
    with pytest.raises(Exception, match=r"afterClusterTime|cluster time") as refused:
        read_here(ahead)
    assert not isinstance(refused.value, TimeoutError)


def test_chunks_side_by_side_keep_their_partitions(
    spark: SparkSession, mongo_uri: str, mongo_client: Client, database: str
) -> None:
    """Spark takes a union of frames of one partition for one of one partition, unless it is told not to: what lands
    many chunks would run on one core."""
    mongo_client[database]["things"].insert_many([{"_id": n} for n in range(10)])
    halves = (KeyRange(None, bound(4)), KeyRange(bound(4), None))
    one, other = (read(spark, job(mongo_uri, mongo_client, database, half)).frame for half in halves)
    assert [frame.rdd.getNumPartitions() for frame in (one, other)] == [1, 1]
    assert one.unionByName(other).rdd.getNumPartitions() == 2


def test_an_error_on_an_executor_keeps_its_class(
    spark: SparkSession, mongo_uri: str, mongo_client: Client, database: str
) -> None:
    """Whether it is worth another attempt is known from its text: a filter that fails at one document is not."""
    things = mongo_client[database]["things"]
    things.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 0}])
    divided: dict[str, object] = {"$expr": {"$gt": [{"$divide": [1, "$n"]}, 0]}}
    with pytest.raises(Exception, match=r"divide by zero") as failed:
        read(spark, job(mongo_uri, mongo_client, database, WHOLE, filter=divided))
    assert not classify(failed.value).retriable
    away = job("mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200", mongo_client, database, WHOLE)
    with pytest.raises(Exception, match="127\\.0\\.0\\.1:1") as failed:
        read(spark, away)
    assert classify(failed.value).retriable


def test_keys_out_of_order_are_no_proof(mongo_uri: str, mongo_client: Client, database: str) -> None:
    """Under a collation ids come in another order than keys: the trailer says so, and no append follows."""
    collation = {"locale": "en", "numericOrdering": True}
    things = mongo_client[database].create_collection("things", collation=collation)
    things.insert_many([{"_id": "10"}, {"_id": "9"}, {"_id": "a"}])
    table = read_here(job(mongo_uri, mongo_client, database, WHOLE))
    assert len(keys(table, 1)) == 3
    trailers = [Trailer.from_text(COLUMNS, text) for text in table["_trailer"].drop_null().to_pylist()]
    assert [trailer.unique for trailer in trailers] == [False]
    assert [(trailer.min_key, trailer.max_key) for trailer in trailers] == [("S10", "Sa")]
