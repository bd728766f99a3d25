"""The data files of a state table, known on the driver from one commit of this process to the next.

Delta puts the list of a table's files together anew for every version (three Spark jobs), and looks up in it the
statistics of the files that get deletion vectors (two more). But whoever made the newest version knows what it changed.
So Delta is asked for the list once, and the list then follows this process's own commits; where anybody else has
committed meanwhile, Delta is asked again.

Invariants: the list is that of exactly the table and the version it names, and tells of every file how many rows it
has (`DataFile`). A file is left out of `within` only where its statistics prove that it holds no key of the ranges
(Delta cuts them so that they still bound the keys: the lowest is a prefix of the lowest key, the highest no less than
the highest).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streaming.column_names import CLUSTER_TIME, KEY
from streaming.json_text import from_text

if TYPE_CHECKING:
    from streaming.delta.delta_log import Snapshot
    from streaming.keys.ranges import Range

FILES_MAX = 2_000
"""Of a table with more, the list stays with Delta: each file costs the driver some calls into the JVM."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """Delta's own ``AddFile``, and what its statistics say: how many rows (deleted ones included), and the keys that
    bound them; None where they don't say. Statistics of more columns than ours, which somebody may have asked Delta to
    keep, count as none: when rows are marked, they are written again by a parser that would round a decimal."""

    add: Any
    rows: int | None
    low: str | None
    high: str | None

    @classmethod
    def of(cls, add: Any) -> DataFile:
        statistics = from_text(add.stats() or "{}")
        low, high = (statistics.get(name, {}) for name in ("minValues", "maxValues"))
        rows = statistics.get("numRecords") if {*low, *high} <= {KEY, CLUSTER_TIME} else None
        return cls(add, rows, low.get(KEY), high.get(KEY))

    def may_meet(self, ranges: Sequence[Range]) -> bool:
        """Whether it may hold a key of one of these ranges."""
        if self.low is None or self.high is None:
            return True
        return any(low <= self.high and self.low <= high for low, high in ranges)


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The files of one version of a table (Delta's id of it), by their paths."""

    table: str
    version: int
    files: dict[str, DataFile]

    @classmethod
    def of(cls, snapshot: Snapshot) -> TableFiles | None:
        """Asked of Delta; None where they are too many, or not all of them have statistics."""
        count = snapshot.files
        if count > FILES_MAX:
            return None
        nothing = cls(snapshot.table_id, snapshot.version, {})
        return nothing.after(snapshot.version, snapshot.data_files() if count else [])

    def of_version(self, snapshot: Snapshot) -> bool:
        """Whether it is that version's list."""
        return (self.table, self.version) == (snapshot.table_id, snapshot.version)

    def within(self, ranges: Sequence[Range] | None) -> list[Any]:
        """Those that may hold keys of these ranges (None: all), as Delta's own objects."""
        return [file.add for file in self.files.values() if ranges is None or file.may_meet(ranges)]

    def after(self, version: int, came: Iterable[Any], gone: Iterable[str] = ()) -> TableFiles | None:
        """The files of the later ``version``, which added ``came`` (Delta's ``AddFile`` objects; one of a path that is
        known replaces it) and removed the paths ``gone``. None where the list can't be kept any longer: too many
        files, or one without statistics."""
        left = frozenset(gone)
        files = {path: file for path, file in self.files.items() if path not in left}
        files |= {add.path(): DataFile.of(add) for add in came}
        if len(files) > FILES_MAX or any(file.rows is None for file in files.values()):
            return None
        return TableFiles(self.table, version, files)
