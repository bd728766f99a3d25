"""What every layout of tables promises, and that nothing around it knows which one it is.

The second one (`tests.support.whole_layout`) keeps each document whole in one column. An engine runs with each.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from streaming.bson.elements import MalformedBson
from streaming.canonical.documents import canonical_document
from streaming.canonical.flattened import flattened
from streaming.column_names import KEY, RESCUED_DATA
from streaming.decode.keys import MissingId, key_at
from streaming.decode.streamed_rows import table_schema
from streaming.fields.shape import Shape
from streaming.layout import AnyLayout
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.shaped import Shaped
from tests.support import bson_documents as some
from tests.support.engines import SECONDS, Lab, lab
from tests.support.whole_layout import WHOLE

__all__ = ["lab"]

ARRAYS = Shaped(COLUMNS, Shape(arrays=True))
LAYOUTS: dict[str, AnyLayout] = {"columns": COLUMNS, "whole": WHOLE, "arrays as documents": ARRAYS}
every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
some_documents = st.lists(some.documents(), min_size=1, max_size=5)


def content(layout: AnyLayout, raw: bytes) -> bytes:
    """What a row of this document is to hold."""
    canonical = canonical_document(raw)
    if not isinstance(layout, Shaped):
        return canonical
    return flattened(canonical, None, arrays=layout.shape.arrays)


@every_layout
@given(learned=some_documents, decoded=some_documents)
def test_a_row_is_its_document_again(layout: AnyLayout, learned: list[bytes], decoded: list[bytes]) -> None:
    """Under a plan that knows the fields, and under one that does not: no field is lost, and the key is its own."""
    for plan in (layout.observe(b"".join(decoded)), layout.observe(b"".join(learned)), layout.least_plan()):
        found = layout.decoder(plan).decode(b"".join(decoded))
        assert found.batch.schema == layout.arrow_schema(plan)
        assert layout.documents(plan, found.batch) == [content(layout, raw) for raw in decoded]
        assert found.batch.column(KEY).to_pylist() == [key_at(raw, 0) for raw in decoded]
        again = layout.decoder(plan).decode_documents(found.batch.column(KEY), decoded)
        assert layout.documents(plan, again.batch) == layout.documents(plan, found.batch)
        assert again.batch.schema == found.batch.schema


@every_layout
@given(plans=st.tuples(some_documents, some_documents, some_documents))
def test_plans_only_grow(layout: AnyLayout, plans: Sequence[list[bytes]]) -> None:
    """Merging is idempotent, the least plan adds nothing, and columns stay where they are."""
    first, second, third = (layout.observe(b"".join(documents)) for documents in plans)
    grown = first.merge(second).merge(third)
    assert grown.names[: len(first.names)] == first.names
    assert grown.merge(second) == grown == grown.merge(first) == grown.merge(layout.least_plan())
    assert layout.plan_from_json(grown.to_json()) == grown
    assert pickle.loads(pickle.dumps((layout, grown))) == (layout, grown)


@every_layout
@given(learned=some_documents, decoded=some_documents)
def test_what_is_unknown_makes_the_plan_complete(
    layout: AnyLayout, learned: list[bytes], decoded: list[bytes]
) -> None:
    """Decoded again under the plan that has grown, nothing is unknown."""
    plan, raw = layout.observe(b"".join(learned)), b"".join(decoded)
    grown = plan.merge(layout.decoder(plan).decode(raw).unknown)
    assert grown.merge(layout.decoder(grown).decode(raw).unknown) == grown


@every_layout
@given(documents=some_documents)
def test_a_table_of_a_plan_lacks_nothing(layout: AnyLayout, documents: list[bytes]) -> None:
    """And one without any of its columns lacks each, and has none that is somebody else's."""
    plan = layout.observe(b"".join(documents))
    table = layout.spark_schema(plan)
    assert layout.missing_columns(table, plan) == []
    bare = StructType([field for field in table.fields if field.name in (KEY, RESCUED_DATA)])
    assert [missing.path for missing in layout.missing_columns(bare, plan)] == [
        (name,) for name in plan.names
    ]
    assert layout.others_fields(bare, layout.least_plan(), plan) == []


