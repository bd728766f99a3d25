"""Ids that no document has: what is said of them, with what ids look like there."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from bson import ObjectId
from bson.datetime_ms import DatetimeMS
from pymongo import MongoClient
from pymongo.collation import Collation

from signals.parsing.extended_json import canonical
from snapshotter.reading.missing_keys import missing_keys
from streaming.namespaces import Namespace
from tests.support.bson_documents import document
from tests.support.inserts import insert_raw

Client = MongoClient[dict[str, Any]]
DIGITS = "65a1b2c3d4e5f60718293a4b"


def said(client: Client, database: str, *keys: object) -> str | None:
    return missing_keys(client, Namespace(database, "orders"), [canonical(key) for key in keys])


def test_an_id_of_another_type_is_recognised(mongo_client: Client, database: str) -> None:
    """An ObjectId's digits as a text, a number as a text: both are shown as a command line takes them."""
    orders = mongo_client[database]["orders"]
    orders.insert_one({"_id": ObjectId(DIGITS)})
    assert said(mongo_client, database, ObjectId(DIGITS)) is None
    assert said(mongo_client, database, DIGITS) == (
        f'no document of {database}.orders has the id "{DIGITS}"; ids there look like {{"$oid": "{DIGITS}"}}; '
        f'did you mean {{"$oid": "{DIGITS}"}}?'
    )
    orders.insert_many([{"_id": n} for n in range(5)])
    text = said(mongo_client, database, "3", 4, 9.0) or ""
    assert text.startswith(
        f'no document of {database}.orders has the id "3", 9.0; ids there look like 0 and {{"$oid"'
    )
    assert text.endswith("; did you mean 3?")


@pytest.mark.parametrize("found", [4, 4.0])
def test_numbers_that_are_equal_are_one_id(mongo_client: Client, database: str, found: float) -> None:
    """As MongoDB has it."""
    mongo_client[database]["orders"].insert_one({"_id": found})
    assert said(mongo_client, database, 4) is None


def test_what_a_collation_takes_for_equal_is_there(mongo_client: Client, database: str) -> None:
    """The collection's own rules count; keys that are two texts may be one id."""
    mongo_client[database].create_collection("orders", collation=Collation("en", strength=2))
    mongo_client[database]["orders"].insert_one({"_id": "a"})
    assert said(mongo_client, database, "A", "a") is None


@pytest.mark.parametrize("text", ["--5", "9" * 19, "-9223372036854775809", "1" * 24, "²", "-", ""])
def test_what_looks_like_a_number_and_is_none(mongo_client: Client, database: str, text: str) -> None:
    """Nothing is found, and nothing fails: MongoDB's integers have 64 bits."""
    mongo_client[database]["orders"].insert_one({"_id": 4})
    told = said(mongo_client, database, text) or ""
    assert told.endswith("ids there look like 4")


def test_ids_that_no_driver_reads_are_shown(mongo_client: Client, database: str) -> None:
    """Old binary data without its second length, a date beyond the year 9999: also where such an id is asked for."""
    orders = mongo_client[database]["orders"]
    old_binary, late = (0x05, struct.pack("<i", 2) + b"\x02ab"), (0x09, struct.pack("<q", 2**62))
    insert_raw(orders, [document([(b"_id", id_)]) for id_ in (old_binary, late)])
    assert said(mongo_client, database, 4) == (
        f'no document of {database}.orders has the id 4; ids there look like {{"$binary": {{"base64": "YWI=", '
        f'"subType": "02"}}}} and {{"$date": {{"$numberLong": "{2**62}"}}}}'
    )
    text = said(mongo_client, database, DatetimeMS(2**62), 4) or ""
    assert text.startswith(f"no document of {database}.orders has the id 4;")


def test_an_empty_collection_and_very_many_ids(mongo_client: Client, database: str) -> None:
    """The first are named, and the others counted."""
    text = said(mongo_client, database, *range(200))
    assert text == f"no document of {database}.orders has the id 0, 1, 2 and 97 more: it is empty"
