"""Every update operator of Debezium's tests on a real server: what the stream brings is the document that it makes.

`ExtractNewDocumentStateArrayOperatorTestIT`, and those of bits and of fields, try what a flattened record holds behind
each (docs/peer-tests.md). A state table holds the document; here it is read as a landing reads it. And what was before
a change, where that is asked for.
"""

from __future__ import annotations

from typing import Any

import bson
import pytest
from pymongo import MongoClient

from streaming.canonical.documents import canonical_document
from streaming.layouts.columns.layout import COLUMNS
from tests.support.changes import now, read_since

Client = MongoClient[dict[str, Any]]
BEFORE = {"text": "hello", "n": 123, "list": [{"key": 1}, {"key": 2}], "nested": {"v": 1, "w": 2}}

OPERATORS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "$addToSet": ({"list": {"key": 3}}, {"list": [{"key": 1}, {"key": 2}, {"key": 3}]}, []),
    "$pop": ({"list": 1}, {"list": [{"key": 1}]}, []),
    "$pull": ({"list": {"key": 1}}, {"list": [{"key": 2}]}, []),
    "$pullAll": ({"list": [{"key": 1}, {"key": 2}]}, {"list": []}, []),
    "$push": (
        {"list": {"$each": [{"key": 0}], "$position": 0}},
        {"list": [{"key": 0}, {"key": 1}, {"key": 2}]},
        [],
    ),
    "$bit and": ({"n": {"and": 1}}, {"n": 1}, []),
    "$bit or": ({"n": {"or": 4}}, {"n": 127}, []),
    "$bit xor": ({"n": {"xor": 8}}, {"n": 115}, []),
    "$inc": ({"n": 123, "nested.v": -1}, {"n": 246, "nested": {"v": 0, "w": 2}}, []),
    "$min": ({"n": 122, "nested.v": 2}, {"n": 122}, []),
    "$max": ({"n": 124, "nested.v": 0}, {"n": 124}, []),
    "$mul": ({"n": 3, "new": 2}, {"n": 369, "new": 0}, []),
    "$rename": ({"n": "number", "nested.v": "nested.x"}, {"number": 123, "nested": {"w": 2, "x": 1}}, ["n"]),
    "$set": (
        {"n": 0, "nested.v": "other", "new": {"a": [1]}},
        {"n": 0, "nested": {"v": "other", "w": 2}, "new": {"a": [1]}},
        [],
    ),
    "$unset": ({"text": "", "nested.v": ""}, {"nested": {"w": 2}}, ["text"]),
}
IMAGES = {"capture__mode__full__update__type": "post_image"}


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_update_brings_the_document_that_it_makes(
    mongo_uri: str, mongo_client: Client, database: str, operator: str
) -> None:
    """Looked up or stored by the server, for a state table or with all columns; and as a row it is that document."""
    argument, changed, gone = OPERATORS[operator]
    start = now(mongo_uri)
    images = {"enabled": True}
    items = mongo_client[database].create_collection("items", changeStreamPreAndPostImages=images)
    items.insert_one({"_id": 1, **BEFORE})
    items.update_one({"_id": 1}, {operator.split()[0]: argument})
    expected = {name: value for name, value in {"_id": 1, **BEFORE, **changed}.items() if name not in gone}
    raw = bson.encode(expected)
    assert canonical_document(bson.encode(items.find_one({"_id": 1}) or {})) == canonical_document(raw)
    for options in ({}, IMAGES, {"columns": "state"}, {"columns": "state", **IMAGES}):
        insert, update = read_since(mongo_uri, start, database__include__list=database, **options)
        assert (insert["op"], update["op"], insert["document"]) == ("c", "u", {"_id": 1, **BEFORE})
        plan = COLUMNS.observe(bson.encode(insert["document"]))
        row = COLUMNS.decoder(plan).decode(bson.encode(update["document"]))
        assert COLUMNS.documents(plan, row.batch) == [canonical_document(raw)]


def test_set_on_insert_acts_on_an_insert_alone(mongo_uri: str, mongo_client: Client, database: str) -> None:
    """An upsert that finds nothing is an insert with what both operators set; on a document that is there the same
    changes only what ``$set`` says, and ``$setOnInsert`` alone is no event."""
    start = now(mongo_uri)
    items = mongo_client[database]["items"]
    both = {"$setOnInsert": {"first": 789}, "$set": {"n": 456}}
    items.update_one({"_id": 2}, both, upsert=True)
    items.update_one({"_id": 2}, {"$setOnInsert": {"first": 123}}, upsert=True)
    items.update_one({"_id": 2}, {"$setOnInsert": {"first": 123}, "$set": {"n": 457}}, upsert=True)
    rows = read_since(mongo_uri, start, database__include__list=database)
    assert [row["op"] for row in rows] == ["c", "u"]
    assert rows[0]["document"] == {"_id": 2, "first": 789, "n": 456}
    assert rows[1]["document"] == {"_id": 2, "first": 789, "n": 457}
    assert rows[1]["update_description"]["updatedFields"] == {"n": 457}


def test_what_was_before_a_change(mongo_uri: str, mongo_client: Client, database: str) -> None:
    """Where the collection keeps it and `capture.mode` asks for it: of an update, a replacement and a delete the
    document as the change before had left it; an insert has none, and neither has any change of a collection that keeps
    nothing."""
    start = now(mongo_uri)
    kept = mongo_client[database].create_collection("kept", changeStreamPreAndPostImages={"enabled": True})
    for items in (kept, mongo_client[database]["plain"]):
        items.insert_one({"_id": 1, "v": 0})
        items.update_one({"_id": 1}, {"$set": {"v": 1}})
        items.replace_one({"_id": 1}, {"w": 2})
        items.delete_one({"_id": 1})
    for mode in ("change_streams_with_pre_image", "change_streams_update_full_with_pre_image"):
        rows = read_since(mongo_uri, start, database__include__list=database, capture__mode=mode)
        found = [(row["collection"], row["operation_type"], row["before"]) for row in rows]
        assert found == [
            ("kept", "insert", None),
            ("kept", "update", {"_id": 1, "v": 0}),
            ("kept", "replace", {"_id": 1, "v": 1}),
            ("kept", "delete", {"_id": 1, "w": 2}),
            *(("plain", operation, None) for operation in ("insert", "update", "replace", "delete")),
        ]
