"""Which rows of a table's files have given keys, found by the driver.

A Spark job for it takes a tenth of a second and more however few the keys are, and Delta's for the deletion vectors
another fifth; most of a small landing is these two. Files never change, so the keys of a file, once read, are kept: the
next landing looks for its own among them in memory. That is for a table, or for as much of it as may have a landing's
keys, whose keys the driver can hold: a larger one is for Spark, whose workers share it. Most files are sorted by key,
so few keys among many are looked for where they may be.

What is kept is bounded for all tables together, oldest use first; a file of which nothing is kept is read again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.column_names import KEY
from streaming.delta.arrow_rows import Flags
from streaming.delta.marked_rows import Numbers, marked_rows
from streaming.delta.table_file import KEYS, TableFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from streaming.delta.file_matching import OldFile
    from streaming.delta.table_folder import TableFolder

FILES_MAX = 2_000
"""That are looked through at once."""
KEYS_MAX = 400_000
"""That are looked for at once."""
KEPT_BYTES = 96 << 20
"""Keys of four and a half million documents with ids as MongoDB makes them."""
_BLOCK = 256
"""Rows of a sorted file that are looked through together."""
_BESIDE_BYTES = 1_000
"""That an entry takes besides, in round numbers."""
_STR_BYTES = 57  # what Python takes for one beside its characters, with its place in a list
_WHOLE_BYTES, _AT_ONCE = 1 << 20, 8
_WANTED_MAX, _FEW = 20_000, 2
"""Of more keys every row is looked at, and of more than half as many as a file has blocks those of that file."""
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Hits:
    """Rows of a file that have keys which were looked for: their numbers, ascending, and at each the ``place`` of its
    key among those. ``marked``: the rows that are gone already, by its vector."""

    rows: Numbers
    places: Numbers
    marked: Numbers


@dataclass(frozen=True, slots=True)
class Column:
    """The ``keys`` of a file's rows; where they ascend, the first of each block of rows (``firsts``). Both take so many
    bytes (``nbytes``)."""

    keys: pa.Array
    firsts: Sequence[str]
    nbytes: int

    @classmethod
    def of(cls, keys: pa.Array) -> Column:
        ascend = not keys.null_count and pc.all(pc.less_equal(keys[:-1], keys[1:])).as_py() is not False
        firsts = keys[::_BLOCK].to_pylist() if ascend else []
        return cls(keys, firsts, keys.nbytes + sum(len(first) + _STR_BYTES for first in firsts))

    def near(self, wanted: Sequence[str]) -> Numbers | None:
        """The rows that may have one of these keys, which ascend; None for all of them, or nearly."""
        if not self.firsts:
            return None
        begin, end = bisect_left(wanted, self.firsts[0]), bisect_right(wanted, self.keys[-1].as_py())
        if end - begin > len(self.firsts) // _FEW:
            return None
        blocks: set[int] = set()
        for key in wanted[begin:end]:
            # One that begins a block may come in the one before, too.
            blocks.update(range(max(0, bisect_left(self.firsts, key) - 1), bisect_right(self.firsts, key)))
        rows = np.add.outer(np.array(sorted(blocks), np.int64) * _BLOCK, np.arange(_BLOCK)).ravel()
        return rows[rows < len(self.keys)]


class FileKeys:
    """Keys of files, and what is marked in them, of at most so many bytes (``kept_bytes``). For several threads, each
    of which holds as much again at most while it looks."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept: OrderedDict[tuple[str, ...], _Kept] = OrderedDict()
        self._bytes, self._bytes_max = 0, kept_bytes
        self._lock = Lock()

    def hold(self, kept_bytes: int) -> None:
        """No more than so many bytes from here on."""
        with self._lock:
            self._bytes_max = kept_bytes
            self._forget()

    def have_room(self, rows: int, like: pa.Array) -> bool:
        """Whether keys of so many rows can be kept, where they are about as long as these."""
        return not len(like) or rows * like.nbytes <= self._bytes_max * len(like)

    def find(self, folder: TableFolder, files: Sequence[OldFile], keys: pa.Array) -> dict[str, Hits]:
        """The rows of these ``files`` in a table's ``folder`` that have one of these ``keys`` and are not marked as
        gone, by the names of the files. Raises what reading a file or its vector raises (`table_file.UNREAD`), and
        ValueError for more keys than there is room for."""
        columns = self._columns(folder, files)
        wanted = sorted(keys.to_pylist()) if len(keys) <= _WANTED_MAX else ()
        near = [column.near(wanted) if wanted else None for column in columns]
        # One look for all files: each look makes a table of all keys.
        parts = [_part(column.keys, rows) for column, rows in zip(columns, near, strict=True)]
        among = pc.index_in(pa.chunked_array(parts, pa.string()), value_set=keys)
        met = [
            (file, at if rows is None else rows[at], places[at].astype(np.int64))
            for file, rows, places in zip(files, near, _by_file(among, parts), strict=True)
            if len(at := np.flatnonzero(places >= 0))
        ]
        vectors = folder.each(lambda file: self.marked(folder, file), [file for file, _, _ in met])
        found: dict[str, Hits] = {}
        for (file, rows, places), marked in zip(met, vectors, strict=True):
            live = _not_among(rows, marked)
            if live.any():
                found[file.name] = Hits(rows[live], places[live], marked)
        return found

    def marked(self, folder: TableFolder, file: OldFile) -> Numbers:
        """The rows of a file that are gone."""
        if (vector := file.vector) is None:
            return _NONE
        of_file, version = _place(folder, file.name, vector)
        rows: Numbers = self._get(of_file, version, lambda: marked_rows(folder, vector))
        return rows

    def note(self, folder: TableFolder, name: str, vector: Mapping[str, Any], rows: Numbers) -> None:
        """The ``vector`` of a file of this ``name`` in a table's ``folder``, as the log describes it, marks these
        ``rows``."""
        self._keep(*_place(folder, name, vector), rows)

    def concat(self, folder: TableFolder, names: Sequence[str], into: str) -> None:
        """The rows of the files of these ``names`` in a table's ``folder`` lie one behind the other in a new one
        (``into``), and the files are gone: what was kept of their keys is kept of that."""
        with self._lock:
            places = [(folder.location, name) for name in names]
            parts = [self._kept.pop(place, None) for place in places]
            self._bytes -= sum(part.size for part in parts if part is not None)
        columns = [part.found.keys for part in parts if part is not None]
        if columns and len(columns) == len(parts):
            self._keep((folder.location, into), (), Column.of(pa.concat_arrays(columns)))

    def has_keys(self, folder: TableFolder, name: str) -> bool:
        """Whether the keys of a file are kept."""
        with self._lock:
            return (folder.location, name) in self._kept

    def keys(self, folder: TableFolder, name: str, *, keep: bool = True) -> pa.Array:
        """The keys of all rows of the file of this ``name`` in a table's ``folder``, in their order; not to ``keep``
        them is for one that is about to go. Raises what reading it raises."""
        return self._column(folder, name, keep=keep).keys

    def _column(self, folder: TableFolder, name: str, *, keep: bool = True) -> Column:
        def read() -> Column:
            with ExitStack() as stack:
                file = TableFile.opened(folder, name, stack, whole_bytes=_WHOLE_BYTES)
                if KEY not in file.names:
                    raise ValueError(f"{name} has no column {KEY}")
                return Column.of(file.whole(KEYS))

        found: Column = self._get((folder.location, name), (), read, keep=keep)
        return found

    def _columns(self, folder: TableFolder, files: Sequence[OldFile]) -> list[Column]:
        columns: list[Column] = []
        size = 0
        for first in range(0, len(files), _AT_ONCE):
            some = folder.each(lambda file: self._column(folder, file.name), files[first : first + _AT_ONCE])
            columns += some
            size += sum(column.nbytes for column in some)
            if size > self._bytes_max:
                raise ValueError(
                    f"keys of {len(columns)} files take {size} bytes, and there is room for less"
                )
        return columns

    def _get(
        self, what: tuple[str, ...], version: tuple[str, ...], read: Callable[[], Any], *, keep: bool = True
    ) -> Any:
        with self._lock:
            kept = self._kept.get(what)
            if kept is not None and kept.version == version:
                self._kept.move_to_end(what)
                return kept.found
        found = read()
        if keep:
            self._keep(what, version, found)
        return found

    def _keep(self, what: tuple[str, ...], version: tuple[str, ...], found: Any) -> None:
        """In the place of an older version."""
        size = found.nbytes + sum(map(len, (*what, *version))) + _BESIDE_BYTES
        with self._lock:
            if (older := self._kept.pop(what, None)) is not None:
                self._bytes -= older.size
            if size > self._bytes_max:
                return
            self._kept[what] = _Kept(version, found, size)
            self._bytes += size
            self._forget()

    def _forget(self) -> None:
        """The oldest, with the lock held."""
        while self._bytes > self._bytes_max:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= oldest.size


