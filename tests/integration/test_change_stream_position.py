"""Where a stream starts, how far a batch goes, and that a position only ever moves forward."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import bson
import pytest
from pymongo import MongoClient
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from snapshotter.testing.mongodb import start_mongodb
from snapshotter.testing.processes import wait_until
from streaming.mongo.deployment import oldest_time
from streaming.mongo.errors import ConfigurationError
from streaming.positions import ORIGIN, ClusterTime
from streaming.source import admission
from streaming.source.change_stream import MongoChangesReader, Offset
from streaming.source.hints import Hints, write_hints
from tests.support.changes import batch_ends, brief, now, read, reader

Client = MongoClient[dict[str, Any]]


def first_batch(source: MongoChangesReader) -> tuple[ClusterTime, ClusterTime]:
    """Start and end of a new query's first batch."""
    start = source.initialOffset()
    end = source.latestOffset(start, ReadAllAvailable())
    return Offset.from_json(start).time, Offset.from_json(end).time


def rest_of(source: MongoChangesReader, position: ClusterTime, uri: str) -> list[tuple[Any, ...]]:
    return brief(read(source, position, now(uri)))


def test_from_now(mongo_uri: str, mongo_client: Client, database: str) -> None:
    """What was written before the start is not read; what comes after it is."""
    items = mongo_client[database]["items"]
    items.insert_one({"_id": "before"})
    source = reader(mongo_uri, database__include__list=database)
    start, position = first_batch(source)
    items.insert_one({"_id": "after"})
    assert start == ORIGIN
    assert read(source, start, position) == []
    assert rest_of(source, position, mongo_uri) == [("insert", "after")]


def test_a_first_batch_that_is_replayed_keeps_its_position(
    mongo_uri: str, mongo_client: Client, database: str
) -> None:
    """Killed before its first batch was committed, Spark asks for the initial offset again, much later.

    It must not be a later "now": the end of the first batch, which Spark did record, stays the position.
    """
    source = reader(mongo_uri, database__include__list=database)
    _, recorded = first_batch(source)
    mongo_client[database]["items"].insert_one({"_id": "in between"})
    restarted = reader(mongo_uri, database__include__list=database)
    start_again = Offset.from_json(restarted.initialOffset()).time
    assert start_again < recorded
    assert read(restarted, start_again, recorded) == []
    assert rest_of(restarted, recorded, mongo_uri) == [("insert", "in between")]


def test_from_a_timestamp(mongo_uri: str, mongo_client: Client, database: str) -> None:
    """`capture.start.op.time` is the first operation that is read."""
    items = mongo_client[database]["items"]
    before = now(mongo_uri)
    items.insert_many([{"_id": number} for number in range(3)])
    rows = read(reader(mongo_uri, database__include__list=database), before, now(mongo_uri))
    second = str(rows[1]["cluster_time"])
    source = reader(mongo_uri, database__include__list=database, capture__start__op__time=second)
    start, end = first_batch(source)
    assert brief(read(source, start, end)) == [("insert", 1), ("insert", 2)]


def test_from_the_oldest(mongo_uri: str, mongo_client: Client, database: str) -> None:
    """The first entry of the oplog is included."""
    mongo_client[database]["items"].insert_one({"_id": 1})
    source = reader(mongo_uri, database__include__list=database, start__position="oldest")
    _, position = first_batch(source)
    assert position.next() == oldest_time(mongo_client)
    assert rest_of(source, position, mongo_uri) == [("insert", 1)]


def token_of(client: Client, database: str, write: Any) -> str:
    """The resume token of what ``write`` does, as a connector stores it."""
    with client[database].watch() as stream:
        write()
        return base64.b64encode(bson.encode(dict(next(stream)["_id"]))).decode()


def test_from_a_resume_token(mongo_uri: str, mongo_client: Client, database: str) -> None:
    """The first event behind the token is the first that is read, however much later it came."""
    items = mongo_client[database]["items"]
    token = token_of(mongo_client, database, lambda: items.insert_one({"_id": "seen"}))
    items.insert_one({"_id": "next"})
    items.insert_one({"_id": "last"})
    source = reader(mongo_uri, database__include__list=database, start__resume__token=token)
    start, position = first_batch(source)
    assert read(source, start, position) == []
    assert rest_of(source, position, mongo_uri) == [("insert", "next"), ("insert", "last")]


