"""Rows of an old plan under the plan of today, as Spark sees them."""

from __future__ import annotations

from typing import Any

import bson
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from streaming.layouts.columns.decoder import Decoder
from streaming.layouts.columns.observe import observe
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from streaming.layouts.columns.reshape import reshape
from streaming.layouts.columns.schemas import spark_schema

OLD = [
    {"_id": 1, "a": 1, "s": {"x": 1, "t": {"y": "deep"}}, "items": [{"n": 1}, None, {}], "odd.name": "`"},
    {"_id": 2, "a": None, "s": None, "items": [], "odd.name": "x"},
    {"_id": 3},
]
NEW = [
    {"_id": 4, "s": {"z": True, "x": 2, "t": {"w": 1.5}}, "items": [{"m": "new", "n": 2}], "late": [[1]]},
    {"_id": 5, "s": {"t": {}}, "another": {"p": {"q": 1}}},
]


def plan_of(*documents: dict[str, Any]) -> TablePlan:
    return observe(b"".join(map(bson.encode, documents)))


def test_old_rows_fit_the_new_plan(spark: SparkSession) -> None:
    """Every value stays where it was, columns and fields that are new are null, a null struct stays null and an empty
    array empty; the schema is the one that the new plan gives."""
    have = plan_of(*OLD)
    want = have.merge(plan_of(*NEW))
    raw = b"".join(map(bson.encode, OLD))
    decoded = Decoder(have).decode(raw).batch
    frame = spark.createDataFrame(pa.Table.from_batches([decoded])).withColumnRenamed("_key", "_key")
    found = reshape(frame, have, want)
    table = spark_schema(want)
    assert {f.name: f.dataType.simpleString() for f in found.schema} == {
        f.name: f.dataType.simpleString() for f in table
    }
    rows = {row["_key"]: row.asDict(recursive=True) for row in found.collect()}
    expected = {row["_key"]: row for row in Decoder(want).decode(raw).batch.to_pylist()}
    assert rows.keys() == expected.keys()
    for key, row in rows.items():
        # The explicit nulls of documents 1 and 2 were rescued under both plans.
        assert row == expected[key]


def test_the_same_plan_changes_nothing(spark: SparkSession) -> None:
    """Not even the plan of the query."""
    frame = spark.range(1)
    assert reshape(frame, plan_of(*OLD), plan_of(*OLD)) is frame


def test_a_type_never_changes(spark: SparkSession) -> None:
    """Plans only grow; one that does not is a mistake, and is said to be one."""
    frame = spark.range(1).selectExpr("'x' as a")
    have = TablePlan((Column("a", Scalar("string")),))
    want = TablePlan((Column("a", Scalar("long")), Column("b", Scalar("long"))))
    with pytest.raises(ValueError, match="never changes a column's type"):
        reshape(frame, have, want)
