"""Columns held against one another, row by row."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from streaming.delta.arrow_rows import aligned, equal

FLOATS = pa.float64()
STRUCT = pa.struct([("a", pa.int64()), ("b", pa.float64())])
LIST = pa.list_(pa.field("element", STRUCT))


@pytest.mark.parametrize(
    ("kind", "left", "right", "expected"),
    [
        (pa.int64(), [1, 2, None, None], [1, 3, None, 4], [True, False, True, False]),
        (
            FLOATS,
            [math.nan, 0.0, math.nan, None],
            [math.nan, -0.0, 1.0, math.nan],
            [True, True, False, False],
        ),
        (
            STRUCT,
            [{"a": 1, "b": math.nan}, {"a": 1, "b": 2.0}, {"a": None, "b": None}, None, None],
            [{"a": 1, "b": math.nan}, {"a": 1, "b": 3.0}, None, None, {"a": 1, "b": None}],
            [True, False, False, True, False],
        ),
        (
            pa.list_(FLOATS),
            [[1.0, math.nan], [], [], None, [1.0, 2.0], [1.0], [2.0, 1.0], [None]],
            [[1.0, math.nan], [], None, None, [1.0], [1.0, 2.0], [1.0, 2.0], [None]],
            [True, True, False, True, False, False, False, True],
        ),
        (
            LIST,
            [[{"a": 1, "b": 1.0}, None], [{"a": 1, "b": 1.0}], [{"a": 2, "b": 1.0}]],
            [[{"a": 1, "b": 1.0}, None], [None], [{"a": 3, "b": 1.0}]],
            [True, False, False],
        ),
    ],
)
def test_what_is_equal(
    kind: pa.DataType, left: list[object], right: list[object], expected: list[bool]
) -> None:
    """Two nulls are, and two NaNs, and zeros of either sign; at any depth, and where arrays begin in the middle."""
    one, other = pa.array(left, kind), pa.array(right, kind)
    assert equal(one, other).tolist() == expected
    assert equal(other, one).tolist() == expected
    assert equal(one.slice(1), other.slice(1)).tolist() == expected[1:]
    assert equal(one, pa.array(left, kind)).all()


@pytest.mark.parametrize("begin", [0, 1])
def test_what_came_later_is_null_in_older_values(begin: int) -> None:
    """Fields of structs, and of structs in lists; numbers of a narrower type are what they are."""
    want = pa.struct([("b", pa.string()), ("a", pa.int64())])
    have = pa.struct([("a", pa.int32())])
    found = aligned(pa.array([{"a": 1}, None, {"a": None}], have).slice(begin), want).to_pylist()
    assert found == [{"b": None, "a": 1}, None, {"b": None, "a": None}][begin:]
    lists = pa.array([[{"a": 1}, None], None, []], pa.list_(pa.field("element", have))).slice(begin)
    found = aligned(lists, pa.list_(pa.field("element", want)))
    assert found.to_pylist() == [[{"b": None, "a": 1}, None], None, []][begin:]
