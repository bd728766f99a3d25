"""Raw BSON as numpy sees it: loads at any byte, the sizes of values, and where documents end.

Damaged bytes raise ``MalformedBson``, and nothing is read past the buffer: lengths are read inside it only. Callers
check the ends that `values_after` gives against the document's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streaming.bson.elements import (
    COUNTED_EXTRAS,
    FIXED_SIZES,
    REGEX,
    SMALLEST_LENGTHS,
    MalformedBson,
    value_end,
)

Positions = npt.NDArray[np.int64]
Tags = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

PADDING = 16
"""Zero bytes behind the documents, so that a wide load at any of their bytes stays in the buffer."""

_NO_SIZE, _COUNTED, _PATTERN = -1, -2, -3

_SIZES = np.full(256, _NO_SIZE, np.int64)
_EXTRAS = np.zeros(256, np.int64)
_SMALLEST = np.zeros(256, np.int64)
for _tag, _size in FIXED_SIZES.items():
    _SIZES[_tag] = _size
for _tag, _size in COUNTED_EXTRAS.items():
    _SIZES[_tag], _EXTRAS[_tag], _SMALLEST[_tag] = _COUNTED, _size, SMALLEST_LENGTHS[_tag]
_SIZES[REGEX] = _PATTERN


class Buffer:
    """Raw bytes, and views of them that read a number at any byte: ``buffer.int32[positions]``."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.size = len(raw)
        self.padded = raw + bytes(PADDING)
        self.bytes = np.frombuffer(self.padded, np.uint8)
        self.int32 = self._view("<i4")
        self.int64 = self._view("<i8")
        self.uint64 = self._view("<u8")
        self.double = self._view("<f8")
        self.object_id = self._view("V12")

    def _view(self, kind: str) -> npt.NDArray[Any]:
        width = np.dtype(kind).itemsize
        return np.ndarray((len(self.padded) - width + 1,), kind, self.padded, strides=(1,))

    def at(self, positions: Positions, text: bytes) -> Mask:
        """For each position, whether exactly these bytes stand there. Past the end of the buffer stand zeros."""
        same: Mask = np.ones(len(positions), np.bool_)
        for offset in range(0, len(text), 8):
            part = text[offset : offset + 8]
            if len(part) < 8 and offset:  # overlap the part before, so that no mask is needed
                offset, part = len(text) - 8, text[-8:]
            loaded = self.uint64[np.minimum(positions + offset, self.size) if offset else positions]
            if len(part) < 8:
                loaded &= np.uint64((1 << 8 * len(part)) - 1)
            same &= loaded == np.uint64(int.from_bytes(part, "little"))
        return same


@dataclass(slots=True)
class Cells:
    """For each slot a value's BSON tag (0: there is none) and position."""

    tags: Tags
    at: Positions

    @classmethod
    def empty(cls, slots: int) -> Cells:
        return cls(np.zeros(slots, np.uint8), np.zeros(slots, np.int64))

    def put(self, slots: Positions | None, tags: Tags, at: Positions) -> None:
        """Set the cells of ``slots`` to ``tags`` and ``at``, which are parallel to them. None: all slots, in their
        order; the two arrays are then kept, not copied."""
        if slots is None:
            self.tags, self.at = tags, at
        else:
            self.tags[slots], self.at[slots] = tags, at

    def spread(self, slots: Positions, size: int) -> Cells:
        """The same cells among ``size`` slots, cell i at slot ``slots[i]``."""
        wide = Cells.empty(size)
        wide.put(slots, self.tags, self.at)
        return wide


def values_after(buffer: Buffer, tags: Tags, start: Positions) -> Positions:
    """Where the values end that start at ``start`` in ``buffer`` and have the BSON types ``tags``: parallel arrays of
    at least one value. Raises MalformedBson for unknown types and impossible lengths. An end may lie past the buffer:
    check it against the document's."""
    tag = int(tags[0])
    if (tags == tag).all():
        size = int(_SIZES[tag])
        if size >= 0:
            return start + size
        if size == _COUNTED:
            lengths = _lengths(buffer, start)
            _check_counted(lengths, SMALLEST_LENGTHS[tag])
            return start + lengths + COUNTED_EXTRAS[tag]
    sizes = _SIZES[tags]
    if (sizes == _NO_SIZE).any():
        wrong = int(np.argmax(sizes == _NO_SIZE))
        raise MalformedBson(f"there is no BSON type 0x{tags[wrong]:02x} (value at byte {start[wrong]})")
    counted = sizes == _COUNTED
    if counted.any():
        lengths = _lengths(buffer, start[counted])
        _check_counted(lengths, _SMALLEST[tags[counted]])
        sizes[counted] = lengths + _EXTRAS[tags[counted]]
    for index in np.flatnonzero(sizes == _PATTERN).tolist():
        sizes[index] = value_end(REGEX, buffer.raw, int(start[index])) - int(start[index])
    after: Positions = start + sizes
    return after


def document_ends(buffer: Buffer, at: Positions) -> Positions:
    """Where the final NULs of the documents stand."""
    if len(at) and int(at.max()) + 5 > buffer.size:
        raise MalformedBson(f"a document starts at byte {at.max()} of {buffer.size}")
    lengths = _lengths(buffer, at)
    ends: Positions = at + lengths - 1
    if (lengths < 5).any() or (ends >= buffer.size).any() or buffer.bytes[ends].any():
        raise MalformedBson("a document's length does not fit its bytes")
    return ends


def _lengths(buffer: Buffer, at: Positions) -> Positions:
    if (at > buffer.size).any():
        raise MalformedBson("a length lies past the end of the bytes")
    lengths: Positions = buffer.int32[at].astype(np.int64)
    return lengths


def _check_counted(lengths: Positions, smallest: int | Positions) -> None:
    if (lengths < smallest).any():
        raise MalformedBson("a value states a length that its type cannot have")
