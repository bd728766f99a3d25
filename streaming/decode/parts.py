"""Rows cut into parts that have about so many bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from streaming.decode.buffer import Positions


def parts_of(sizes: Positions, most: int) -> Iterator[tuple[int, int]]:
    """Where each part begins and ends, one behind the other, of rows with these ``sizes`` in bytes: as many rows as
    have ``most`` bytes at most, but at least one."""
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(sizes):
        bound = int(ends[begin] - sizes[begin]) + most
        end = max(begin + 1, int(np.searchsorted(ends, bound, side="right")))
        yield begin, end
        begin = end
