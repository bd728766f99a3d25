"""Which rows of a table's files have given keys, found by the driver.

A Spark job for it takes a tenth of a second and more however few the keys are, and Delta's for the deletion vectors
another fifth; most of a small landing is these two. Files never change, so the keys of a file, once read, are kept: the
next landing looks for its own among them in memory. That is for a table, or for as much of it as may have a landing's
keys, whose keys the driver can hold: a larger one is for Spark, whose workers share it.

What is kept is bounded for all tables together, oldest use first; a file of which nothing is kept is read again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.delta.marked_rows import Numbers, marked_rows
from streaming.delta.table_file import KEYS, TableFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from streaming.delta.file_matching import OldFile
    from streaming.delta.table_folder import TableFolder

ROWS_MAX, FILES_MAX = 2_000_000, 400
"""In files that are looked through at once."""
KEYS_MAX = 400_000
"""That are looked for at once."""
_KEPT_BYTES = 64 << 20
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Hits:
    """Rows of a file that have keys which were looked for: their numbers, ascending, and at each the ``place`` of its
    key among those. ``marked``: the rows that are gone already, by its vector."""

    rows: Numbers
    places: Numbers
    marked: Numbers


class FileKeys:
    """Keys of files, and what is marked in them, of at most so many bytes (``kept_bytes``). For several threads."""

    def __init__(self, kept_bytes: int = _KEPT_BYTES) -> None:
        self._kept: OrderedDict[tuple[str, ...], Any] = OrderedDict()
        self._bytes, self._bytes_max = 0, kept_bytes
        self._lock = Lock()

    def find(self, folder: TableFolder, files: Sequence[OldFile], keys: pa.Array) -> dict[str, Hits]:
        """The rows of these ``files`` in a table's ``folder`` that have one of these ``keys`` and are not marked as
        gone, by the names of the files. Raises what reading a file or its vector raises (`table_file.UNREAD`)."""
        columns = folder.each(lambda file: self._keys(folder, file.name), files)
        # One look for all files: each look makes a table of all keys.
        among = pc.index_in(pa.chunked_array(columns, pa.string()), value_set=keys)
        found: dict[str, Hits] = {}
        for file, places in zip(files, _by_file(among, columns), strict=True):
            rows = np.flatnonzero(places >= 0)
            if not len(rows):
                continue
            marked = self.marked(folder, file)
            rows = np.setdiff1d(rows, marked, assume_unique=True)
            if len(rows):
                found[file.name] = Hits(rows, places[rows].astype(np.int64), marked)
        return found

    def marked(self, folder: TableFolder, file: OldFile) -> Numbers:
        """The rows of a file that are gone."""
        if file.vector is None:
            return _NONE
        vector = file.vector
        found: Numbers = self._get(_place(folder, vector), lambda: marked_rows(folder, vector))
        return found

    def note(self, folder: TableFolder, vector: Mapping[str, Any], rows: Numbers) -> None:
        """A ``vector`` of a file in a table's ``folder``, as the log describes it, marks these ``rows``."""
        self._keep(_place(folder, vector), rows)

    def _keys(self, folder: TableFolder, name: str) -> pa.Array:
        def read() -> pa.Array:
            with ExitStack() as stack:
                return TableFile.opened(folder, name, stack).whole(KEYS)

        return self._get((folder.location, name), read)

    def _get(self, what: tuple[str, ...], read: Callable[[], Any]) -> Any:
        with self._lock:
            if what in self._kept:
                self._kept.move_to_end(what)
                return self._kept[what]
        found = read()
        self._keep(what, found)
        return found

    def _keep(self, what: tuple[str, ...], found: Any) -> None:
        with self._lock:
            if what not in self._kept:
                self._kept[what] = found
                self._bytes += found.nbytes
            while self._bytes > self._bytes_max:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= oldest.nbytes


def _place(folder: TableFolder, vector: Mapping[str, Any]) -> tuple[str, ...]:
    return folder.location, vector["pathOrInlineDv"], str(vector.get("offset") or 0)


KEPT = FileKeys()
"""Of all tables of this process."""


def _by_file(among: pa.ChunkedArray, columns: Sequence[pa.Array]) -> list[Numbers]:
    """The places, -1 for none, in an array for each of the ``columns``."""
    places = pc.fill_null(among, -1).to_numpy()
    return np.split(places, np.cumsum([len(column) for column in columns])[:-1]) if columns else []
