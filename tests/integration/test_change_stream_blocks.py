"""Replies that become rows all at once, and those among them that go event by event: they are the same range."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from bson import ObjectId
from pymongo import MongoClient
from pyspark.sql.streaming.datasource import ReadMaxRows

from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from streaming.source.change_cursor import ChangeRange
from streaming.source.change_stream import MongoChangesReader, Offset, RangePartition
from streaming.source.event_block import EventBlock
from streaming.source.hints import Hints, write_hints
from tests.support.changes import now, picked, read, reader, trailer

Client = MongoClient[dict[str, Any]]
SEED = 61
IDS: list[Any] = [*range(8), "a", "b", ObjectId(b"x" * 12), 1.5]


@pytest.fixture
def start(mongo_uri: str, database: str) -> ClusterTime:
    """A position before anything that the test does."""
    return now(mongo_uri)


def source(uri: str, database: str, events: str, reply: int, **more: str) -> MongoChangesReader:
    """One that asks for so many events in a reply."""
    options = {
        "collection__include__list": rf"{database}\.(orders|items|gone)",
        "signal__data__collection": f"{database}.signals",
        "columns": "state",
        "trailer": "true",
        "failures": "rows",
    }
    made = reader(uri, events=events, **{**options, **more})
    made._options = replace(made._options, stream=replace(made._options.stream, batch_size=reply))
    return made


def change(client: Client, database: str) -> None:
    """Changes of all kinds, signals and a drop between them, of few documents, so that many are changed often."""
    random, db = Random(SEED), client[database]
    for number in range(150):
        where, key = db[random.choice(("orders", "items"))], random.choice(IDS)
        match random.randrange(12):
            case 0:
                db["signals"].insert_one({"_id": f"s{number}", "type": "log", "data": {"message": "between"}})
            case 1 | 2:
                where.delete_one({"_id": key})
            case 3 | 4 | 5:
                where.replace_one({"_id": key}, {"n": number}, upsert=True)
            case 6:
                where.replace_one({"_id": key}, {"n": number, "large": "x" * 40_000}, upsert=True)
            case _:
                where.update_one({"_id": key}, {"$set": {"n": number}})
        if number % 50 == 20:
            db["gone"].insert_one({"_id": number})
            db["gone"].drop()


@pytest.mark.parametrize("reply", [1, 4, 1_000])
@pytest.mark.parametrize("lookup", ["change_streams_update_full", "change_streams"])
def test_a_landing_sees_the_same(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime, reply: int, lookup: str
) -> None:
    """Whatever lies in a reply: of ordinary changes, of signals and drops between them, and of large documents, as of
    all events one by one; and the trailer counts the same."""
    change(mongo_client, database)
    end = now(mongo_uri)
    rows = {
        events: read(source(mongo_uri, database, events, reply, capture__mode=lookup), start, end)
        for events in ("latest", "all")
    }
    assert picked(rows["latest"][:-1]) == picked(rows["all"][:-1]), f"seed {SEED}"
    assert len(rows["latest"]) < len(rows["all"])
    counted = {events: trailer(found) for events, found in rows.items()}
    for events in counted:
        del counted[events]["bytes"], counted[events]["sizes"]  # of the rows, of which there are fewer
    assert counted["latest"] == counted["all"]


@pytest.mark.parametrize("reply", [1, 3, 1_000])
def test_a_range_ends_at_the_same_event(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime, reply: int
) -> None:
    """In blocks and out of them: the events up to the end, at every cluster time as an end, and the token behind them.
    A dropped collection that is watched alone ends its stream in both."""
    change(mongo_client, database)
    spec = source(mongo_uri, database, "latest", reply)._options.stream
    last = now(mongo_uri)
    times = sorted({event[1] for events in ChangeRange(mongo_uri, spec, start, last) for event in events})
    for time in (*times[::17], times[-1]):
        end = ClusterTime.from_int(time)
        plain, blocks = (ChangeRange(mongo_uri, spec, start, end) for _ in range(2))
        expected = [event for events in plain for event in events]
        found, kinds = [], set()
        for events in blocks.replies(blocks=True):
            kinds.add(type(events))
            found += events.events() if isinstance(events, EventBlock) else events
        assert found == expected
        assert found[-1][1] == time
        assert blocks.token == plain.token
        assert EventBlock in kinds


def test_what_recent_batches_had_is_known_to_the_server(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime, tmp_path: Path
) -> None:
    """The names that the engine has written down reach every split, and the stage that the server gets; what is not
    captured is not among them."""
    hints = tmp_path / "hints.json"
    known = Namespace(database, "orders"), Namespace(database, "others")
    write_hints(hints, Hints(known=known))
    options = {"hints__file": str(hints), "collection__include__list": rf"{database}\.o.*ers,other\..*"}
    made = source(mongo_uri, database, "latest", 100, **options)
    mongo_client[database]["orders"].insert_one({"_id": 1})
    offset = made.latestOffset(Offset(start).to_json(), ReadMaxRows(100))
    end = Offset.from_json(offset).time
    (partition,) = made.partitions(Offset(start).to_json(), offset)
    assert isinstance(partition, RangePartition)
    assert partition.known == known
    stage = replace(made._options.stream, known=partition.known).pipeline({})[1]
    compared = stage["$match"]["$or"][0]["$expr"]["$or"][0]["$in"][1]
    assert [name["$literal"] for name in compared] == [
        f"{database}.{name}" for name in ("signals", "orders", "others")
    ]
    assert [row["collection"] for row in read(made, start, end)] == ["orders", None]