def _place(
    folder: TableFolder, name: str, vector: Mapping[str, Any]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Under what the vector of a file is kept, and its version."""
    return (folder.location, name, "marks"), (vector["pathOrInlineDv"], str(vector.get("offset") or 0))


@dataclass(frozen=True, slots=True)
class _Kept:
    """What was found in a file, at a ``version`` of its vector; what that takes in memory."""

    version: tuple[str, ...]
    found: Any
    size: int


KEPT = FileKeys()
"""Of all tables of this process. The engine says how much it may hold."""


def _part(keys: pa.Array, rows: Numbers | None) -> pa.Array:
    return keys if rows is None else keys.take(pa.array(rows))


def _not_among(rows: Numbers, marked: Numbers) -> Flags:
    """At each of the ``rows`` whether it is none of those that are ``marked``; both ascend."""
    gone = np.zeros(int(max([rows[-1], *marked[-1:]])) + 1, np.bool_)
    gone[marked] = True
    flags: Flags = ~gone[rows]
    return flags


def _by_file(among: pa.ChunkedArray, parts: Sequence[pa.Array]) -> list[Numbers]:
    """The places, -1 for none, in an array for each of the ``parts``."""
    places = pc.fill_null(among, -1).to_numpy()
    return np.split(places, np.cumsum([len(part) for part in parts])[:-1]) if parts else []
