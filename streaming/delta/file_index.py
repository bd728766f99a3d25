"""Data files of a table in the order of their lowest keys, so that those which may hold keys of given ranges are found
without a look at all of them.

Files lie in blocks of some hundred, in ascending order of their lowest keys; a block knows the highest key of its
files. A search passes over each block that ends before a range begins, and ends at the first that begins behind the
last range. Files of wide ranges, as changes all over a table bring them, begin near the lowest key of all, so few
blocks have them. There may be thousands of ranges, such as single keys: a file or block is compared with the only one
that could meet it.

Where a file lies is its *place*: its number in that order. Files that are found come as runs of places, which whoever
keeps something else of each file in the same order can take out at once.

Invariants: a file is left out only where its statistics prove that it holds no key of the ranges (Delta cuts them so
that they still bound the keys: the lowest is a prefix of the lowest key, the highest no less than the highest). No path
is there twice.

Pure: standard library only.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from streaming.column_names import CLUSTER_TIME, KEY, ORDER
from streaming.delta.upkeep_plan import FileFacts
from streaming.json_text import from_text
from streaming.keys.ranges import Range, disjoint

BLOCK = 128
_INDEXED = {KEY, CLUSTER_TIME, ORDER}
Run = tuple[int, int]
"""Places from the first, up to but not the second."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """What the log says of a file: its ``facts``. ``counted``: whether it says how many rows there are, without which
    none can be marked. Statistics of more columns than ours, which somebody may have asked Delta to keep, count as
    none: when rows are marked, they are written again by a parser that would round a decimal."""

    facts: FileFacts
    counted: bool

    @classmethod
    def of(cls, add: Mapping[str, Any]) -> DataFile:
        """Of the action that added it, as it stands in the log."""
        statistics = from_text(add.get("stats") or "{}")
        low, high = (statistics.get(name, {}) for name in ("minValues", "maxValues"))
        rows = statistics.get("numRecords") if {*low, *high} <= _INDEXED else None
        marked = (add.get("deletionVector") or {}).get("cardinality", 0)
        size, written = add.get("size", 0), add.get("modificationTime", 0)
        facts = FileFacts(add["path"], size, rows or 0, marked, written, low.get(KEY), high.get(KEY))
        return cls(facts, rows is not None)

    def marking(self, rows: int) -> DataFile:
        """The same file once so many of its rows are marked."""
        return replace(self, facts=replace(self.facts, marked=rows))

    @property
    def low(self) -> str | None:
        """No row has a lower key; None where the log does not say, and it may be any."""
        return self.facts.low

    @property
    def high(self) -> str | None:
        """The same of the highest."""
        return self.facts.high

    @property
    def order(self) -> tuple[str, str]:
        """By what files are sorted."""
        return self.low or "", self.facts.path


class _Sought:
    """The ranges that are looked for, disjoint and ascending."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        apart = disjoint(ranges)
        self.lows, self.highs = [low for low, _ in apart], [high for _, high in apart]

    def meet(self, least: str, most: str | None) -> bool:
        """Whether a key of one of them may lie between these two (``most`` None: there is no upper bound)."""
        first = bisect_left(self.highs, least)  # of those that do not end before it
        return first < len(self.lows) and (most is None or self.lows[first] <= most)


def in_order(files: Sequence[DataFile]) -> bool:
    """Whether these are sorted by `DataFile.order`, and none is there twice."""
    return all(one.order < other.order for one, other in pairwise(files))


@dataclass(slots=True)
class _Block:
    files: list[DataFile]
    high: str | None = field(init=False)

    def __post_init__(self) -> None:
        self.measure()

    def measure(self) -> None:
        highs = [file.high for file in self.files if file.high is not None]
        self.high = max(highs) if len(highs) == len(self.files) else None


class FileIndex:
    """The ``files`` of a table, sorted by `DataFile.order`."""

    def __init__(self, files: Sequence[DataFile] = ()) -> None:
        if not in_order(files):
            raise ValueError("files are not in ascending order")
        self._blocks = [_Block(list(files[at : at + BLOCK])) for at in range(0, len(files), BLOCK)]
        self._files = {file.facts.path: file for file in files}

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[DataFile]:
        """In their order."""
        return (file for block in self._blocks for file in block.files)

    def __getitem__(self, path: str) -> DataFile:
        return self._files[path]

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def place(self, path: str) -> int:
        """Where the file of this path lies."""
        number, at = self._find(self._files[path])
        return self._begin(number) + at

    def within(self, ranges: Sequence[Range] | None) -> list[Run]:
        """Where those lie that may hold keys of these ranges (None: all of them); as few runs as that takes, in
        order."""
        if ranges is None:
            return [(0, len(self))] if len(self) else []
        return list(_runs(self._places(_Sought(ranges))))

    def renew(self, file: DataFile) -> int | None:
        """Take in what a file is by now that is there, and has the same bounds; its place. None: it is not so."""
        was = self._files.get(file.facts.path)
        if was is None or (was.low, was.high) != (file.low, file.high):
            return None
        number, at = self._find(file)
        self._files[file.facts.path] = self._blocks[number].files[at] = file
        return self._begin(number) + at

    def add(self, file: DataFile) -> int:
        """Take a file in, whose path is not there; its place."""
        if file.facts.path in self._files:
            raise ValueError(f"{file.facts.path} is there already")
        self._files[file.facts.path] = file
        if not self._blocks:
            self._blocks = [_Block([file])]
            return 0
        number, at = self._find(file)
        block, place = self._blocks[number], self._begin(number) + at
        block.files.insert(at, file)
        if len(block.files) > 2 * BLOCK:
            halves = block.files[:BLOCK], block.files[BLOCK:]
            self._blocks[number : number + 1] = [_Block(half) for half in halves]
        else:
            block.measure()
        return place

    def remove(self, path: str) -> int:
        """Let go of a file; the place that it had."""
        number, at = self._find(self._files.pop(path))
        block, place = self._blocks[number], self._begin(number) + at
        del block.files[at]
        if block.files:
            block.measure()
        else:
            del self._blocks[number]
        return place

    def _find(self, file: DataFile) -> tuple[int, int]:
        """The number of the block that has the file, or would, and where in it."""
        number = max(0, bisect_right(self._blocks, file.order, key=lambda block: block.files[0].order) - 1)
        return number, bisect_left(self._blocks[number].files, file.order, key=lambda one: one.order)

    def _begin(self, number: int) -> int:
        return sum(len(block.files) for block in self._blocks[:number])

    def _places(self, sought: _Sought) -> Iterator[int]:
        begin = 0
        for block in self._blocks:
            least = block.files[0].low or ""
            if not sought.highs or least > sought.highs[-1]:
                return
            if sought.meet(least, block.high):
                for at, file in enumerate(block.files):
                    if sought.meet(file.low or "", file.high):
                        yield begin + at
            begin += len(block.files)


def _runs(places: Iterable[int]) -> Iterator[Run]:
    begin, end = 0, 0
    for place in places:
        if place != end:
            if end > begin:
                yield begin, end
            begin = place
        end = place + 1
    if end > begin:
        yield begin, end
