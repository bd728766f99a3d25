"""Columns of Arrow held against one another, row by row, as Spark holds its own.

Equal are two nulls, two NaNs, a zero and a negative zero; lists that have equal elements in the same order; structs
whose fields are equal. A file that was written before its table got a column, or a field within one, has nulls there.

Invariant: for the types that a table of ours has, `equal` says of each row what Spark's ``<=>`` says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Flags = np.ndarray[Any, np.dtype[np.bool_]]


def aligned(values: pa.Array, want: pa.DataType) -> pa.Array:
    """The same values as ones of a type that has grown from theirs."""
    have = values.type
    if have == want:
        return values
    if pa.types.is_struct(want) and pa.types.is_struct(have):
        given = {field.name: part for field, part in zip(have.fields, values.flatten(), strict=True)}
        parts = [
            aligned(given[field.name], field.type)
            if field.name in given
            else pa.nulls(len(values), field.type)
            for field in want.fields
        ]
        return pa.StructArray.from_arrays(parts, fields=want.fields, mask=values.is_null())
    if pa.types.is_list(want) and pa.types.is_list(have):
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
        offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
        inner = aligned(values.flatten(), want.value_type)
        return pa.ListArray.from_arrays(pa.array(offsets), inner, type=want, mask=values.is_null())
    return values.cast(want)


def equal(left: pa.Array, right: pa.Array) -> Flags:
    """Of each row, whether the two are equal. Both have the same type and length."""
    if left.equals(right):
        return np.ones(len(left), np.bool_)
    both = _flags(left.is_valid()) & _flags(right.is_valid())
    same: Flags = ~_flags(left.is_valid()) & ~_flags(right.is_valid())
    if pa.types.is_struct(left.type):
        inner = both
        for one, other in zip(left.flatten(), right.flatten(), strict=True):
            inner = inner & equal(one, other)
        return same | inner
    if pa.types.is_list(left.type):
        return same | _equal_lists(left, right, both)
    found = pc.equal(left, right)
    if pa.types.is_floating(left.type):
        found = pc.or_(found, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return same | (both & _flags(found.fill_null(False)))


def _equal_lists(left: pa.Array, right: pa.Array, both: Flags) -> Flags:
    """Of lists: of which ``both`` are there, and all is equal in them."""
    lengths = (pc.fill_null(pc.list_value_length(one), -1).to_numpy() for one in (left, right))
    found: Flags = both & (next(lengths) == next(lengths))
    rows = np.flatnonzero(found)
    some = pa.array(rows)
    mine, others = left.take(some), right.take(some)
    differing = ~equal(mine.flatten(), others.flatten())
    found[rows[pc.list_parent_indices(mine).to_numpy()[differing]]] = False
    return found


def _flags(values: pa.Array) -> Flags:
    flags: Flags = values.to_numpy(zero_copy_only=False)
    return flags