@every_layout
def test_spark_and_arrow_agree(layout: AnyLayout, spark: SparkSession) -> None:
    """Rows go from one to the other without a cast."""
    raw = bson.encode({"_id": 1, "n": 5, "deep": {"list": [1, 2]}, "at": bson.Timestamp(1, 1)})
    plan = layout.observe(raw)

    def read(batches: Any) -> Any:
        for _ in batches:
            yield layout.decoder(plan).decode(raw).batch

    frame = spark.range(0, 1, 1, 1).mapInArrow(read, layout.spark_schema(plan))
    (row,) = frame.collect()
    assert row.asDict()[KEY] == key_at(raw, 0)


@every_layout
def test_older_rows_fit_a_newer_plan(layout: AnyLayout, spark: SparkSession) -> None:
    """As if they had been decoded under it; what else a row has stays."""
    old, new = (
        bson.encode(document) for document in ({"_id": 1, "a": {"b": 1}}, {"_id": 1, "a": {"c": 2}, "d": 3})
    )
    have = layout.observe(old)
    want = have.merge(layout.observe(new))
    schema = StructType([*layout.spark_schema(have).fields, StructField("_mark", StringType())])

    def read(batches: Any) -> Any:
        for _ in batches:
            batch = layout.decoder(have).decode(old).batch
            yield batch.append_column("_mark", batch.column(KEY))

    frame = layout.reshape(spark.range(0, 1, 1, 1).mapInArrow(read, schema), have, want)
    assert set(frame.columns) == {KEY, *want.names, RESCUED_DATA, "_mark"}
    rows = frame.drop("_mark").select(*layout.arrow_schema(want).names).toArrow().to_batches()
    assert [layout.documents(want, rows) for rows in rows if rows.num_rows] == [[canonical_document(old)]]


@every_layout
@pytest.mark.parametrize(
    ("raw", "error"),
    [(b"\x05\0\0\0", MalformedBson), (bson.encode({"a": 1}), MissingId)],
    ids=["cut", "no id"],
)
def test_what_is_no_document_is_refused(layout: AnyLayout, raw: bytes, error: type[Exception]) -> None:
    """Bytes that are cut, and a document without an id."""
    with pytest.raises(error):
        layout.decoder(layout.least_plan()).decode(raw)


@every_layout
def test_a_plan_that_is_none_is_refused(layout: AnyLayout) -> None:
    """Also one of another layout: a table is not read by the wrong one. (Another shape is no other layout.)"""
    others = [other.least_plan().to_json() for other in LAYOUTS.values() if other.name != layout.name]
    for text in ("{}", *others):
        with pytest.raises(ValueError, match="plan"):
            layout.plan_from_json(text)


@every_layout
def test_a_documents_row_may_have_nothing_but_its_key(layout: AnyLayout) -> None:
    """A delete's."""
    plan = layout.observe(bson.encode({"_id": 1, "n": 5}))
    (row,) = layout.decoder(plan).decode_documents(["k"], [None]).batch.to_pylist()
    assert row == {KEY: "k", **dict.fromkeys(plan.names), RESCUED_DATA: None}


@every_layout
def test_an_engine_runs_with_it(layout: AnyLayout, lab: Lab) -> None:
    """A first load, changes of every kind with fields that are new, a snapshot with reconcile, and verify."""
    lab.with_options()
    lab.tune = lambda config: replace(config, layout=layout)
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "n": n} for n in range(50)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        engine.catch_up(SECONDS)
        orders.update_many({"_id": {"$lt": 9}}, {"$set": {"late": {"deep": [1]}}})
        orders.delete_many({"_id": {"$gt": 40}})
        orders.insert_one({"_id": "text", "n": "misfit"})
        lab.signal("execute-snapshot", "again", data__collections=[lab.name("orders")], reconcile=True)
        engine.wait("again", SECONDS)
        engine.catch_up(SECONDS)
        found = engine.verify(lab.name("orders"))
    assert found.equal, str(found)
    assert found.rows == 42
    schema = lab.spark.read.format("delta").load(str(lab.table("orders"))).schema
    assert set(schema.names) == set(table_schema(layout, layout.observe(_all_of(lab))).names)


def _all_of(lab: Lab) -> bytes:
    return b"".join(bson.encode(document) for document in lab.collection("orders").find())
