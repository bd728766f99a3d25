"""The backlog is counted well, by either way; a large batch is read in splits that make up the whole."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pyspark.sql.streaming.datasource import ReadMaxRows

from snapshotter.testing.mongodb import start_mongodb
from streaming.positions import ClusterTime
from streaming.source import admission
from streaming.source.backlog import Backlog
from streaming.source.change_options import ChangeOptions
from streaming.source.change_stream import MongoChangesReader, Offset, RangePartition
from streaming.source.hints import Hints, write_hints
from streaming.source.places import SPLIT_BITS
from tests.support.bson_documents import document, text
from tests.support.changes import Row, now, read, reader
from tests.support.inserts import insert_raw

Client = MongoClient[dict[str, Any]]


def backlog(uri: str, *, by_oplog: bool, **options: str) -> Backlog:
    named = {name.replace("__", "."): value for name, value in options.items()}
    parsed = ChangeOptions.parse({"mongodb.connection.string": uri, **named})
    found = Backlog(parsed.uri, parsed.stream)
    found._oplog_readable = by_oplog
    return found


@pytest.mark.parametrize("by_oplog", [True, False])
def test_every_captured_event_is_counted(
    mongo_uri: str, mongo_client: Client, database: str, by_oplog: bool
) -> None:
    """Bulk inserts, updates, deletes, a transaction, a drop; not what other collections do."""
    start = now(mongo_uri)
    items, others = mongo_client[database]["items"], mongo_client[database]["others"]
    others.insert_many([{"_id": number} for number in range(50)])
    items.insert_many([{"_id": number} for number in range(100)])
    items.update_many({}, {"$set": {"x": 1}})
    items.delete_many({"_id": {"$gte": 90}})
    with mongo_client.start_session() as session, session.start_transaction():
        for number in range(200, 220):
            items.insert_one({"_id": number}, session=session)
    items.drop()
    end = now(mongo_uri)
    found = backlog(mongo_uri, by_oplog=by_oplog, collection__include__list=rf"{database}\.items")
    counted = list(found.counted(start, end, limit=500))
    assert sum(count for _, count in counted) == 100 + 100 + 10 + 20 + 1
    times = [time for time, _ in counted]
    assert times == sorted(times)
    assert start.to_int() < times[0] <= times[-1] <= end.to_int()


@pytest.mark.parametrize("by_oplog", [True, False])
def test_an_id_that_no_driver_likes_is_counted(
    mongo_uri: str, mongo_client: Client, database: str, by_oplog: bool
) -> None:
    """A date beyond the year 9999, text that is no UTF-8, old binary data without the length that belongs in it: one
    document must not end the stream of all."""
    start = now(mongo_uri)
    old_binary = struct.pack("<i", 2) + b"\x02ab"
    ids = [(0x09, struct.pack("<q", 2**62)), (0x02, text(b"no \xff UTF-8")), (0x05, old_binary)]
    insert_raw(mongo_client[database]["items"], [document([(b"_id", id_)]) for id_ in ids])
    mongo_client[database]["items"].update_many({}, {"$set": {"x": 1}})
    found = backlog(mongo_uri, by_oplog=by_oplog, database__include__list=database)
    assert sum(count for _, count in found.counted(start, now(mongo_uri), limit=500)) == 6


@pytest.mark.parametrize("by_oplog", [True, False])
def test_fields_that_are_named_like_commands_are_fields(
    mongo_uri: str, mongo_client: Client, database: str, by_oplog: bool
) -> None:
    """The oplog holds documents where it holds commands."""
    start = now(mongo_uri)
    named = {"drop": 7, "renameCollection": {"a": 1}, "applyOps": [1, 2, 3]}
    mongo_client[database]["items"].insert_one({"_id": 1, **named})
    mongo_client[database]["items"].insert_one({"_id": 2, "drop": "others", "renameCollection": "x.y"})
    found = backlog(mongo_uri, by_oplog=by_oplog, database__include__list=database)
    assert sum(count for _, count in found.counted(start, now(mongo_uri), limit=500)) == 2


@pytest.mark.parametrize("by_oplog", [True, False])
def test_a_sample_comes_near(mongo_uri: str, mongo_client: Client, database: str, by_oplog: bool) -> None:
    """One of four events is looked at; the sum is right within a tenth."""
    start = now(mongo_uri)
    for first in range(0, 12_000, 1_000):
        mongo_client[database]["items"].insert_many([{"_id": first + number} for number in range(1_000)])
    found = backlog(mongo_uri, by_oplog=by_oplog, database__include__list=database)
    counted = list(found.counted(start, now(mongo_uri), limit=4_000))
    assert {count % 4 for _, count in counted} == {0} or by_oplog  # a bulk may be one entry, counted whole
    assert 10_800 <= sum(count for _, count in counted) <= 13_200


def test_who_may_not_read_the_oplog_counts_by_the_change_stream() -> None:
    """A user with no more than changeStream and find on the captured database is told no error."""
    with start_mongodb(auth=True) as mongo:
        admin = mongo.client()
        streams = {"resource": {"db": "shop", "collection": ""}, "actions": ["changeStream", "find"]}
        admin["admin"].command("createRole", "streams", privileges=[streams], roles=[])
        admin["admin"].command("createUser", "few", pwd="secret", roles=["streams"])
        start = now(mongo.uri)
        admin["shop"]["items"].insert_many([{"_id": number} for number in range(30)])
        end = now(mongo.uri)
        address = mongo.uri.split("@")[1].split("/")[0]
        uri = f"mongodb://few:secret@{address}/?directConnection=true&authSource=admin"
        found = backlog(
            uri, by_oplog=True, capture__scope="database", capture__target="shop", start__position="now"
        )
        assert sum(count for _, count in found.counted(start, end, limit=500)) == 30
        assert not found._oplog_readable
        assert sum(count for _, count in found.counted(start, end, limit=500)) == 30


def test_a_large_batch_is_read_in_splits(
    mongo_uri: str, mongo_client: Client, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three readers: together the rows of one, in the order of ``ord``, with a trailer for each split."""
    monkeypatch.setattr(admission, "SPLIT_MIN", 500)
    monkeypatch.setattr(admission, "PEAK_EVENTS_PER_SECOND", 1_000_000)  # always counts
    items = mongo_client[database]["items"]
    start = now(mongo_uri)
    for first in range(0, 3_000, 100):
        items.insert_many([{"_id": first + number} for number in range(100)])
        items.update_one({"_id": first}, {"$set": {"x": 1}})
    options = {"database__include__list": database, "columns": "state"}
    source = reader(mongo_uri, trailer="true", engine__stream__readers="3", **options)
    offset = source.latestOffset(Offset(start).to_json(), ReadMaxRows(100_000))
    end = Offset.from_json(offset).time
    splits = [rows_of(source, part) for part in source.partitions(Offset(start).to_json(), offset)]
    events = [[row for row in rows if row["kind"] == "event"] for rows in splits]
    assert len(events) == 3
    assert all(700 < len(rows) < 1_400 for rows in events), [len(rows) for rows in events]
    together = [row for rows in events for row in rows]
    assert [row["ord"] for row in together] == sorted(row["ord"] for row in together)
    assert {row["ord"] >> SPLIT_BITS for row in events[2]} == {2}
    whole = read(reader(mongo_uri, **options), start, end)
    assert [(row["_key"], row["cluster_time"], row["op"]) for row in together] == [
        (row["_key"], row["cluster_time"], row["op"]) for row in whole
    ]
    assert [row["kind"] for rows in splits for row in rows if row["kind"] == "trailer"] == ["trailer"] * 3


