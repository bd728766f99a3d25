"""A few literal ranges that cover the keys of a MERGE's source.

Open-source Delta prunes a MERGE's target only by literal predicates, so the MERGE says
``(t._key BETWEEN 'a' AND 'c') OR (t._key BETWEEN 'x' AND 'z')``. Two invariants:

- every key of the source lies in one of the ranges (a key outside would match nothing and be inserted beside
  its old row), so the ranges are computed from the keys themselves, never from the bounds of a window;
- the ranges are few and disjoint, in ascending order, and the gaps left out are the largest ones.

Delta keeps the first 32 characters of a string in a file's statistics. Distances are therefore
measured on 32 characters only: keys that share them cannot be told apart by pruning, and are never split.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest

Range = tuple[str, str]
"""Lowest and highest key, both included."""

STATISTICS_CHARACTERS = 32
RANGES_MAX = 8

_PREFIX_BYTES = 4 * STATISTICS_CHARACTERS


def key_ranges(keys: Iterable[str], limit: int = RANGES_MAX) -> tuple[Range, ...]:
    """At most ``limit`` ranges that hold all of ``keys``, which may come in any order; () for no keys."""
    return cover([(key, key) for key in keys], limit)


def cover(ranges: Iterable[Range], limit: int = RANGES_MAX) -> tuple[Range, ...]:
    """At most ``limit`` disjoint ranges, ascending, that hold all of ``ranges``; () for none.

    Raises ValueError when ``limit`` is below one, or a range ends before it begins.
    """
    if limit < 1:
        raise ValueError(f"the keys of a source need one range at least, got a limit of {limit}")
    joined = disjoint(ranges)
    if len(joined) <= limit and all(_gap(joined, at) for at in range(len(joined) - 1)):
        return tuple(joined)
    gaps = ((_gap(joined, at), at) for at in range(len(joined) - 1))
    splits = sorted(at for gap, at in nlargest(limit - 1, gaps) if gap > 0)
    starts = [0, *(at + 1 for at in splits)]
    ends = [*splits, len(joined) - 1]
    return tuple((joined[start][0], joined[end][1]) for start, end in zip(starts, ends, strict=True))


def disjoint(ranges: Iterable[Range]) -> list[Range]:
    """The same in ascending order, those that overlap made one. Raises ValueError where one ends before it begins."""
    joined: list[Range] = []
    for low, high in sorted(ranges):
        if high < low:
            raise ValueError(f"a range that ends before it begins: {low!r} .. {high!r}")
        if joined and low <= joined[-1][1]:
            if high > joined[-1][1]:
                joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined


def holds(ranges: Sequence[Range], key: str) -> bool:
    """Whether the key lies in one of the ranges."""
    return any(low <= key <= high for low, high in ranges)


def _gap(ranges: Sequence[Range], at: int) -> int:
    """The distance between range ``at`` and the next; 0 when their statistics could not tell them apart."""
    return _number(ranges[at + 1][0]) - _number(ranges[at][1])


def _number(key: str) -> int:
    """The first 32 characters as a number; UTF-8 keeps the order of characters."""
    prefix = key[:STATISTICS_CHARACTERS].encode("utf-8", "surrogatepass")
    return int.from_bytes(prefix.ljust(_PREFIX_BYTES, b"\0"), "big")