def test_from_the_resume_token_of_an_idle_stream(mongo_uri: str, mongo_client: Client, database: str) -> None:
    """Nothing behind the token: the position is the point up to which that has been seen."""
    items = mongo_client[database]["items"]
    token = token_of(mongo_client, database, lambda: items.insert_one({"_id": "seen"}))
    mongo_client["admin"].command("appendOplogNote", 1, data={"test": "moves the clock"})
    before = now(mongo_uri)
    source = reader(mongo_uri, database__include__list=database, start__resume__token=token)
    _, position = first_batch(source)
    assert position >= before
    items.insert_one({"_id": "next"})
    assert rest_of(source, position, mongo_uri) == [("insert", "next")]


def test_from_the_resume_token_of_an_invalidate(mongo_uri: str, mongo_client: Client, database: str) -> None:
    """Stored by a connector whose collection was dropped; MongoDB refuses to *resume* after it."""
    items = mongo_client[database]["items"]
    items.insert_one({"_id": 1})
    with items.watch() as stream:
        items.drop()
        tokens = [event["_id"] for event in stream if event["operationType"] == "invalidate"]
    items.insert_one({"_id": 2})
    options = {"capture__scope": "collection", "capture__target": f"{database}.items"}
    source = reader(mongo_uri, start__resume__token=json.dumps(dict(tokens[0])), **options)
    _, position = first_batch(source)
    assert rest_of(source, position, mongo_uri) == [("insert", 2)]


def test_a_token_that_is_none_is_refused(mongo_uri: str, mongo_client: Client) -> None:
    """The server's words are passed on; nothing of the token is interpreted here."""
    source = reader(mongo_uri, start__resume__token='{"_data": "not a token"}')
    with pytest.raises(ConfigurationError, match="resume token"):
        first_batch(source)


def test_an_idle_deployment_moves_the_position() -> None:
    """Nobody writes: the server's own no-ops move the majority time, and the position with it."""
    with start_mongodb(set_parameters={"periodicNoopIntervalSecs": 1}) as mongo:
        source = reader(mongo.uri)
        start = source.latestOffset(source.initialOffset(), ReadMaxRows(10))

        def moved() -> dict[str, int] | None:
            end = source.latestOffset(start, ReadMaxRows(10))
            return end if end != start else None

        end = wait_until(moved, "the position to move on an idle deployment")
        begin, until = Offset.from_json(start).time, Offset.from_json(end).time
        assert until > begin
        assert read(source, begin, until) == []


def test_the_latest_offset_never_goes_back(mongo_uri: str, database: str) -> None:
    """Asked from a position that this node has not reached, the answer is that position."""
    ahead = Offset(ClusterTime(now(mongo_uri).t + 3_600, 1), nonce=7)
    source = reader(mongo_uri)
    for limit in (ReadMaxRows(1), ReadAllAvailable()):
        assert source.latestOffset(ahead.to_json(), limit) == ahead.to_json()


def test_a_nonce_makes_a_batch_although_no_time_has_passed(mongo_uri: str, tmp_path: Path) -> None:
    """The offset differs, the range is empty, and the batch holds a trailer."""
    hints = tmp_path / "hints.json"
    source = reader(mongo_uri, hints__file=str(hints), trailer="true")
    ahead = Offset(ClusterTime(now(mongo_uri).t + 3_600, 1))
    assert source.latestOffset(ahead.to_json(), ReadMaxRows(1)) == ahead.to_json()
    write_hints(hints, Hints(nonce=1))
    end = Offset.from_json(source.latestOffset(ahead.to_json(), ReadMaxRows(1)))
    assert end == Offset(ahead.time, nonce=1)
    rows = read(source, ahead.time, end.time)
    assert [row["kind"] for row in rows] == ["trailer"]