@pytest.mark.parametrize("by_oplog", [True, False])
def test_what_came_while_the_engine_stood_still_is_read_in_splits(
    mongo_uri: str,
    mongo_client: Client,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    by_oplog: bool,
) -> None:
    """Although recent batches were all but empty: where the oplog may be read the lag is counted. That of a stream
    which keeps up is not, nor where counting is dear."""
    monkeypatch.setattr(admission, "SPLIT_MIN", 500)
    hints = tmp_path / "hints.json"
    write_hints(hints, Hints(events_per_second=0.1))
    before = now(mongo_uri)
    mongo_client[database]["items"].insert_many([{"_id": number} for number in range(3_000)])
    options = {"database__include__list": database, "engine__stream__readers": "2", "hints__file": str(hints)}
    for behind, splits in ((10, 2 if by_oplog else 1), (2, 1)):
        source = reader(mongo_uri, **options)
        source._backlog._oplog_readable = by_oplog
        start = ClusterTime(before.t - behind, 1)
        offset = source.latestOffset(Offset(start).to_json(), ReadMaxRows(200_000))
        assert len(source.partitions(Offset(start).to_json(), offset)) == splits


def rows_of(source: MongoChangesReader, partition: Any) -> list[Row]:
    assert isinstance(partition, RangePartition)
    assert ClusterTime(0, 0) < partition.start
    return [row for batch in source.read(partition) for row in batch.to_pylist()]
