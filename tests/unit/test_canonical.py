"""`streaming.canonical.documents*`: what counts as the same content, and how differences are shown."""

from __future__ import annotations

import json
import struct
from datetime import UTC, datetime
from typing import Any

import bson
import pyarrow as pa
import pytest
from bson import Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.datetime_ms import DatetimeMS

from snapshotter.verification.canonical_diff import differences
from streaming.canonical import rescued as canonical_json_module
from streaming.canonical.documents import canonical_document, content_hash
from streaming.canonical.rescued import UnreadableRescuedData, canonical_json, read_rescued
from streaming.layouts.columns.canonical_rows import canonical_rows
from streaming.layouts.columns.decoder import Decoder
from streaming.layouts.columns.observe import observe
from streaming.layouts.columns.plan import TablePlan, plan_of
from streaming.layouts.columns.rescue import WRAPPERS, render
from streaming.layouts.columns.schemas import arrow_schema
from tests.support.bson_documents import document, text


def canonical(value: dict[str, Any]) -> bytes:
    return canonical_document(bson.encode(value))


SAME = [
    ({"a": 5}, {"a": 5.0}),
    ({"a": 5}, {"a": Int64(5)}),
    ({"a": 5}, {"a": Decimal128("5.00")}),
    ({"a": 5000}, {"a": Decimal128("5E+3")}),
    ({"a": 0.5}, {"a": Decimal128("0.50")}),
    ({"a": -0.0}, {"a": Decimal128("-0.00")}),
    ({"a": float("nan")}, {"a": Decimal128("NaN")}),
    ({"a": float("-inf")}, {"a": Decimal128("-Infinity")}),
    ({"a": 1, "b": {"x": 1, "y": 2}}, {"b": {"y": 2, "x": 1}, "a": 1}),
    ({"a": 2**53}, {"a": float(2**53)}),
]


@pytest.mark.parametrize(("left", "right"), SAME)
def test_content_is_the_same_up_to_field_order_and_numeric_type(
    left: dict[str, Any], right: dict[str, Any]
) -> None:
    """Numbers are their exact value; fields have no order."""
    assert canonical(left) == canonical(right)
    assert differences(canonical(left), canonical(right)) == []


OID = ObjectId("64b000000000000000000000")
DIFFERENT = [
    {},
    {"a": None},
    {"a": 0},
    {"a": -0.0},
    {"a": False},
    {"a": ""},
    {"a": "0"},
    {"a": []},
    {"a": {}},
    {"a": [None]},
    {"a": [[]]},
    {"a": {"0": None}},
    {"a": 0.1},
    {"a": Decimal128("0.1")},
    {"a": 2**53 + 1},
    {"a": float(2**53)},
    {"a": OID},
    {"a": str(OID)},
    {"a": OID.binary},
    {"a": Binary(OID.binary, 5)},
    {"a": DatetimeMS(0)},
    {"a": DatetimeMS(2**62)},
    {"a": Timestamp(0, 0)},
    {"a": Regex("a", "")},
    {"a": Code("a")},
    {"a": Code("a", {})},
    {"a": Code("a", {"x": 1})},
    {"a": MinKey()},
    {"a": MaxKey()},
    {"a": DBRef("c", 1)},
    {"a": "}", "b": 1},
    {"a": "\0"},
    {"b": None},
    {"a": None, "b": None},
]


def test_everything_else_differs() -> None:
    """No two of these have equal canonical bytes, and for each two the paths that differ are named."""
    forms = [canonical(value) for value in DIFFERENT]
    assert len(set(forms)) == len(set(map(content_hash, forms))) == len(DIFFERENT)
    for left in forms:
        for right in forms:
            assert bool(differences(left, right)) == (left != right)


def test_a_field_that_comes_twice_keeps_its_order() -> None:
    """Such documents exist, and the two orders are two contents."""
    one, two = (0x10, struct.pack("<i", 1)), (0x10, struct.pack("<i", 2))
    first = canonical_document(document([(b"a", two), (b"a", one), (b"b", one)]))
    second = canonical_document(document([(b"a", one), (b"a", two), (b"b", one)]))
    assert first != second
    assert [item.path for item in differences(first, second)] == ["/a", "/a (again)"]


@pytest.mark.parametrize("value", DIFFERENT)
def test_rescued_values_have_the_content_of_the_originals(value: dict[str, Any]) -> None:
    """Extended JSON and back, type by type."""
    raw = bson.encode(value)
    rows = Decoder(TablePlan()).decode(bson.encode({"_id": 1, **value})).batch
    assert canonical_rows(TablePlan(), rows) == [canonical_document(bson.encode({"_id": 1, **value}))]
    assert canonical_json(json.loads(render(3, raw, 0))) == canonical_document(raw)


