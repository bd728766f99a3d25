"""Documents of Debezium's tests of its flattening transform, as rows of ours (docs/peer-tests.md).

`ExtractNewDocumentState` makes of a document a struct of Kafka Connect; a table of ours has the document as columns,
and in `_rescued_data` what no column takes. Where Debezium raises an error or drops a value, ours keeps it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import bson
import pytest

from streaming.bson.elements import UNDEFINED
from streaming.canonical.documents import canonical_document
from streaming.layouts.columns.layout import COLUMNS
from tests.support.bson_documents import document as raw_document

NOON = datetime(2020, 1, 27, 10, 47, 12, 311_000, UTC)
OID = bson.ObjectId("6182b1a25711ed59dd6a1d6c")
RESTAURANT = {
    "address": {
        "building": "1007",
        "floor": {"level": 17, "description": "level 17"},
        "coord": [-73.856077, 40.848447],
        "street": "Morris Park Ave",
    },
    "grades": [{"date": NOON, "grade": "A", "score": 2}, {"date": NOON, "grade": "B", "score": 14}],
    "name": "Morris Park Bake Shop",
}
STAGES = [
    {
        "stageId": 1,
        "componentList": [{"componentId": 1, "action": "deploy"}, {"componentId": 2, "action": "x"}],
    },
    {"stageId": 2, "componentList": []},
]
USERS = [
    {"name": "John", "age": 30, "address": {"street": "123 Main St", "city": "NYC"}},
    {"name": "Jane", "email": "jane@example.com", "address": {}},
]
ITEM = {"title": "Product", "price": 899}

CASES: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (
        "numbers, text, dates and timestamps",
        {"s": "hello", "i": 123, "l": 80_000_000_000, "d": NOON, "t": bson.Timestamp(1_580_205_633, 1)},
        {"s": "string", "i": "bigint", "l": "bigint", "d": "timestamp"},
        {"/t": {"$timestamp": {"t": 1_580_205_633, "i": 1}}},
    ),
    (
        "documents and arrays within one another",
        RESTAURANT,
        {
            "address": "struct<building:string,floor:struct<level:bigint,description:string>,coord:array<double>,"
            "street:string>",
            "grades": "array<struct<date:timestamp,grade:string,score:bigint>>",
            "name": "string",
        },
        {},
    ),
    (
        "an array in an array of documents",
        {"pipeline": STAGES},
        {
            "pipeline": "array<struct<stageId:bigint,componentList:array<struct<componentId:bigint,action:string>>>>",
        },
        {},
    ),
    ("a DBRef", {"ref": bson.DBRef("other", 15)}, {"ref": "struct<$ref:string,$id:bigint>"}, {}),
    (
        "a field named op, and one named as a column of ours",
        {"op": "foo", "_op": "bar"},
        {"op": "string"},
        {"/_op": "bar"},
    ),
    (
        "names that Avro would not take",
        {"metrics": {"metric::fct": {"min": 0, "max": 1}}},
        {"metrics": "struct<metric::fct:struct<min:bigint,max:bigint>>"},
        {},
    ),
    ("an empty array", {"f": [], "g": 1}, {"g": "bigint"}, {"/f": []}),
    ("elements of several types", {"l": [11, "abc"]}, {"l": "array<bigint>"}, {"/l/1": "abc"}),
    (
        "one field of several types in documents of an array",
        {"l": [{"a": 1}, {"a": "c"}]},
        {"l": "array<struct<a:bigint>>"},
        {"/l/1/a": "c"},
    ),
    (
        "documents of several fields in an array",
        {"l": [{"a": 1}, {"b": "c"}], "users": USERS},
        {
            "l": "array<struct<a:bigint,b:string>>",
            "users": "array<struct<name:string,age:bigint,address:struct<street:string,city:string>,email:string>>",
        },
        {},
    ),
    ("equal elements", {"items": [ITEM, ITEM]}, {"items": "array<struct<title:string,price:bigint>>"}, {}),
    (
        "a matrix of numbers, and one of documents",
        {
            "m": [[1, 2, 3], [4, 5, 6]],
            "d": [[{"k": "v", "l": [1]}, {"k": "w", "l": [4, 5]}], [{"k": "x", "l": []}]],
        },
        {"m": "array<array<bigint>>", "d": "array<array<struct<k:string,l:array<bigint>>>>"},
        {},
    ),
    (
        "a matrix of several types",
        {"m": [[1, 2], ["x", True]]},
        {"m": "array<array<bigint>>"},
        {"/m/1/0": "x", "/m/1/1": True},
    ),
    (
        "nested arrays, of which some are empty",
        {"f1": {"f2": [{"f3": {}}, {"f3": {"f5": 5}}]}, "g1": [{"g2": "v1", "g3": []}]},
        {"f1": "struct<f2:array<struct<f3:struct<f5:bigint>>>>", "g1": "array<struct<g2:string>>"},
        {"/g1/0/g3": []},
    ),
    (
        "nulls",
        {"delivery": {"hour": None, "hourId": 10}, "l": [None, 1]},
        {"delivery": "struct<hourId:bigint>", "l": "array<bigint>"},
        {"/delivery/hour": None},
    ),
]


@pytest.mark.parametrize(
    "id_", [1, OID, {"company": 32, "dept": "home improvement"}], ids=["number", "oid", "document"]
)
@pytest.mark.parametrize(
    ("fields", "columns", "rescued"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_document_is_columns(
    fields: dict[str, Any], columns: dict[str, str], rescued: dict[str, Any], id_: Any
) -> None:
    """Which columns it gets, and what of it is in `_rescued_data`; both together are the whole document, whatever its
    id is."""
    raw = bson.encode({"_id": id_, **fields})
    plan = COLUMNS.observe(raw)
    batch = COLUMNS.decoder(plan).decode(raw).batch
    found = {field.name: field.dataType.simpleString() for field in COLUMNS.spark_schema(plan)}
    assert {name: found[name] for name in plan.names if name != "_id"} == columns
    kept = json.loads(batch.column("_rescued_data")[0].as_py() or "{}")
    assert {path: value for path, value in kept.items() if path != "/_id"} == rescued
    assert COLUMNS.documents(plan, batch) == [canonical_document(raw)]


def test_undefined_is_kept() -> None:
    """Which Debezium leaves out: it has no column, and is told from a missing field."""
    raw = raw_document([(b"_id", (0x10, b"\1\0\0\0")), (b"name", (UNDEFINED, b""))])
    plan = COLUMNS.observe(raw)
    batch = COLUMNS.decoder(plan).decode(raw).batch
    assert plan.names == ("_id",)
    assert json.loads(batch.column("_rescued_data")[0].as_py()) == {"/name": {"$undefined": True}}
    assert COLUMNS.documents(plan, batch) == [canonical_document(raw)]


def test_what_an_update_takes_away_is_null() -> None:
    """A row has all columns of its table: a field that is gone is null, and others are as the document has them."""
    before, after = ({"_id": 1, "name": "Tim", "phone": 123, "active": False}, {"_id": 1, "name": "Sally"})
    plan = COLUMNS.observe(bson.encode(before))
    (row,) = COLUMNS.decoder(plan).decode(bson.encode(after)).batch.to_pylist()
    assert {name: row[name] for name in plan.names} == {
        "_id": 1,
        "name": "Sally",
        "phone": None,
        "active": None,
    }
    assert row["_rescued_data"] is None
