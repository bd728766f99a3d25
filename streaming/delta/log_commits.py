"""The commits of a Delta table's log: what each says of itself, and of the files that it adds or removes.

Read through Hadoop, so wherever the JVM reaches the log. Every landing asks for the newest commits several times, and
those of a busy table name all of its files: what a commit says of itself is kept as long as its file is the same by its
time and length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from streaming.json_text import from_text

_FIRST_BYTES, _PIECE_BYTES = 1 << 12, 1 << 16
"""What is read of a commit first, which its information seldom exceeds, and then at a time."""
_KEPT = 8
_Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of a table: the operation by Delta's name, its metrics, the writer's ``userMetadata``, Delta's id of
    the commit ("" where the writer gave it none), and when it was committed, in milliseconds since 1970."""

    version: int
    operation: str
    metrics: Mapping[str, str]
    user_metadata: str | None
    id: str = ""
    timestamp_ms: int | None = None

    def count(self, metric: str) -> int:
        """A metric as a number; 0 when the operation does not have it."""
        return int(self.metrics.get(metric, "0"))


class LogCommits:
    """The commits of one table's log. ``jvm``: the packages of that JVM; ``delta_log`` returns Delta's own object."""

    def __init__(self, jvm: Any, delta_log: Callable[[], Any]) -> None:
        self._jvm = jvm
        self._delta_log = delta_log
        self._said: dict[int, tuple[_Stamp, Commit | None]] = {}

    def down(self, newest: int, oldest: int = 0) -> Iterator[Commit]:
        """The commits ``newest``, ``newest - 1``, … down to ``oldest``, as far as the log still has them."""
        for version in range(newest, oldest - 1, -1):
            commit = self.one(version)
            if commit is None:
                return
            yield commit

    def one(self, version: int) -> Commit | None:
        """What the log says of a version; None where it no longer has it."""
        files, path = self.file(version)
        if not files.exists(path):
            return None
        status = files.getFileStatus(path)
        stamp = int(status.getModificationTime()), int(status.getLen())
        was, commit = self._said.get(version, (None, None))
        if was != stamp:
            lines = _lines_of(files, path)
            first = next(lines, None)
            commit = None if first is None else commit_of(version, chain([first], lines))
            self._said = {**dict([*self._said.items()][1 - _KEPT :]), version: (stamp, commit)}
        return commit

    def changes_data(self, version: int) -> bool:
        """Whether a commit that the log has changes what the table holds, by what it says of each file."""
        for line in self._lines(version):
            action = from_text(line)
            file = action.get("add") or action.get("remove")
            if file is not None and file.get("dataChange", True):
                return True
        return False

    def added(self, version: int) -> list[Mapping[str, Any]]:
        """The statistics of each file that a commit adds, as Delta writes them; empty ones where a writer has left them
        out. None of them where the log no longer has the commit."""
        adds = (from_text(line).get("add") for line in self._lines(version))
        return [from_text(add.get("stats") or "{}") for add in adds if add is not None]

    def file(self, version: int) -> tuple[Any, Any]:
        """Hadoop's file system and path of a commit, whether it is there or not."""
        log = self._delta_log()
        path = self._jvm.org.apache.spark.sql.delta.util.FileNames.unsafeDeltaFile(log.logPath(), version)
        return log.logPath().getFileSystem(log.newDeltaHadoopConf()), path

    def _lines(self, version: int) -> Iterator[str]:
        """The actions of a commit, as they stand in its file; none where the log no longer has it."""
        files, path = self.file(version)
        return _lines_of(files, path) if files.exists(path) else iter(())


def _lines_of(files: Any, path: Any) -> Iterator[str]:
    stream, rest, size = files.open(path), b"", _FIRST_BYTES
    try:
        while piece := bytes(stream.readNBytes(size)):
            size = _PIECE_BYTES
            *lines, rest = (rest + piece).split(b"\n")
            yield from (line.decode() for line in lines if line)
    finally:
        stream.close()
    if rest:
        yield rest.decode()


def commit_of(version: int, lines: Iterable[str]) -> Commit:
    """What the actions of a commit, a line each, say of it."""
    # Delta writes the commit's information in the first line; other writers may not.
    for line in lines:
        information = from_text(line).get("commitInfo")
        if information is not None:
            return Commit(
                version,
                information.get("operation", ""),
                information.get("operationMetrics") or {},
                information.get("userMetadata"),
                information.get("txnId") or "",
                information.get("timestamp"),
            )
    return Commit(version, "", {}, None)
