"""Files are found by key ranges as if each were looked at, and without looking at each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.delta import file_index
from streaming.delta.file_index import DataFile, FileIndex
from streaming.delta.upkeep_plan import FileFacts
from streaming.keys.ranges import Range

KEYS = st.text("abz\U0001f600", max_size=3)
BOUNDS = st.one_of(st.tuples(KEYS, KEYS).map(sorted).map(tuple), st.tuples(st.none() | KEYS, st.none()))
RANGES = st.lists(st.tuples(KEYS, KEYS).map(lambda pair: (min(pair), max(pair))), max_size=12)


def file(name: str, bounds: tuple[str | None, str | None] = ("a", "b")) -> DataFile:
    return DataFile(FileFacts(name, 1, 1, 0, 0, *bounds), True)


def may_meet(file: DataFile, ranges: Sequence[Range]) -> bool:
    return any(
        (file.high is None or low <= file.high) and (file.low is None or file.low <= high)
        for low, high in ranges
    )


def found(index: FileIndex, ranges: Sequence[Range] | None) -> list[str]:
    files = list(index)
    return [files[at].facts.path for begin, end in index.within(ranges) for at in range(begin, end)]


@given(st.lists(BOUNDS, max_size=40), st.lists(st.tuples(st.integers(0, 50), BOUNDS), max_size=40), RANGES)
def test_pruned_is_unpruned(
    first: list[tuple[str | None, str | None]],
    changes: list[tuple[int, tuple[str | None, str | None]]],
    ranges: list[Range],
) -> None:
    """Whatever came and went: the order holds, places are those of the order, runs are as few as can be, and exactly
    the files are found that may hold a key."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_index, "BLOCK", 3)
        known = {f"f{n:02}": file(f"f{n:02}", bounds) for n, bounds in enumerate(first)}
        index = FileIndex(sorted(known.values(), key=lambda one: one.order))
        for number, bounds in changes:
            name = f"f{number:02}"
            if name in index and (known[name].low, known[name].high) == bounds:
                known[name] = known[name].marking(known[name].facts.marked + 1)
                place = index.renew(known[name])
                assert place is not None
                assert list(index)[place] == index[name] == known[name]
            elif name in index:
                assert index.renew(file(name, bounds)) is None
                place = index.place(name)
                assert list(index)[place] == known.pop(name)
                assert index.remove(name) == place
            else:
                known[name] = file(name, bounds)
                place = index.add(known[name])
                assert list(index)[place] == known[name]
            assert [one.order for one in index] == sorted(one.order for one in known.values())
        ends = {end for one in known.values() for end in (one.low, one.high) if end is not None}
        for asked in (ranges, *([(end, end)] for end in sorted(ends))):
            assert found(index, asked) == [one.facts.path for one in index if may_meet(one, asked)]
            assert all(one[1] < other[0] for one, other in pairwise(index.within(asked)))
        assert found(index, None) == [one.facts.path for one in index]


class Watched(str):
    """A highest key that tells when it is compared."""

    __slots__ = ()
    looks = 0

    def __ge__(self, other: str) -> bool:
        Watched.looks += 1
        return str(self) >= str(other)


def test_few_of_many_are_looked_at() -> None:
    """Of 20,000 files side by side, and some over all of them, a range that three hold costs about one block and what
    is found."""
    wide = [file(f"w{n}", (f"{0:06}", Watched(f"{10**6:06}"))) for n in range(20)]
    narrow = [file(f"n{n:06}", (f"{n:06}", Watched(f"{n:06}"))) for n in range(20_000)]
    index = FileIndex(sorted([*wide, *narrow], key=lambda one: one.order))
    Watched.looks = 0
    assert len(found(index, [(f"{9_000:06}", f"{9_002:06}")])) == len(wide) + 3
    blocks = len(index) // file_index.BLOCK
    assert 0 < Watched.looks < blocks + 4 * file_index.BLOCK
    Watched.looks = 0
    every_tenth = [(f"{n:06}", f"{n:06}") for n in range(0, 20_000, 10)]
    assert len(found(index, every_tenth)) == len(wide) + 2_000
    assert Watched.looks <= len(index) + blocks + 1, "each file and block once, however many are asked for"
