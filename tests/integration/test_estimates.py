"""What a request would read, asked of a real server: the whole, a part, and what cannot be found out."""

from __future__ import annotations

import re
import struct
from typing import Any

import bson
import pytest
from pymongo import MongoClient

from snapshotter.core.values.chunks import Bound, KeyRange
from snapshotter.core.values.requests import SnapshotRequest, Wanted
from snapshotter.reading.range_find import bound_of
from snapshotter.reporting.answers import CollectionEstimate, DryRun
from snapshotter.reporting.estimates import estimate
from snapshotter.testing.mongodb import start_mongodb
from streaming.namespaces import Namespace
from tests.support.bson_documents import document
from tests.support.inserts import insert_raw


def bound(value: object) -> Bound:
    return bound_of(bson.encode({"_id": value}))


@pytest.fixture
def orders(mongo_client: MongoClient[Any], database: str) -> Namespace:
    """A hundred documents of 45 bytes with numbers for ids, and one more of the same size."""
    documents = [{"_id": n, "even": n % 2 == 0, "text": "0123456789"} for n in range(100)]
    mongo_client[database]["orders"].insert_many([*documents, {"_id": "zzz", "even": True, "text": "01"}])
    return Namespace(database, "orders")


def asked(client: MongoClient[Any], *wanted: Wanted, **more: Any) -> DryRun:
    return estimate(SnapshotRequest("d", wanted), client, **{"rows_per_second": 10.0, **more})


def part_of(client: MongoClient[Any], wanted: Wanted, **more: Any) -> CollectionEstimate:
    (part,) = asked(client, wanted, **more).collections
    return part


def test_a_whole_collection(mongo_client: MongoClient[Any], orders: Namespace) -> None:
    """From its metadata: how many, how large, from which id to which, and how long at the measured speed."""
    part = part_of(mongo_client, Wanted(orders))
    size = len(bson.encode({"_id": 1, "even": True, "text": "0123456789"}))
    assert (part.documents, part.counted, part.seconds, part.notes) == (101, False, 10.1, ())
    assert (part.first, part.last) == ('{"$numberInt": "0"}', '"zzz"')
    assert part.bytes is not None
    assert abs(part.bytes - 101 * size) <= 101
    assert part_of(mongo_client, Wanted(orders), rows_per_second=None).seconds is None


def test_ids_that_no_driver_reads(mongo_client: MongoClient[Any], database: str) -> None:
    """A collection that begins with old binary data without its second length, and ends with a date beyond 9999."""
    ids = (0x05, struct.pack("<i", 2) + b"\x02ab"), (0x09, struct.pack("<q", 2**62))
    insert_raw(mongo_client[database]["orders"], [document([(b"_id", id_)]) for id_ in ids])
    part = part_of(mongo_client, Wanted(Namespace(database, "orders")))
    assert part.first == '{"$binary": {"base64": "YWI=", "subType": "02"}}'
    assert part.last == f'{{"$date": {{"$numberLong": "{2**62}"}}}}'


def test_parts_are_counted(mongo_client: MongoClient[Any], orders: Namespace) -> None:
    """Ids that are there, the ids of a range, what a filter matches of it."""

    def found(wanted: Wanted) -> tuple[object, ...]:
        part = part_of(mongo_client, wanted)
        assert part.counted
        return part.documents, part.first, part.last

    three, seven, zzz = '{"$numberInt": "3"}', '{"$numberInt": "7"}', '"zzz"'
    assert found(Wanted(orders, keys=tuple(map(bound, (7, 999, 3))))) == (2, three, seven)
    within = KeyRange(bound(3), bound(7), closed=True)
    assert found(Wanted(orders, range=within)) == (5, three, seven)
    assert found(Wanted(orders, '{"even": false}', range=within)) == (3, three, seven)
    assert found(Wanted(orders, range=KeyRange(bound(99), None, closed=True))) == (
        2,
        '{"$numberInt": "99"}',
        zzz,
    )
    assert found(Wanted(orders, '{"even": true}')) == (51, '{"$numberInt": "0"}', zzz)
    assert found(Wanted(orders, '{"even": "neither"}')) == (0, None, None)


def test_the_sum_of_all(mongo_client: MongoClient[Any], orders: Namespace) -> None:
    """Over several collections; what is not known of one is not known of all."""
    gone = Namespace(orders.database, "gone")
    answer = asked(mongo_client, Wanted(orders), Wanted(gone))
    assert (answer.documents, answer.bytes) == (101, None)
    assert "the bytes: not known" in answer.collections[1].notes[0]


def test_no_time(mongo_client: MongoClient[Any], orders: Namespace) -> None:
    """Nothing is known then, and it is said; no error."""
    part = part_of(mongo_client, Wanted(orders, '{"even": true}'), limit_seconds=0.0)
    assert (part.documents, part.bytes, part.seconds, part.first) == (None, None, None, None)
    assert len(part.notes) == 3
    assert all("takes too long" in note for note in part.notes)


def test_a_slow_count_is_given_up(mongo_client: MongoClient[Any], orders: Namespace) -> None:
    """By the server, in the middle of it; what needs no count is known."""
    slow = '{"$expr": {"$function": {"body": "function() { sleep(100); return true; }", "args": [], "lang": "js"}}}'
    answer = part_of(mongo_client, Wanted(orders, slow), limit_seconds=0.5)
    assert answer.documents is None
    assert any(re.search("the documents: not known, .*takes too long", note) for note in answer.notes)


@pytest.mark.parametrize("code", [50, 11601], ids=["MaxTimeMSExpired", "Interrupted"])
def test_an_interrupted_count_is_given_up(code: int) -> None:
    """The server says that of JavaScript which runs when the time is over."""
    with start_mongodb(set_parameters={"enableTestCommands": 1}) as deployment:
        client = deployment.client()
        client["shop"]["orders"].insert_one({"_id": 1})
        failing = {"failCommands": ["aggregate"], "errorCode": code}
        client["admin"].command("configureFailPoint", "failCommand", mode="alwaysOn", data=failing)
        answer = part_of(client, Wanted(Namespace("shop", "orders"), '{"n": 1}'))
    assert answer.documents is None
    assert any(re.search("the documents: not known, .*takes too long", note) for note in answer.notes)