def test_every_wrapper_that_is_read_is_one_that_no_document_is_written_as() -> None:
    """A name that only one side holds for special would make a document read as a value."""
    assert set(canonical_json_module._WRAPPERS) <= {name.decode() for name in WRAPPERS}


@pytest.mark.parametrize("name", sorted(name.decode() for name in WRAPPERS))
def test_documents_that_look_like_wrapped_values_stay_documents(name: str) -> None:
    """`{"$oid": ...}` in a document is no ObjectId."""
    raw = bson.encode({"_id": 1, "a": {name: "64b000000000000000000000"}, "b": [{"c": 1, name: True}]})
    rows = Decoder(TablePlan()).decode(raw).batch
    assert canonical_rows(TablePlan(), rows) == [canonical_document(raw)]


def test_a_string_that_is_no_utf8_keeps_its_bytes() -> None:
    """It is rescued under a marker, not replaced."""
    raw = document([(b"_id", (0x10, struct.pack("<i", 1))), (b"a", (0x02, text(b"\xff\0x")))])
    plan = observe(raw)
    rows = Decoder(plan).decode(raw).batch
    assert rows.column("_rescued_data").to_pylist() == ['{"/a":{"$invalidUtf8":"/wB4"}}']
    assert canonical_rows(plan, rows) == [canonical_document(raw)]


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "[]",
        '{"a":null}',
        '{"/a":5}',
        '{"/a":{"$oid":"64"}}}',
        '{"/a":{"$numberLong":"five"}}',
        '{"/a":{"$numberInt":"5","x":null}}',
        '{"/a":{"$bson":"AAAA"}}',
        '{"/a":{"$minKey":2}}',
        '{"/a":null,"/a":{"$numberInt":"5"}}',
        '{"/a":{"x":null,"x":{"$numberInt":"5"}}}',
        '{"/a":{"$numberInt":" 5"}}',
        '{"/a":{"$numberLong":"5_0"}}',
        '{"/a":{"$date":{"$numberLong":"9223372036854775808"}}}',
        '{"/a":{"$oid":"64"}}',
        '{"/a":{"$oid":"64B000000000000000000000"}}',
        '{"/a":{"$oid":"64 b000000000000000000000"}}',
        '{"/a":{"$timestamp":{"t":1.0,"i":1}}}',
        '{"/a":{"$dbPointer":{"$ref":"c","$id":{"$oid":"64"}}}}',
        '{"/a":{"$binary":{"base64":"_w==","subType":"00"}}}',
    ],
)
def test_rescued_data_that_cannot_be_read_is_an_error(damaged: str) -> None:
    """Never skipped: a lenient reader would call a damaged table equal."""
    with pytest.raises(UnreadableRescuedData):
        read_rescued(damaged)


@pytest.mark.parametrize(
    "entries", ['{"/a":{"$numberInt":"6"}}', '{"/a/b":null}', '{"/x/0":null}', '{"":{}}']
)
def test_entries_that_contradict_the_columns_are_an_error(entries: str) -> None:
    """A value in its column and in _rescued_data as well, or below something that is not there."""
    raw = bson.encode({"_id": 1, "a": 5})
    plan = observe(raw)
    rows = Decoder(plan).decode(raw).batch
    at = rows.schema.get_field_index("_rescued_data")
    rows = rows.set_column(at, "_rescued_data", pa.array([entries]))
    with pytest.raises(UnreadableRescuedData):
        canonical_rows(plan, rows)


def test_slices_of_batches_are_read_as_themselves() -> None:
    """Arrow arrays with an offset, as Spark and Arrow hand them out."""
    values = [
        {"_id": n, "d": Decimal128("1.5"), "x": {"y": [n, None, {"z": n}], "s": "t"}} for n in range(10)
    ]
    values[7]["x"] = {"y": [7, 8.5], "s": None}
    raws = [bson.encode(value) for value in values]
    plan = observe(raws)
    batch = Decoder(plan).decode(b"".join(raws)).batch
    assert canonical_rows(plan, batch.slice(3, 5)) == [canonical_document(raw) for raw in raws[3:8]]


def test_a_timestamp_between_milliseconds_is_no_bson_date() -> None:
    """A column that was tampered with shows, even where the source could not tell the two apart."""
    raw = bson.encode({"_id": 1, "t": datetime(2024, 1, 1, tzinfo=UTC)})
    plan = plan_of(observe(raw).columns)
    batch = Decoder(plan).decode(raw).batch
    later = pa.array([datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)], arrow_schema(plan).field("t").type)
    batch = batch.set_column(batch.schema.get_field_index("t"), "t", later)
    [item] = differences(canonical_document(raw), canonical_rows(plan, batch)[0])
    assert (item.path, item.source, item.table) == (
        "/t",
        "2024-01-01T00:00:00.000+00:00",
        "1704067200000001 µs",
    )
