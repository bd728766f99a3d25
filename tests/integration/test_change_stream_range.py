"""What a batch holds: every event of its range, once, whatever happens to the collection or the cursor."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import pytest
from bson.decimal128 import Decimal128
from bson.timestamp import Timestamp
from pymongo import MongoClient
from pyspark.sql.streaming.datasource import ReadMaxRows

from streaming.keys.keys import key_of_document
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from streaming.scope.scope import CaptureScope, Level
from streaming.source.change_cursor import REPLY_BYTES, ChangeRange, StreamSpec, proves_the_end
from streaming.source.change_stream import Offset, RangePartition
from streaming.source.raw_events import fields_of, string_of
from streaming.source.server_cursor import Reply, ServerCursor, token_time
from tests.support.changes import brief, now, read, read_since, reader, trailer

Client = MongoClient[dict[str, Any]]
MB = 1 << 20


@pytest.fixture
def start(mongo_uri: str, database: str) -> ClusterTime:
    """A position before anything that the test does."""
    return now(mongo_uri)


def test_the_four_operations(mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime) -> None:
    """Insert, update, replace and delete, each with what it carries; times and order are the server's."""
    orders = mongo_client[database]["orders"]
    orders.insert_one({"_id": 1, "total": Decimal128("1.50")})
    orders.update_one({"_id": 1}, {"$set": {"paid": True}})
    orders.replace_one({"_id": 1}, {"gone": "soon"})
    orders.delete_one({"_id": 1})
    rows = read_since(mongo_uri, start, database__include__list=database)
    assert [(row["op"], row["operation_type"]) for row in rows] == [
        ("c", "insert"),
        ("u", "update"),
        ("u", "replace"),
        ("d", "delete"),
    ]
    insert, update, replace, delete = rows
    assert insert["document"] == {"_id": 1, "total": Decimal128("1.50")}
    assert update["update_description"]["updatedFields"] == {"paid": True}
    assert replace["document"] == {"_id": 1, "gone": "soon"}
    assert (delete["document"], delete["before"], delete["txn_number"]) == (None, None, None)
    for place, row in enumerate(rows):
        assert (row["kind"], row["db"], row["collection"]) == ("event", database, "orders")
        assert (row["document_key"], row["_key"], row["ord"]) == (
            {"_id": 1},
            key_of_document(bson.encode({"_id": 1})),
            place,
        )
        assert abs(row["wall_time"] - datetime.now(UTC)) < timedelta(minutes=5)
    times = [row["cluster_time"] for row in rows]
    assert times == sorted(set(times))
    assert times[0] > start.to_int()


