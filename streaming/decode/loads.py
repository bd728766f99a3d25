"""Values of one BSON type, loaded by numpy straight from the raw bytes: what keys and every layout need.

Each gives an Arrow array, null where a cell is of another type, and which cells it took.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streaming.bson.elements import INT32, INT64, STRING
from streaming.decode.buffer import Buffer, Cells, Mask, Positions

Numbers = npt.NDArray[Any]


def validity(valid: Mask) -> pa.Buffer | None:
    """An Arrow validity bitmap; None when all are valid."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def load(view: Numbers, at: Positions, where: Mask, into: Numbers) -> None:
    """Set ``into`` to the numbers at the positions ``at``, where the mask ``where`` says so; elsewhere it stays.

    ``view`` is one of `Buffer`'s, so a position is that of a byte. All but ``view`` have one item a slot.
    """
    if where.all():
        into[:] = view[at]
    elif where.any():
        into[where] = view[at[where]]


def longs(buffer: Buffer, cells: Cells) -> tuple[pa.Array, Mask]:
    """Integers of 32 and of 64 bits."""
    values = np.zeros(len(cells.at), np.int64)
    wide, narrow = cells.tags == INT64, cells.tags == INT32
    load(buffer.int64, cells.at, wide, values)
    load(buffer.int32, cells.at, narrow, values)
    fits = wide | narrow
    return pa.Array.from_buffers(pa.int64(), len(fits), [validity(fits), pa.py_buffer(values)]), fits


def strings(buffer: Buffer, cells: Cells) -> tuple[pa.Array, Mask]:
    """Strings that are UTF-8."""
    fits = cells.tags == STRING
    values = slices(buffer, cells.at + 4, fits, 1)
    try:
        return values.cast(pa.string()), fits
    except pa.ArrowInvalid:  # some are no UTF-8
        sure = fits & np.array([_is_utf8(value) for value in values.to_pylist()], np.bool_)
        return slices(buffer, cells.at + 4, sure, 1).cast(pa.string()), sure


def _is_utf8(value: bytes | None) -> bool:
    try:
        return value is not None and value.decode() is not None
    except UnicodeDecodeError:
        return False


def slices(buffer: Buffer, start: Positions, where: Mask, trailing: int) -> pa.Array:
    """The counted bytes at ``start`` in ``buffer``, for the slots in ``where``; null for the others.

    ``trailing``: how many bytes the count has more than the value. 1 for strings, whose count includes a NUL; 0 for
    binary data, where the subtype stands between the count and the data.

    The positions must ascend. Then starts and ends taken by turns are offsets into the raw bytes as they are, and
    every second slice is a value: Arrow copies them together.
    """
    count = len(start)
    lengths = buffer.int32[np.where(where, start - (4 if trailing else 5), buffer.size)].astype(np.int64)
    bounds = np.zeros(2 * count + 1, np.int64)  # 0 where nothing is taken: accumulated, an empty slice
    bounds[0 : 2 * count : 2] = np.where(where, start, 0)
    bounds[1 : 2 * count : 2] = np.where(where, start + lengths - trailing, 0)
    offsets = np.maximum.accumulate(bounds).astype(np.int32)
    raw = pa.py_buffer(buffer.padded)
    slices = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), raw])
    values = slices.take(pa.array(np.arange(0, 2 * count, 2)))
    if where.all():
        return values
    return pa.Array.from_buffers(pa.binary(), count, [validity(where), *values.buffers()[1:]])
