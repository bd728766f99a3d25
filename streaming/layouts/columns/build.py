"""Cells to Arrow arrays: the values of one scalar column, all at once, straight from the raw bytes.

``scalars`` gives the array and the cells that the column did not take. The usual BSON types of a column are
loaded by numpy; everything else goes cell by cell through ``plain.convert``, which defines what a
column takes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.bson.elements import (
    BINARY,
    BOOL,
    DATE,
    DECIMAL,
    DOUBLE,
    INT32,
    INT64,
    NULL,
    OBJECT_ID,
)
from streaming.decode.buffer import Buffer, Cells, Mask, Positions
from streaming.decode.loads import Numbers, load, longs, slices, strings, validity
from streaming.layouts.columns.decimals import DECIMALS, SCALES
from streaming.layouts.columns.plain import DATE_MAX, DATE_MIN, MISFIT, convert
from streaming.layouts.columns.plan import Scalar
from streaming.layouts.columns.schemas import arrow_type

_HEX = np.array([int.from_bytes(f"{byte:02x}".encode(), "little") for byte in range(256)], np.uint16)
_LOW32 = np.uint64(0xFFFFFFFF)
_EXACT_DOUBLE = 1 << 53
_COEFFICIENT_HIGH = np.uint64((1 << 49) - 1)
_EXPONENT_BIAS = 6176
_POWERS = np.array([10**power for power in range(SCALES[-1] + 1)], np.uint64)


def scalars(kind: str, buffer: Buffer, cells: Cells) -> tuple[pa.Array, Positions]:
    """The column's array, and the slots whose value is there and did not fit (an explicit null included): the array is
    null there.

    ``kind`` is that of a `plan.Scalar`. The array has one item for each of ``cells``, whose positions are in
    ``buffer``.
    """
    values, fits = _BUILDERS[kind](buffer, cells)
    left = np.flatnonzero((cells.tags != 0) & ~fits)
    if not len(left):
        return values, left
    return _with_converted(kind, buffer, cells, values, left)


def _with_converted(
    kind: str, buffer: Buffer, cells: Cells, values: pa.Array, left: Positions
) -> tuple[pa.Array, Positions]:
    """Ask ``convert`` about the cells that are left."""
    taken: dict[int, Any] = {}
    for slot in left[cells.tags[left] != NULL].tolist():
        value = convert(kind, int(cells.tags[slot]), buffer.raw, int(cells.at[slot]))
        if value is not MISFIT:
            taken[slot] = value
    if not taken:
        return values, left
    slots = np.fromiter(taken, np.int64, len(taken))
    replaced = np.zeros(len(values), np.bool_)
    replaced[slots] = True
    values = pc.replace_with_mask(values, pa.array(replaced), plain_array(kind, list(taken.values())))
    return values, np.setdiff1d(left, slots, assume_unique=True)


def plain_array(kind: str, values: list[Any]) -> pa.Array:
    """An array of what ``convert`` gave for this kind (None: null)."""
    type_ = arrow_type(Scalar(kind))
    if kind in DECIMALS:
        raw = b"".join([(value or 0).to_bytes(16, "little", signed=True) for value in values])
        valid = np.array([value is not None for value in values], np.bool_)
        return pa.Array.from_buffers(type_, len(values), [validity(valid), pa.py_buffer(raw)])
    return pa.array(values, type_)


def _fixed(kind: str, values: Numbers, fits: Mask) -> pa.Array:
    return pa.Array.from_buffers(arrow_type(Scalar(kind)), len(fits), [validity(fits), pa.py_buffer(values)])


def _doubles(buffer: Buffer, cells: Cells) -> tuple[pa.Array, Mask]:
    values = np.zeros(len(cells.at), np.float64)
    double, narrow, wide = cells.tags == DOUBLE, cells.tags == INT32, cells.tags == INT64
    load(buffer.double, cells.at, double, values)
    load(buffer.int32, cells.at, narrow, values)
    if wide.any():
        longs = np.full(len(wide), _EXACT_DOUBLE + 1)
        load(buffer.int64, cells.at, wide, longs)
        wide = (longs >= -_EXACT_DOUBLE) & (longs <= _EXACT_DOUBLE)
        values[wide] = longs[wide]
    fits = double | narrow | wide
    return _fixed("double", values, fits), fits


def _dates(buffer: Buffer, cells: Cells) -> tuple[pa.Array, Mask]:
    values = np.zeros(len(cells.at), np.int64)
    fits = cells.tags == DATE
    load(buffer.int64, cells.at, fits, values)
    fits = fits & (values >= DATE_MIN) & (values <= DATE_MAX)
    values[~fits] = 0
    return _fixed("date", values * 1000, fits), fits


def _bools(buffer: Buffer, cells: Cells) -> tuple[pa.Array, Mask]:
    fits = cells.tags == BOOL
    values = np.zeros(len(fits), np.uint8)
    load(buffer.bytes, cells.at, fits, values)
    return _fixed("bool", np.packbits(values != 0, bitorder="little"), fits), fits


def _object_ids(buffer: Buffer, cells: Cells) -> tuple[pa.Array, Mask]:
    fits = cells.tags == OBJECT_ID
    at = cells.at if fits.all() else cells.at[fits]
    digits = _HEX[np.ascontiguousarray(buffer.object_id[at]).view(np.uint8)]
    ends = np.cumsum(fits, dtype=np.int32) * np.int32(24)
    offsets = np.concatenate((np.zeros(1, np.int32), ends))
    buffers = [validity(fits), pa.py_buffer(offsets), pa.py_buffer(digits)]
    return pa.Array.from_buffers(pa.string(), len(fits), buffers), fits


def _binaries(buffer: Buffer, cells: Cells) -> tuple[pa.Array, Mask]:
    fits = (cells.tags == BINARY) & (buffer.bytes[np.minimum(cells.at + 4, buffer.size)] == 0)
    return slices(buffer, cells.at + 5, fits, 0), fits


def _decimals(kind: str, buffer: Buffer, cells: Cells) -> tuple[pa.Array, Mask]:
    """Decimal128 is sign, exponent and a 113-bit coefficient (IEEE 754, BID). Those below 2**64 are scaled here."""
    at = np.where(cells.tags == DECIMAL, cells.at, buffer.size)
    low, high = buffer.uint64[at], buffer.uint64[np.minimum(at + 8, buffer.size)]
    exponent = ((high >> np.uint64(49)) & np.uint64(0x3FFF)).astype(np.int64) - _EXPONENT_BIAS
    scale = DECIMALS[kind]
    power = exponent + scale
    negative = (high >> np.uint64(63)) != 0
    fits = (cells.tags == DECIMAL) & ((high & _COEFFICIENT_HIGH) == 0) & (power >= 0) & (power <= scale)
    # The two highest exponent bits both set: a special value or a larger coefficient.
    fits &= ((high >> np.uint64(61)) & np.uint64(3)) != 3
    fits &= ~(negative & (low == 0))  # a column has no -0
    return _fixed(kind, _scaled(low, np.where(fits, power, 0), negative), fits), fits


def _scaled(magnitude: Numbers, power: Positions, negative: Mask) -> Numbers:
    """``±magnitude * 10**power`` as 128-bit numbers, two little-endian words each."""
    factor = _POWERS[power]
    # 64 by 64 bits, from products of 32 by 32 bits; a negative number is the two's complement.
    a1, a0 = magnitude >> np.uint64(32), magnitude & _LOW32
    b1, b0 = factor >> np.uint64(32), factor & _LOW32
    middle = a1 * b0 + ((a0 * b0) >> np.uint64(32))
    middle2 = a0 * b1 + (middle & _LOW32)
    words = np.empty((len(magnitude), 2), np.uint64)
    low = magnitude * factor
    high = a1 * b1 + (middle >> np.uint64(32)) + (middle2 >> np.uint64(32))
    words[:, 0] = np.where(negative, ~low + np.uint64(1), low)
    words[:, 1] = np.where(negative, ~high + (low == 0), high)
    return words


_BUILDERS: dict[str, Callable[[Buffer, Cells], tuple[pa.Array, Mask]]] = {
    "long": longs,
    "double": _doubles,
    **{kind: partial(_decimals, kind) for kind in DECIMALS},
    "string": strings,
    "bool": _bools,
    "date": _dates,
    "objectId": _object_ids,
    "binary": _binaries,
}
