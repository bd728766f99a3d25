"""Full documents of updates, looked up many at a time: the same as the server's own lookup gives."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pymongo import MongoClient

from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from streaming.source.change_cursor import ChangeRange
from streaming.source.change_options import ChangeOptions
from streaming.source.document_lookup import BYTES_AIM, BYTES_MAX, FIRST_IDS, DocumentLookup
from streaming.source.raw_events import Event
from tests.support.changes import now
from tests.support.ids import fill_with_twenty

Client = MongoClient[dict[str, Any]]


@pytest.fixture
def start(mongo_uri: str, database: str) -> ClusterTime:
    """A position before anything that the test does."""
    return now(mongo_uri)


def events(uri: str, database: str, start: ClusterTime, full_document: str | None = None) -> list[Event]:
    options = ChangeOptions.parse(
        {
            "mongodb.connection.string": uri,
            "database.include.list": database,
            "capture.mode": "change_streams_update_full" if full_document else "change_streams",
        }
    )
    end = now(uri)
    return [event for events in ChangeRange(uri, options.stream, start, end) for event in events]


def looked_up(
    uri: str, found: list[Event], captures: Any = lambda namespace: True
) -> tuple[list[Event], list[int]]:
    """The events filled, and how many there were in each list."""
    lookup = DocumentLookup(uri, now(uri), captures)
    lists = list(lookup.filled(found))
    return [event for events in lists for event in events], [len(events) for events in lists]


def documents(found: list[Event]) -> list[bytes | None]:
    return [event[3].get(b"fullDocument") for event in found]


def test_it_gives_what_the_server_gives(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime, rng: random.Random
) -> None:
    """Ids of every type in two collections, inserted, updated many times, replaced and deleted; once all is quiet, each
    event has the very document that the server's lookup gives, or none."""
    collections = [mongo_client[database][name] for name in ("orders", "people")]
    for collection in collections:
        fill_with_twenty(collection)
        collection.insert_many([{"_id": 1_000 + n, "n": 100 + n} for n in range(200)])
    for _ in range(600):
        collection, n = rng.choice(collections), rng.choice([*range(20), *range(100, 300)])
        match rng.randrange(6):
            case 0:
                collection.delete_one({"n": n})
            case 1:
                collection.replace_one({"n": n}, {"n": n, "replaced": True})
            case _:
                collection.update_one({"n": n}, {"$inc": {"version": 1}})
    bare = events(mongo_uri, database, start)
    expected = events(mongo_uri, database, start, full_document="updateLookup")
    filled, lists = looked_up(mongo_uri, bare)
    assert [(e[0], e[1], e[3][b"documentKey"]) for e in filled] == [
        (e[0], e[1], e[3][b"documentKey"]) for e in expected
    ]
    assert documents(filled) == documents(expected)
    assert None in documents([e for e in filled if e[0] == b"update"])
    assert len(lists) > 1
    assert sum(event[2] for event in filled) > sum(event[2] for event in bare), "the documents' sizes count"


def test_an_id_that_came_back_as_another_number_is_found(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """1 and 1.0 are one id, whichever is stored now."""
    orders = mongo_client[database]["orders"]
    orders.insert_one({"_id": 1})
    orders.update_one({"_id": 1}, {"$set": {"v": 1}})
    orders.delete_one({"_id": 1})
    orders.insert_one({"_id": 1.0, "v": 2})
    filled, _ = looked_up(mongo_uri, events(mongo_uri, database, start))
    update = filled[1]
    assert update[0] == b"update"
    assert update[3][b"fullDocument"] == filled[3][3][b"fullDocument"]


def test_what_is_gone_or_not_captured_has_no_document(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """A dropped collection's update has none; a collection that is not captured is not even asked."""
    for name in ("dropped", "left", "kept"):
        mongo_client[database][name].insert_one({"_id": 1})
        mongo_client[database][name].update_one({"_id": 1}, {"$set": {"v": 1}})
    mongo_client[database]["dropped"].drop()
    bare = [event for event in events(mongo_uri, database, start) if event[0] == b"update"]
    asked: list[str] = []

    def captures(namespace: Namespace) -> bool:
        asked.append(namespace.collection)
        return namespace.collection != "left"

    filled, _ = looked_up(mongo_uri, bare, captures)
    assert asked == ["dropped", "left", "kept"]
    assert [document is not None for document in documents(filled)] == [False, False, True]


def test_large_documents_are_asked_for_a_few_at_a_time(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """The first list proves too large and is asked for again in parts, which say how many fit from then on. Events that
    need none travel with the others."""
    orders = mongo_client[database]["orders"]
    each = BYTES_AIM // 4
    for n in range(FIRST_IDS + 8):
        orders.insert_one({"_id": n, "text": "x" * each})
    for n in range(FIRST_IDS + 8):
        orders.update_one({"_id": n}, {"$set": {"v": n}})
    orders.delete_one({"_id": 0})
    filled, lists = looked_up(mongo_uri, events(mongo_uri, database, start))
    assert len(filled) == 2 * (FIRST_IDS + 8) + 1
    assert FIRST_IDS * each > BYTES_MAX
    # All inserts came before the first update; three documents of a quarter, and their other fields, fit the aim.
    assert FIRST_IDS == 5 * 3 + 1
    assert lists == [FIRST_IDS + 8 + 3, 3, 3, 3, 3, 1, 3, 3, 2 + 1]