def test_a_batch_waits_as_long_as_the_hints_say(
    mongo_uri: str, mongo_client: Client, database: str, tmp_path: Path
) -> None:
    """The position stands still although the stream moves on, until the wait is lifted or a nonce asks for a batch."""
    hints = tmp_path / "hints.json"
    source = reader(mongo_uri, hints__file=str(hints))
    _, start = first_batch(source)
    mongo_client[database]["items"].insert_one({"_id": 1})

    def end() -> ClusterTime:
        return Offset.from_json(source.latestOffset(Offset(start).to_json(), ReadMaxRows(100))).time

    write_hints(hints, Hints(wait_seconds=3_600))
    assert end() == start
    write_hints(hints, Hints(nonce=1, wait_seconds=3_600))
    assert end() > start
    write_hints(hints, Hints())
    assert end() > start


def test_a_nonce_of_before_a_restart_is_another_one(mongo_uri: str, tmp_path: Path) -> None:
    """The file is new with every process, and counts from the beginning: a batch comes all the same."""
    hints = tmp_path / "hints.json"
    source = reader(mongo_uri, hints__file=str(hints))
    ahead = Offset(ClusterTime(now(mongo_uri).t + 3_600, 1), nonce=7)
    write_hints(hints, Hints(nonce=1))
    end = Offset.from_json(source.latestOffset(ahead.to_json(), ReadMaxRows(1)))
    assert end == Offset(ahead.time, nonce=1)
    assert source.latestOffset(end.to_json(), ReadMaxRows(1)) == end.to_json()


def test_a_position_that_is_held_stands_still(
    mongo_uri: str, mongo_client: Client, database: str, tmp_path: Path
) -> None:
    """Whatever batches are asked for, until it is let go, or the stream is so far ahead. A first position is taken
    all the same."""
    hints = tmp_path / "hints.json"
    write_hints(hints, Hints(hold_seconds=3_600))
    source = reader(mongo_uri, hints__file=str(hints))
    _, start = first_batch(source)
    assert start > ORIGIN
    mongo_client[database]["items"].insert_one({"_id": 1})

    def end(begin: ClusterTime) -> Offset:
        return Offset.from_json(source.latestOffset(Offset(begin).to_json(), ReadMaxRows(100)))

    assert end(start).time == start
    write_hints(hints, Hints(nonce=1, hold_seconds=3_600))
    assert end(start) == Offset(start, nonce=1)
    early = ClusterTime(start.t - 3_700, 1)
    assert end(early).time > early
    write_hints(hints, Hints(nonce=1))
    assert end(start).time > start


def test_hints_that_are_none_are_named(mongo_uri: str, tmp_path: Path) -> None:
    """A wrong file under `hints.file` is a configuration error."""
    path = tmp_path / "hints.json"
    path.write_text("hello", encoding="utf-8")
    source = reader(mongo_uri, hints__file=str(path))
    with pytest.raises(ConfigurationError, match=r"hints\.file=.*hints\.json.*'hello'"):
        source.latestOffset(source.initialOffset(), ReadMaxRows(1))


def test_available_now_stops_where_it_began(mongo_uri: str, mongo_client: Client, database: str) -> None:
    """What is written after the trigger has started is left to the next run."""
    items = mongo_client[database]["items"]
    items.insert_one({"_id": 1})
    start = now(mongo_uri)
    source = reader(mongo_uri, database__include__list=database)
    source.prepareForTriggerAvailableNow()
    items.insert_one({"_id": 2})
    items.insert_one({"_id": 3})
    (end,) = {Offset.from_json(source.latestOffset(Offset(start).to_json(), ReadMaxRows(9))).time}
    assert brief(read(source, start, end)) == []
    assert source.latestOffset(Offset(end).to_json(), ReadMaxRows(9)) == Offset(end).to_json()