def test_replies_of_large_events_are_small(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """Where events have 1 MB each, no reply but the first one has more than four of them; nothing is left out."""
    mongo_client[database]["large"].insert_many([{"_id": n, "text": "x" * MB} for n in range(32)])
    spec = StreamSpec(CaptureScope(Level.DATABASE, database))
    replies = list(ChangeRange(mongo_uri, spec, start, now(mongo_uri)))
    assert sum(map(len, replies)) == 32
    assert max(map(len, replies[1:])) <= REPLY_BYTES // MB


def test_lookup_gives_the_state_at_lookup_post_image_at_the_event(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """With lookup both updates show the second value; with post-images each shows its own."""
    images = {"enabled": True}
    items = mongo_client[database].create_collection("items", changeStreamPreAndPostImages=images)
    items.insert_one({"_id": 1, "n": 0})
    for n in (1, 2):
        items.update_one({"_id": 1}, {"$set": {"n": n}})
    lookup = read_since(mongo_uri, start, database__include__list=database)
    assert [row["document"]["n"] for row in lookup] == [0, 2, 2]
    images_mode = {
        "capture__mode": "change_streams_update_full_with_pre_image",
        "capture__mode__full__update__type": "post_image",
    }
    stored = read_since(mongo_uri, start, database__include__list=database, **images_mode)
    assert [row["document"]["n"] for row in stored] == [0, 1, 2]
    assert [row["before"] and row["before"]["n"] for row in stored] == [None, 0, 1]
    bare = read_since(mongo_uri, start, database__include__list=database, capture__mode="change_streams")
    assert [row["document"] for row in bare] == [{"_id": 1, "n": 0}, None, None]


def test_an_update_looked_up_in_vain_has_no_document(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """The document was deleted before the lookup: the row is there, its document is null."""
    items = mongo_client[database]["items"]
    items.insert_one({"_id": "a"})
    items.update_one({"_id": "a"}, {"$set": {"x": 1}})
    items.delete_one({"_id": "a"})
    rows = read_since(mongo_uri, start, database__include__list=database)
    assert [(row["op"], row["document"]) for row in rows] == [("c", {"_id": "a"}), ("u", None), ("d", None)]


def test_the_columns_of_state_tables_only(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """`columns=state` leaves out what a state table does not need, and nothing else."""
    items = mongo_client[database]["items"]
    items.insert_one({"_id": 1})
    items.update_one({"_id": 1}, {"$set": {"x": 1}})
    full = read_since(mongo_uri, start, database__include__list=database)
    state = read_since(mongo_uri, start, database__include__list=database, columns="state")
    left_out = {"before": None, "update_description": None, "lsid": None, "txn_number": None}
    assert state == [{**row, **left_out} for row in full]
    assert full[1]["update_description"] is not None


def test_a_transaction_is_one_cluster_time(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """All its events, over two collections, carry one time, the session and the number of the transaction."""
    mongo_client[database].create_collection("a")
    mongo_client[database].create_collection("b")
    with mongo_client.start_session() as session, session.start_transaction():
        for number in range(50):
            mongo_client[database]["a" if number % 2 else "b"].insert_one({"_id": number}, session=session)
    rows = read_since(mongo_uri, start, database__include__list=database)
    assert [row["document_key"]["_id"] for row in rows] == list(range(50))
    assert len({row["cluster_time"] for row in rows}) == 1
    assert len({(str(row["lsid"]), row["txn_number"]) for row in rows}) == 1
    assert rows[0]["txn_number"] is not None
    end = ClusterTime.from_int(rows[0]["cluster_time"])
    source = reader(mongo_uri, database__include__list=database)
    assert len(read(source, start, end)) == 50
    assert len(read(source, end.previous(), end)) == 50
    assert read(source, start, end.previous()) == []


def test_a_transaction_of_several_oplog_entries_is_one_cluster_time(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """Above 16 MB it lies in the oplog in parts, each at a time of its own. A range that ends at one of them has none
    of it, one that begins there has all of it, and no limit on a batch's size divides it."""
    items = mongo_client[database].create_collection("items")
    with mongo_client.start_session() as session, session.start_transaction():
        for number in range(20):
            items.insert_one({"_id": number, "text": "x" * 1_000_000}, session=session)
    found = mongo_client["local"]["oplog.rs"].find({"o.applyOps.ns": f"{database}.items"}, {"ts": 1})
    parts = [ClusterTime(entry["ts"].time, entry["ts"].inc) for entry in found]
    assert len(parts) > 1
    source = reader(mongo_uri, database__include__list=database)
    assert read(source, start, parts[0]) == []
    whole = read(source, parts[0], parts[-1])
    assert [row["document_key"]["_id"] for row in whole] == list(range(20))
    assert {row["cluster_time"] for row in whole} == {parts[-1].to_int()}
    batches, begin = [], start
    while begin < parts[-1]:
        end = Offset.from_json(source.latestOffset(Offset(begin).to_json(), ReadMaxRows(5))).time
        batches.append(len(read(source, begin, end)))
        begin = end
    assert [count for count in batches if count] == [20]


@pytest.mark.parametrize(("asked", "told"), [("true", 2), ("false", 0)])
def test_events_of_state_tables_tell_their_transaction_when_asked(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime, asked: str, told: int
) -> None:
    """`provide.transaction.metadata`: those of a transaction carry its session and its number, and the trailer counts
    them."""
    items = mongo_client[database].create_collection("items")
    items.insert_one({"_id": "before"})
    with mongo_client.start_session() as session, session.start_transaction():
        items.insert_many([{"_id": "a"}, {"_id": "b"}], session=session)
    options = {"columns": "state", "provide__transaction__metadata": asked, "trailer": "true"}
    rows = read_since(mongo_uri, start, database__include__list=database, **options)
    events = rows[:-1]
    assert trailer(rows)["transactional"] == told
    assert [row["txn_number"] is not None for row in events] == [False, told > 0, told > 0]
    assert [row["lsid"] is not None for row in events] == [False, told > 0, told > 0]


def test_several_databases_and_collections_in_one_stream(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """In the order of the oplog, each row with its place."""
    other = f"{database}_2"
    try:
        for number, name in enumerate((database, other, database, other)):
            mongo_client[name][f"c{number}"].insert_one({"_id": number})
        rows = read_since(mongo_uri, start, database__include__list=f"{database}.*", trailer="true")
        places = [f"{row['db']}.{row['collection']}" for row in rows[:-1]]
        assert places == [f"{database}.c0", f"{other}.c1", f"{database}.c2", f"{other}.c3"]
        assert trailer(rows)["namespaces"] == dict.fromkeys(sorted(places), 1)
    finally:
        mongo_client.drop_database(other)


@pytest.mark.parametrize(
    "options",
    [
        {"collection__include__list": r"{db}\.(orders|kunden_ä\w*)"},
        {"collection__include__list": r"{db}\.ORDERS,{db}\.kunden_äöü"},
        {"collection__exclude__list": r"{db}\.order,{db}\.x.*", "database__include__list": "{db}"},
        {
            "collection__include__list": "{db}.orders,{db}.kunden_äöü",
            "filters__match__mode": "literal",
            "signal__data__collection": "{db}.signals",
        },
        {
            "database__include__list": " {db} , other ",
            "collection__exclude__list": "{db}.orders,{db}.xorders",
            "filters__match__mode": "literal",
        },
        {"database__exclude__list": ".*", "signal__data__collection": "{db}.signals"},
        {"capture__scope": "database", "capture__target": "{db}", "collection__exclude__list": r".*\.x.*"},
        {"database__include__list": "{db}", "signal__data__collection": "{db}.signals"},
        {"capture__scope": "database", "capture__target": "{db}", "signal__data__collection": "{db}.signals"},
    ],
)
def test_server_and_predicate_agree_on_what_is_captured(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime, options: dict[str, str]
) -> None:
    """The `$match` on the server lets pass exactly what `captures` says, also beyond ASCII; of what was known to it it
    only makes less work."""
    names = ("order", "orders", "orders2", "kunden_äöü", "xorders", "signals", "signals_status", "a.orders")
    for name in names:
        mongo_client[database][name].insert_one({"_id": 1})
    given = {name: value.replace("{db}", database) for name, value in options.items()}
    source = reader(mongo_uri, **given)
    scope = source._options.stream.scope
    expected = {name for name in names if scope.captures(Namespace(database, name))}
    end = now(mongo_uri)
    assert {row["collection"] for row in read(source, start, end)} == expected
    for known in ((), tuple(Namespace(database, name) for name in names)):
        spec = replace(source._options.stream, known=known)
        passed = [event for events in ChangeRange(mongo_uri, spec, start, end) for event in events]
        places = {string_of(fields_of(fields[b"ns"])[b"coll"]) for *_, fields in passed}
        assert places == expected
        assert len(passed) == len(expected)
    assert expected
    assert expected < set(names)


@pytest.mark.parametrize("lists", [{}, {"collection__include__list": r"{db}\..*"}], ids=["all", "lists"])
def test_the_server_itself_keeps_back_the_status_collection(
    mongo_uri: str, mongo_client: Client, database: str, lists: dict[str, str]
) -> None:
    """None of its documents leaves the server, or each word of the engine's own would come back to it. A rename of it
    passes, for it may be one to a captured name."""
    options = {"signal__data__collection": f"{database}.signals"}
    options |= {name: value.replace("{db}", database) for name, value in lists.items()}
    match = reader(mongo_uri, **options)._options.stream.scope.match_stage()
    db = mongo_client[database]
    with db.watch([match]) as stream:
        for name in ("signals_status", "orders"):
            db[name].insert_one({"_id": 1})
        db["signals_status"].rename("kept")
        db["kept"].insert_one({"_id": 2})
        seen = [next(stream) for _ in range(3)]
    assert [(c["operationType"], c["ns"]["coll"]) for c in seen] == [
        ("insert", "orders"),
        ("rename", "signals_status"),
        ("insert", "kept"),
    ]


def test_an_empty_range_reads_nothing(mongo_uri: str, database: str, start: ClusterTime) -> None:
    """Also one whose start is its end, or that begins at the origin. A trailer is given all the same."""
    source = reader(mongo_uri, database__include__list=database)
    with_trailer = reader(mongo_uri, database__include__list=database, trailer="true")
    for begin in (start, ClusterTime(0, 0)):
        assert read(source, begin, start) == []
        content = trailer(read(with_trailer, begin, start))
        nothing = {"token": None, "events": 0, "bytes": 0, "namespaces": {}, "sizes": {}, "transactional": 0}
        assert content == {"end": start.to_json(), **nothing, "operations": {}, "split": 0, "splits": 1}


def test_nothing_past_the_end_or_before_the_start(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """A batch is (start, end]: cut at every event, the batches make the whole."""
    items = mongo_client[database]["items"]
    items.insert_many([{"_id": number} for number in range(8)])
    source = reader(mongo_uri, database__include__list=database, trailer="true")
    whole = read(source, start, now(mongo_uri))[:-1]
    begin, pieces = start, []
    for row in whole:
        end = ClusterTime.from_int(row["cluster_time"])
        piece = read(source, begin, end)
        assert trailer(piece)["events"] == len(piece) - 1 == 1
        pieces += piece[:-1]
        begin = end
    assert brief(pieces) == brief(whole)


def test_an_empty_reply_means_that_all_has_been_seen(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """A captured event behind 30,000 foreign ones is found: the first reply is not empty before it."""
    noise = mongo_client[database]["noise"]
    noise.insert_many([{"_id": number} for number in range(30_000)])
    mongo_client[database]["quiet"].insert_one({"_id": "here"})
    rows = read_since(mongo_uri, start, collection__include__list=rf"{database}\.quiet")
    assert brief(rows) == [("insert", "here")]


def test_a_batch_is_the_same_on_every_attempt(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """Read three times, also after more was written: the same rows, but for a document looked up later."""
    items = mongo_client[database]["items"]
    items.insert_many([{"_id": number} for number in range(500)])
    items.delete_many({"_id": {"$gte": 400}})
    end = now(mongo_uri)
    source = reader(mongo_uri, database__include__list=database)
    first = read(source, start, end)
    items.insert_one({"_id": "later"})
    assert read(source, start, end) == first == read(source, start, end)
    assert len(first) == 600


def test_rows_come_in_bounded_arrow_batches(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """Neither many small events nor a few large ones make a large Arrow batch."""
    items = mongo_client[database]["items"]
    items.insert_many([{"_id": number} for number in range(12_000)])
    items.insert_many([{"_id": f"large {number}", "text": "x" * 1_000_000} for number in range(20)])
    end = now(mongo_uri)
    batches = list(reader(mongo_uri, database__include__list=database).read(RangePartition(start, end)))
    assert sum(batch.num_rows for batch in batches) == 12_020
    assert max(batch.num_rows for batch in batches) <= 10_000
    assert max(batch.nbytes for batch in batches) < 6_000_000


def test_the_trailer_says_what_was_read(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """End, counts by namespace, bytes, and a token from which MongoDB itself goes on behind the batch."""
    items = mongo_client[database]["items"]
    items.insert_many([{"_id": number} for number in range(3)])
    source = reader(mongo_uri, database__include__list=database, trailer="true")
    third = read(source, start, now(mongo_uri))[2]
    end = ClusterTime.from_int(third["cluster_time"]).previous()
    content = trailer(read(source, start, end))
    assert content["end"] == end.to_json()
    assert (content["events"], content["namespaces"]) == (2, {f"{database}.items": 2})
    assert content["bytes"] > 200
    token = bson.decode(base64.b64decode(content["token"]))
    with mongo_client[database].watch(resume_after=token) as stream:
        following = stream.try_next()
    assert following is not None
    assert following["clusterTime"] == Timestamp(end.t, end.i + 1)


def test_through_a_router_the_end_has_to_be_passed(
    mongo_uri: str,
    mongo_client: Client,
    database: str,
    start: ClusterTime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An empty reply proves nothing there: a token strictly past the end is waited for.

    There is no mongos to test with; a replica set that is taken for one shows that the wait ends, and when.
    """
    always = property(lambda cursor: True, lambda cursor, value: None)
    monkeypatch.setattr(ServerCursor, "is_sharded", always, raising=False)
    mongo_client[database]["items"].insert_many([{"_id": number} for number in range(3)])
    end = now(mongo_uri).previous()
    source = reader(mongo_uri, database__include__list=database, trailer="true")
    rows = read(source, start, end)
    assert [row["kind"] for row in rows] == ["event", "event", "trailer"]
    mongo_client["admin"].command("appendOplogNote", 1, data={"test": "moves the clock"})
    end = now(mongo_uri).previous()
    rows = read(source, start, end)
    assert [row["kind"] for row in rows] == ["event", "event", "event", "trailer"]
    assert token_time(base64.b64decode(trailer(rows)["token"])) > end


def test_the_time_in_a_token(mongo_client: Client, database: str) -> None:
    """The leading time of an event's token is its cluster time; anything else is refused, not misread.

    Through a router only a token strictly past the end proves that nothing is left before it.
    """
    with mongo_client[database].watch() as stream:
        mongo_client[database]["items"].insert_one({"_id": 1})
        event = next(stream)
    seen = event["clusterTime"]
    time = ClusterTime(seen.time, seen.inc)
    token = bson.encode(event["_id"])
    assert token_time(token) == time
    empty = Reply([], token, alive=True)
    assert proves_the_end(empty, time.previous(), sharded=True)
    assert not proves_the_end(empty, time, sharded=True)
    assert not proves_the_end(Reply([], None, alive=True), time, sharded=True)
    assert proves_the_end(empty, time, sharded=False)
    assert not proves_the_end(Reply([], token, alive=False), time, sharded=False)
    with pytest.raises(ValueError, match="timestamp"):
        token_time(bson.encode({"_data": "99" * 20}))
