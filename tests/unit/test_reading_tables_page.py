"""`docs/reading-tables.md` says what the code does: columns, types, properties."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bson
from bson import Decimal128, ObjectId

from streaming.column_names import OUR_COLUMNS
from streaming.delta.further_columns import FurtherColumns
from streaming.delta.new_table import new_schema
from streaming.delta.table_properties import ALLOWED, SLOWER
from streaming.layouts.columns.decimals import SCALES, SURE
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.plan import TablePlan

PAGE = (Path(__file__).parents[2] / "docs" / "reading-tables.md").read_text(encoding="utf-8")


def section(heading: str) -> str:
    return PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


def cells(heading: str) -> list[list[str]]:
    """The rows of the table under a heading."""
    rows = [line.strip("| ").split(" | ") for line in section(heading).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[1:]]


VALUES: dict[str, Any] = {
    "int32": 1,
    "int64": bson.Int64(1),
    "double": 1.5,
    "decimal128": Decimal128("1.5"),
    "string": "x",
    "bool": True,
    "date": datetime(2026, 1, 1, tzinfo=UTC),
    "objectId": ObjectId(),
    "binary (subtype 0)": b"x",
    "object": {"x": 1},
    "array": [1],
    "other binary": bson.Binary(b"x", 4),
    "regex": bson.Regex("x"),
    "timestamp": bson.Timestamp(1, 1),
    "javascript": bson.Code("x"),
    "minKey": bson.MinKey(),
    "maxKey": bson.MaxKey(),
    "null": None,
}
WITHOUT_VALUE = {"symbol", "dbPointer", "undefined"}
"""Types that Python's driver cannot write."""


def test_types_are_those_of_the_code() -> None:
    """Each type of BSON has the column that the page says."""
    said = {name.strip(): row[1] for row in cells("Types") for name in row[0].split(",")}
    assert said.keys() == VALUES.keys() | WITHOUT_VALUE
    for name, value in VALUES.items():
        plan: TablePlan = COLUMNS.observe(bson.encode({"x": value}) * SURE)
        types = [COLUMNS.spark_schema(plan)[column].dataType.simpleString() for column in plan.names]
        found = re.sub(r"[<(].*", "", types[0]).upper() if types else "none"
        assert found == said[name].partition("(")[0], name


def test_scales_are_those_of_the_code() -> None:
    """With how many values are many."""
    digits = ", ".join(map(str, SCALES[:-1]))
    assert f"the smallest of {digits} and {SCALES[-1]} digits" in section("Types")
    assert f"fewer than {SURE} were seen" in section("Types")


def test_columns_are_those_of_a_new_table() -> None:
    """In their order, with their types."""
    found = new_schema(COLUMNS, TablePlan(), FurtherColumns(soft=True))
    wanted = [(f.name, f.dataType.simpleString().upper()) for f in found]
    said = [(row[0].strip("`"), row[1]) for row in cells("Columns")[1:]]
    assert said == wanted
    assert {name for name, _ in said} == {*OUR_COLUMNS}


def test_properties_are_those_that_are_taken() -> None:
    """And those that cost speed are named."""
    text = section("Properties of new tables")
    assert [row[0].strip("`") for row in cells("Properties of new tables")] == sorted(ALLOWED)
    said = re.search(
        r"make landings slower, as is said at the start: (.*?), where they are on", text, re.DOTALL
    )
    assert said is not None
    assert re.findall(r"`([^`]+)`", said[1]) == sorted(SLOWER)