def test_a_backlog_is_cut_into_batches_of_the_limit(
    mongo_uri: str, mongo_client: Client, database: str
) -> None:
    """20,000 events in batches of 3,000: none lost, none doubled, and no batch much above the limit."""
    items = mongo_client[database]["items"]
    start = now(mongo_uri)
    for first in range(0, 20_000, 5_000):
        items.insert_many([{"_id": number} for number in range(first, first + 5_000)])
    end = now(mongo_uri)
    source = reader(mongo_uri, database__include__list=database)
    source._target = Offset(end)
    begin, ids, sizes = start, [], []
    for cut in batch_ends(source, start, end, limit=3_000):
        rows = read(source, begin, cut)
        sizes.append(len(rows))
        ids += [row["document_key"]["_id"] for row in rows]
        begin = cut
    assert ids == list(range(20_000))
    assert max(sizes) <= 3_300
    assert len(sizes) >= 7


def test_small_limits_are_exact(mongo_uri: str, mongo_client: Client, database: str) -> None:
    """Counted one by one, a batch holds exactly the limit."""
    items = mongo_client[database]["items"]
    start = now(mongo_uri)
    items.insert_many([{"_id": number} for number in range(25)])
    end = now(mongo_uri)
    source = reader(mongo_uri, database__include__list=database)
    source._target = Offset(end)
    ends = batch_ends(source, start, end, limit=10)
    sizes = [len(read(source, a, b)) for a, b in zip([start, *ends], ends, strict=False)]
    assert sizes == [10, 10, 5]


def test_a_transaction_above_the_limit_goes_whole(
    mongo_uri: str, mongo_client: Client, database: str
) -> None:
    """Its events carry one time: the limit of 10 cuts before and behind it, never in it."""
    items = mongo_client[database]["items"]
    items.drop()
    mongo_client[database].create_collection("items")
    start = now(mongo_uri)
    items.insert_one({"_id": "before"})
    with mongo_client.start_session() as session, session.start_transaction():
        for number in range(40):
            items.insert_one({"_id": number}, session=session)
    items.insert_one({"_id": "after"})
    end = now(mongo_uri)
    source = reader(mongo_uri, database__include__list=database)
    source._target = Offset(end)
    ends = batch_ends(source, start, end, limit=10)
    batches = [len(read(source, a, b)) for a, b in zip([start, *ends], ends, strict=False)]
    assert batches == [1, 40, 1]


@pytest.mark.parametrize("by_oplog", [True, False])
def test_drops_are_counted_over(
    mongo_uri: str, mongo_client: Client, database: str, monkeypatch: pytest.MonkeyPatch, by_oplog: bool
) -> None:
    """A count goes on behind an invalidate, as the read does."""
    items = mongo_client[database]["items"]
    start = now(mongo_uri)
    for _ in range(3):
        items.insert_many([{"_id": number} for number in range(10)])
        items.drop()
    end = now(mongo_uri)
    source = reader(mongo_uri, capture__scope="collection", capture__target=f"{database}.items")
    source._target = Offset(end)
    source._backlog._oplog_readable = by_oplog
    ends = batch_ends(source, start, end, limit=15)
    sizes = [len(read(source, a, b)) for a, b in zip([start, *ends], ends, strict=False)]
    assert sizes == [15, 18]  # three too many at the end of a backlog are taken along
    monkeypatch.setattr(admission, "SAMPLES_MIN", 1)  # counts a sample
    ends = batch_ends(source, start, end, limit=15)
    assert sum(len(read(source, a, b)) for a, b in zip([start, *ends], ends, strict=False)) == 33


def test_read_all_available_ignores_the_limit(mongo_uri: str, mongo_client: Client, database: str) -> None:
    """As Spark asks of a source; a limit in bytes is refused, rather than misread."""
    start = now(mongo_uri)
    mongo_client[database]["items"].insert_many([{"_id": number} for number in range(50)])
    source = reader(mongo_uri, database__include__list=database, engine__batch__max__events="10")
    end = Offset.from_json(source.latestOffset(Offset(start).to_json(), ReadAllAvailable())).time
    assert len(read(source, start, end)) == 50
    assert source.getDefaultReadLimit() == ReadMaxRows(10)
    with pytest.raises(ConfigurationError, match="by rows"):
        source.latestOffset(Offset(start).to_json(), ReadMaxBytes(10))
