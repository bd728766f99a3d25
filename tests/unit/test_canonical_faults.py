"""Damage done to a row by hand: every kind shows, at its path, and what is no damage does not."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import bson
import pyarrow as pa
import pytest
from bson import Decimal128, Int64, ObjectId

from snapshotter.verification.canonical_diff import differences
from streaming.canonical.documents import canonical_document
from streaming.layouts.columns.canonical_rows import canonical_rows
from streaming.layouts.columns.decoder import Decoder
from streaming.layouts.columns.plan import Array, Column, Scalar, Struct, TablePlan
from streaming.layouts.columns.schemas import arrow_schema

OID = "64b0000000000000000000ab"
NOON = datetime(2024, 2, 29, 12, 0, 0, 123_000, tzinfo=UTC)
INNER = Struct((Column("x", Scalar("long")), Column("y", Scalar("string"))))
PLAN = TablePlan(
    (
        Column("_id", Scalar("long")),
        Column("n", Scalar("long")),
        Column("f", Scalar("double")),
        Column("m", Scalar("decimal")),
        Column("s", Scalar("string")),
        Column("t", Scalar("bool")),
        Column("d", Scalar("date")),
        Column("o", Scalar("objectId")),
        Column("b", Scalar("binary")),
        Column("in", INNER),
        Column("list", Array(Scalar("long"))),
        Column("items", Array(INNER)),
    )
)
DOCUMENT: dict[str, Any] = {
    "_id": 1,
    "n": Int64(2**53 + 1),
    "f": 0.1,
    "m": Decimal128("12.345678901234567891"),
    "s": "Köln",
    "t": False,
    "d": NOON,
    "o": ObjectId(OID),
    "b": b"ab\0",
    "in": {"x": 1, "y": ""},
    "list": [1, None, 3],
    "items": [{"x": 1}, {}, {"x": None}],
    "Name": "rescued",
    "none": None,
}
RESCUED = '{"/Name":"rescued","/items/2/x":null,"/none":null}'


def row_of(document: dict[str, Any]) -> dict[str, Any]:
    [row] = Decoder(PLAN).decode(bson.encode(document)).batch.to_pylist()
    return dict(row)


def differing(row: dict[str, Any]) -> list[str]:
    """The paths at which the row differs from the document."""
    batch = pa.RecordBatch.from_pylist([row], arrow_schema(PLAN))
    source, table = canonical_document(bson.encode(DOCUMENT)), canonical_rows(PLAN, batch)[0]
    paths = [item.path for item in differences(source, table)]
    assert bool(paths) == (source != table)
    return paths


def test_the_row_as_it_was_decoded_is_the_document() -> None:
    """Before anything is damaged there is no difference."""
    assert row_of(DOCUMENT)["_rescued_data"] == RESCUED
    assert differing(row_of(DOCUMENT)) == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *((name, None) for name in PLAN.names if name != "items"),
        ("n", 2**53),
        ("n", 1),
        ("n", -(2**53) - 1),
        ("f", 0.0),
        ("f", -0.1),
        ("f", math.nan),
        ("f", math.nextafter(0.1, 1)),
        ("f", 0.10000000149011612),
        ("m", Decimal("12.345678901234567890")),
        ("m", Decimal("12.35")),
        ("m", Decimal("-12.345678901234567891")),
        ("s", "Köl"),
        ("s", "Ko\u0308ln"),
        ("s", "Köln "),
        ("s", "köln"),
        ("s", "K?ln"),
        ("t", True),
        ("d", NOON + timedelta(milliseconds=1)),
        ("d", NOON.replace(microsecond=0)),
        ("d", NOON + timedelta(hours=1)),
        ("o", OID[:-1] + "c"),
        ("o", OID[:-2]),
        ("o", OID.upper()),
        ("o", ""),
        ("b", b"ab"),
        ("b", b"ab\0\0"),
        ("b", b""),
    ],
)
def test_a_changed_value_shows_at_its_column(column: str, value: object) -> None:
    """Dropped, cut, rounded, moved, or of another sign or case: scalars, and whole documents and arrays."""
    found = differing({**row_of(DOCUMENT), column: value})
    assert found[0] == f"/{column}"
    assert all(path.startswith(f"/{column}") for path in found)


@pytest.mark.parametrize(
    ("column", "value", "path"),
    [
        ("in", {"x": 1, "y": None}, "/in/y"),
        ("in", {"x": None, "y": ""}, "/in/x"),
        ("in", {"x": 2, "y": ""}, "/in/x"),
        ("list", [1, None], "/list/2"),
        ("list", [1, None, 3, None], "/list/3"),
        ("list", [1, 3, None], "/list/1"),
        ("list", [1, 0, 3], "/list/1"),
        ("items", [{"x": None, "y": None}, {"x": None, "y": None}, {"x": None, "y": None}], "/items/0/x"),
        ("items", [{"x": 1, "y": ""}, {"x": None, "y": None}, {"x": None, "y": None}], "/items/0/y"),
        ("items", [{"x": 1, "y": None}, None, {"x": None, "y": None}], "/items/1"),
    ],
)
def test_a_change_inside_documents_and_arrays_shows_there(column: str, value: object, path: str) -> None:
    """A nested field dropped, an element lost, added, moved, or null in place of an empty document."""
    assert path in differing({**row_of(DOCUMENT), column: value})


@pytest.mark.parametrize(
    ("rescued", "paths"),
    [
        (None, ["/Name", "/items/2/x", "/none"]),
        ('{"/Name":"rescued","/items/2/x":null}', ["/none"]),
        ('{"/Name":"rescued","/none":null}', ["/items/2/x"]),
        ('{"/Name":"rescue","/items/2/x":null,"/none":null}', ["/Name"]),
        ('{"/name":"rescued","/items/2/x":null,"/none":null}', ["/Name", "/name"]),
        ('{"/Name":"rescued","/items/1/x":null,"/none":null}', ["/items/1/x", "/items/2/x"]),
        ('{"/Name":"rescued","/items/2/x":null,"/none":{"$undefined":true}}', ["/none"]),
        ('{"/Name":"rescued","/items/2/x":null,"/none":null,"/more":null}', ["/more"]),
    ],
)
def test_a_change_in_rescued_data_shows_there(rescued: str | None, paths: list[str]) -> None:
    """An entry dropped, cut, renamed or added; a null that became a missing field, or undefined."""
    assert differing({**row_of(DOCUMENT), "_rescued_data": rescued}) == paths


@pytest.mark.parametrize(
    ("source", "table"),
    [
        ({"f": 0.0}, {"f": -0.0}),
        ({"f": -0.0}, {"f": 0.0}),
        ({"f": math.inf}, {"f": 1.7976931348623157e308}),
        ({"f": math.nan}, {"f": 0.0}),
        ({"f": 5e-324}, {"f": 0.0}),
        ({"f": 1e-300}, {"f": 2e-300}),
        ({"f": 2.0**53}, {"f": 2.0**53 + 2}),
        ({"n": 2**31}, {"n": -(2**31)}),
        ({"n": Int64(2**63 - 1)}, {"n": -(2**63)}),
        ({"m": Decimal128("1E-18")}, {"m": Decimal("0")}),
        ({"m": Decimal128("99999999999999999999")}, {"m": Decimal("99999999999999999998")}),
        ({"list": []}, {"list": None}),
        ({"in": {}}, {"in": None}),
        ({"s": ""}, {"s": None}),
        ({"s": "a\0b"}, {"s": "a"}),
        ({"d": datetime(1, 1, 1, tzinfo=UTC)}, {"d": datetime(1, 1, 3, tzinfo=UTC)}),
    ],
)
def test_values_at_the_edge_do_not_pass_for_others(source: dict[str, Any], table: dict[str, Any]) -> None:
    """Signed zero, the ends of the ranges, the finest decimal, empty in place of missing."""
    right, wrong = {"_id": 1, **source}, {**row_of({"_id": 1, **source}), **table}
    schema = arrow_schema(PLAN)
    expected = canonical_document(bson.encode(right))
    good, bad = (
        canonical_rows(PLAN, pa.RecordBatch.from_pylist([row], schema))[0] for row in (row_of(right), wrong)
    )
    assert good == expected
    assert bad != expected
    assert [item.path for item in differences(expected, bad)] == [f"/{next(iter(source))}"]
