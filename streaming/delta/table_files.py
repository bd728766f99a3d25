"""The data files of a state table, known on the driver from one commit of this process to the next.

Delta puts the list of a table's files together anew for every version (three Spark jobs), and looks up in it the
statistics of the files that get deletion vectors (two more). But whoever made the newest version knows what it changed.
So Delta is asked for the list once, and the list then follows this process's own commits; where anybody else has
committed meanwhile, Delta is asked again.

Delta's own objects stay in the JVM, in one list; here is what their statistics say, in the same order
(`streaming.delta.file_index`). So a landing takes the files that it may meet out of that list by the run, not one by
one, and a commit costs what it changes.

Invariants: the list is that of exactly the table and the version it names, and tells of every file how many rows it
has. While it follows a commit it is that of no version; a call that fails in between leaves it so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from streaming.delta.file_index import DataFile, FileIndex, Run, in_order
from streaming.json_text import from_text

if TYPE_CHECKING:
    from streaming.delta.snapshot import Snapshot
    from streaming.keys.ranges import Range

FILES_MAX = 50_000
"""Of a table with more, the list stays with Delta: it takes half a kilobyte a file here, and one in the JVM."""
_NO_VERSION = -1


class Adds(Protocol):
    """Delta's ``AddFile`` objects of a table, each at the place of its file."""

    def texts(self) -> str:
        """What they say, as one JSON array."""

    def insert(self, place: int, add: Any) -> None: ...

    def replace(self, place: int, add: Any) -> None: ...

    def remove(self, place: int) -> None: ...

    def get(self, place: int) -> Any: ...

    def take(self, runs: Sequence[Run]) -> Any:
        """Those of these runs of places, as a list of Delta's."""


class TableFiles:
    """The files of one ``version`` of a ``table`` (Delta's id of it): their ``index``, and Delta's objects of them
    (``adds``)."""

    def __init__(self, table: str, version: int, index: FileIndex, adds: Adds) -> None:
        self.table = table
        self.version = version
        self._index = index
        self._adds = adds

    @classmethod
    def of(cls, snapshot: Snapshot) -> TableFiles | None:
        """Asked of Delta; None where they are too many, or not all of them have statistics."""
        if snapshot.files > FILES_MAX:
            return None
        return cls.made(snapshot.table_id, snapshot.version, snapshot.adds())

    @classmethod
    def made(cls, table: str, version: int, adds: Adds) -> TableFiles | None:
        """As `of`, from Delta's objects in the order of their lowest keys; None, too, where they are in another."""
        files = [DataFile.of(add) for add in from_text(adds.texts())]
        if not all(file.counted for file in files) or not in_order(files):
            return None
        return cls(table, version, FileIndex(files), adds)

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator[DataFile]:
        return iter(self._index)

    def __contains__(self, path: str) -> bool:
        return path in self._index

    def of_version(self, snapshot: Snapshot) -> bool:
        """Whether it is that version's list."""
        return (self.table, self.version) == (snapshot.table_id, snapshot.version)

    def within(self, ranges: Sequence[Range] | None) -> Any:
        """Those that may hold keys of these ranges (None: all), as a list of Delta's own objects."""
        return self._adds.take(self._index.within(ranges))

    def add_of(self, path: str) -> Any:
        """Delta's object of the file of this path."""
        return self._adds.get(self._index.place(path))

    def follow(
        self,
        version: int,
        came: Iterable[Any],
        gone: Iterable[str] = (),
        marked: Iterable[tuple[Any, DataFile]] = (),
    ) -> bool:
        """Become the list of the later ``version``, which added ``came`` (Delta's ``AddFile`` objects; one of a path
        that is known replaces it) and those of ``marked``, whose files are known and told here, and removed the paths
        ``gone``. False where it can't be kept any longer: too many files, or one without statistics."""
        self.version = _NO_VERSION
        for path in gone:
            self._adds.remove(self._index.remove(path))
        for add, file in marked:
            place = self._index.renew(file)
            if place is None:
                return False
            self._adds.replace(place, add)
        for add in came:
            file = DataFile.of(from_text(add.json())["add"])
            if not file.counted:
                return False
            if file.facts.path in self._index:
                self._adds.remove(self._index.remove(file.facts.path))
            self._adds.insert(self._index.add(file), add)
        if len(self._index) > FILES_MAX:
            return False
        self.version = version
        return True
