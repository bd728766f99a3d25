"""Decoding loses nothing, and the fast path means what the plain one says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import bson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.bson.elements import MalformedBson, elements
from streaming.canonical.documents import canonical_document
from streaming.canonical.flattened import flattened
from streaming.decode import walk as decode_walk
from streaming.fields.shape import Shape
from streaming.keys.keys import key_of_value
from streaming.layout import Decoded
from streaming.layouts.columns.canonical_rows import canonical_rows
from streaming.layouts.columns.decoder import Decoder
from streaming.layouts.columns.observe import observe
from streaming.layouts.columns.plain import decode_plain
from streaming.layouts.columns.plan import Array, Column, Scalar, Struct, TablePlan
from streaming.layouts.columns.rescue import rescued_data
from streaming.layouts.columns.rows import column_array
from streaming.layouts.columns.schemas import arrow_schema
from streaming.mongo.errors import ConfigurationError
from tests.support.bson_documents import batches, documents

some_documents = st.lists(documents(), min_size=1, max_size=8)


@contextmanager
def always_in_lock_step(always: bool) -> Iterator[None]:
    """Few documents are walked one by one; that limit is a matter of speed, and both ways are tried."""
    with patch.object(decode_walk, "_FEW", 0 if always else decode_walk._FEW):
        yield


def key_of(raw: bytes) -> str:
    return next(key_of_value(tag, raw[at:end]) for tag, name, at, end in elements(raw, 0) if name == b"_id")


def plainly(plan: TablePlan, raws: list[bytes]) -> pa.RecordBatch:
    """The reference: every document on its own, in plain Python."""
    rows = [decode_plain(plan, raw, 0) for raw in raws]
    columns = [column_array(c.type, [row.values[i] for row in rows]) for i, c in enumerate(plan.columns)]
    rescued = [rescued_data(row.entries) if row.entries else None for row in rows]
    keys = pa.array([key_of(raw) for raw in raws], pa.string())
    return pa.RecordBatch.from_arrays(
        [keys, *columns, pa.array(rescued, pa.string())], schema=arrow_schema(plan)
    )


def assert_same_cells(found: Decoded, expected: pa.RecordBatch) -> None:
    for name in expected.schema.names:
        left, right = found.batch.column(name), expected.column(name)
        assert repr(left.to_pylist()) == repr(right.to_pylist()), name
    assert found.rescued == expected.num_rows - expected.column("_rescued_data").null_count


@given(
    learned=some_documents, decoded=some_documents, lock_step=st.booleans(), copies=st.sampled_from((1, 1, 3))
)
def test_rows_hold_the_whole_document(
    learned: list[bytes], decoded: list[bytes], lock_step: bool, copies: int
) -> None:
    """Columns of any plan, overlaid by _rescued_data, are the document: missing, null, misfits, all types."""
    plan = observe(learned)
    raws = decoded * copies + learned
    with always_in_lock_step(lock_step):
        found = Decoder(plan).decode(b"".join(raws))
    found.batch.validate(full=True)
    assert canonical_rows(plan, found.batch) == [canonical_document(raw) for raw in raws]
    assert found.batch.column("_key").to_pylist() == [key_of(raw) for raw in raws]


@given(
    learned=some_documents, decoded=some_documents, lock_step=st.booleans(), copies=st.sampled_from((1, 1, 3))
)
def test_lock_step_and_plain_decoding_agree_cell_by_cell(
    learned: list[bytes], decoded: list[bytes], lock_step: bool, copies: int
) -> None:
    """The fast path gives exactly the arrays and the rescued text of the plain definition."""
    plan = observe(learned)
    raws = decoded * copies + learned
    with always_in_lock_step(lock_step):
        found = Decoder(plan).decode(b"".join(raws))
    assert_same_cells(found, plainly(plan, raws))


@given(batch=batches(), lock_step=st.booleans(), copies=st.sampled_from((1, 1, 3)))
def test_rows_under_a_foreign_plan_hold_the_whole_document(
    batch: tuple[TablePlan, list[bytes]], lock_step: bool, copies: int
) -> None:
    """The plan did not come from these documents: near misses of every type, null, missing and unknown."""
    plan, raws = batch[0], batch[1] * copies
    with always_in_lock_step(lock_step):
        found = Decoder(plan).decode(b"".join(raws))
    found.batch.validate(full=True)
    assert canonical_rows(plan, found.batch) == [canonical_document(raw) for raw in raws]
    assert_same_cells(found, plainly(plan, raws))


@given(learned=some_documents, decoded=some_documents)
def test_a_grown_plan_knows_every_field(learned: list[bytes], decoded: list[bytes]) -> None:
    """After merging what was unknown nothing is unknown, old columns are as they were, nothing is lost."""
    raw = b"".join(decoded)
    plan = observe(learned)
    first = Decoder(plan).decode(raw)
    grown = plan.merge(first.unknown)
    again = Decoder(grown).decode(raw)
    assert again.unknown == TablePlan()
    assert (
        grown.columns[: len(plan.columns)] == plan.columns or grown.names[: len(plan.columns)] == plan.names
    )
    assert canonical_rows(grown, again.batch) == [canonical_document(one) for one in decoded]
    assert TablePlan.from_json(grown.to_json()) == grown


def test_an_array_of_no_decimals_has_a_content() -> None:
    """None of the rows has one: what holds them may be of any size then."""
    element = Struct((Column("d", Array(Scalar("decimal"))),))
    plan = TablePlan((Column("a", Array(element)),))
    raw = bson.encode({"_id": 1})
    assert canonical_rows(plan, Decoder(plan).decode(raw).batch) == [canonical_document(raw)]


@given(raws=some_documents, cut=st.integers(0, 400), flip=st.integers(0, 400), bits=st.integers(1, 255))
def test_damaged_bytes_end_in_an_error_or_in_rows(raws: list[bytes], cut: int, flip: int, bits: int) -> None:
    """Whatever is done to the bytes, decoding ends: by rows, or by an error that says what is wrong."""
    plan = observe(raws)
    damaged = bytearray(b"".join(raws * 3))
    damaged[flip % len(damaged)] ^= bits
    for raw in (bytes(damaged), bytes(damaged[: cut % len(damaged)])):
        with always_in_lock_step(True):
            try:
                Decoder(plan).decode(raw).batch.validate(full=True)
            except ValueError:
                continue


@given(raws=some_documents, holes=st.sets(st.integers(0, 7)))
def test_single_documents_decode_like_a_stream_of_them(raws: list[bytes], holes: set[int]) -> None:
    """decode_documents gives the rows of decode; None gives a row of nulls under its key."""
    plan = observe(raws)
    whole = Decoder(plan).decode(b"".join(raws)).batch.to_pylist()
    keys = [f"key{i}" for i in range(len(raws))]
    given_ones = [None if i in holes else raw for i, raw in enumerate(raws)]
    found = Decoder(plan).decode_documents(keys, given_ones).batch.to_pylist()
    for index, (row, key) in enumerate(zip(found, keys, strict=True)):
        expected = dict.fromkeys(row) if index in holes else whole[index]
        assert repr(row) == repr({**expected, "_key": key})


def test_trailing_bytes_are_refused() -> None:
    """A document with bytes behind it is not one document; nor are no bytes one, whatever stands before or behind."""
    small = b"\5\0\0\0\0"
    with pytest.raises(MalformedBson, match="says 5 bytes; 10 are there"):
        Decoder(TablePlan()).decode_documents(["k"], [small + small])
    for given_ones in ([b""], [b"", small], [small, b""]):
        with pytest.raises(MalformedBson):
            Decoder(TablePlan()).decode_documents(["k", "l"][: len(given_ones)], given_ones)


@given(
    raw=documents(),
    flatten=st.booleans(),
    arrays=st.booleans(),
    delimiter=st.sampled_from(["_", ".", "", "__"]),
)
def test_who_verifies_a_shape_agrees_with_who_makes_it(
    raw: bytes, flatten: bool, arrays: bool, delimiter: str
) -> None:
    """Whatever is nested in what; where two fields come to one name there is nothing to agree on."""
    shape = Shape(flatten, delimiter, arrays)
    try:
        made = shape.document(raw)
    except ConfigurationError:
        assert flatten
        return
    joined = delimiter.encode() if flatten else None
    assert canonical_document(made) == flattened(canonical_document(raw), joined, arrays=arrays)
