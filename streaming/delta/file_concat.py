"""Files of a table that follow one another by key put together as they are, without a look at their rows.

A Parquet file is a list of row groups, and a footer that says where they lie. So one file can have the row groups of
many, byte for byte, and only a footer is made: a hundred files of a first load take as long as it takes to copy them,
where to decode, sort and encode their rows takes Spark minutes. It is done by Parquet's own writer, in the driver's
JVM. Marked rows go with the others, and stay marked: a row's number in the whole is its number in its file, and those
of all rows before that.

Invariants: the whole has exactly the rows of the files, in their order; it is no part of the table before a commit adds
it. Files become one only if they have the same columns in the same types, and dates of the same calendar.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from streaming.column_names import CLUSTER_TIME
from streaming.delta.file_copies import is_gregorian
from streaming.delta.new_files import CALENDAR, COPIES, NewFile, file_name, job_name
from streaming.delta.table_file import UNREAD
from streaming.delta.table_properties import STATISTICS, USUAL
from streaming.json_text import from_text

if TYPE_CHECKING:
    from streaming.delta.delta_log import Snapshot
    from streaming.delta.table_folder import TableFolder
    from streaming.delta.transaction import ListedFile

_LEAST_PART = 4
_GROUP_BYTES, _NO_PADDING = 128 << 20, 0
"""What Parquet's writer is told, and does not need for row groups that are there."""


class NotAlike(Exception):
    """These files can't be put together as they are, as the message says. Nothing is left of the try."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A new ``file`` with the rows of others (``of``), and at which of its rows each of these ``begins``."""

    file: NewFile
    of: Sequence[ListedFile]
    begins: Sequence[int]


class RowGroups:
    """Parquet's own writer in the JVM of these packages (``jvm``). ``configuration``: Hadoop's, by which files in
    object stores are reached."""

    def __init__(self, jvm: Any, configuration: Any) -> None:
        self._jvm, self._configuration = jvm, configuration
        self._parquet = jvm.org.apache.parquet

    def concat(self, folder: TableFolder, names: Sequence[str], into: str) -> None:
        """Write the row groups of the files of these ``names`` in a table's ``folder``, one behind the other, to a new
        one (``into``)."""
        writer = None
        try:
            for name in names:
                reader = self._parquet.hadoop.ParquetFileReader.open(self._source(folder, name))
                try:
                    if writer is None:
                        writer = self._writer(folder, into, reader.getFileMetaData().getSchema())
                        writer.start()
                    reader.appendTo(writer)
                finally:
                    reader.close()
            if writer is not None:
                said = self._jvm.java.util.HashMap()
                for key, value in CALENDAR.items():
                    said.put(key, value)
                writer.end(said)
        finally:
            if writer is not None:
                writer.close()

    def _source(self, folder: TableFolder, name: str) -> Any:
        # Parquet's own way to a file of this machine reads it a byte at a time.
        return self._parquet.hadoop.util.HadoopInputFile.fromPath(
            self._path(folder, name), self._configuration
        )

    def _writer(self, folder: TableFolder, name: str, schema: Any) -> Any:
        if folder.store is None:  # Hadoop would leave a file of checksums beside it
            sink = self._parquet.io.LocalOutputFile(self._on_disk(folder, name).toPath())
        else:
            path = self._path(folder, name), self._configuration
            sink = self._parquet.hadoop.util.HadoopOutputFile.fromPath(*path)
        create = getattr(self._parquet.hadoop, "ParquetFileWriter$Mode").CREATE
        return self._parquet.hadoop.ParquetFileWriter(sink, schema, create, _GROUP_BYTES, _NO_PADDING)

    def _on_disk(self, folder: TableFolder, name: str) -> Any:
        return self._jvm.java.io.File(folder.path, name)

    def _path(self, folder: TableFolder, name: str) -> Any:
        path = self._jvm.org.apache.hadoop.fs.Path
        if folder.store is None:
            return path(self._on_disk(folder, name).toURI())
        return path(f"{folder.location}/{name}")


def concatenated(
    groups: RowGroups, folder: TableFolder, table: Snapshot, files: Sequence[ListedFile]
) -> Whole:
    """One file with the row groups of those of these ``files`` of a version of a ``table``, in its ``folder``, that are
    alike, one behind the other. Raises `NotAlike` where that are few of them, and what Parquet's writer raises."""
    if table.table_property(STATISTICS) != USUAL.all_properties[STATISTICS]:
        raise NotAlike("the table keeps statistics of other columns than ours")
    try:
        alike = _alike(folder, files)
        times = [_times(file) for file in alike]
    except UNREAD as error:
        raise NotAlike(f"they can't be read here: {error}") from error
    name = file_name(job_name(COPIES), 0)
    try:
        groups.concat(folder, [file.name for file in alike], name)
        folder.seal(name)
        size = folder.size(name)
    except BaseException:
        with suppress(OSError):  # else it goes with other files that no version has
            folder.remove([name])
        raise
    assert size is not None
    *begins, rows = accumulate((file.said.facts.rows for file in alike), initial=0)
    low, high = min(file.said.low or "" for file in alike), max(file.said.high or "" for file in alike)
    oldest, newest = min(low for low, _ in times), max(high for _, high in times)
    return Whole(NewFile(name, size, rows, low, high, oldest, newest=newest), alike, begins)


def _alike(folder: TableFolder, files: Sequence[ListedFile]) -> Sequence[ListedFile]:
    """The most of the files that have the same columns."""

    def footer_of(file: ListedFile) -> pq.FileMetaData:
        with folder.open(file.name) as source:
            return pq.read_metadata(source)

    kinds: list[tuple[pq.ParquetSchema, list[ListedFile]]] = []
    for file, footer in zip(files, folder.each(footer_of, files), strict=True):
        if not is_gregorian(footer.metadata or {}) or footer.num_rows != file.said.facts.rows:
            continue
        found = next((of for schema, of in kinds if schema.equals(footer.schema)), None)
        if found is None:
            kinds.append((footer.schema, found := []))
        found.append(file)
    most = max((of for _, of in kinds), key=len, default=[])
    if len(most) < max(2, len(files) // _LEAST_PART):
        raise NotAlike(f"of {len(files)} files no more than {len(most)} have the same columns")
    return most


def _times(file: ListedFile) -> tuple[int, int]:
    """The lowest and the highest cluster time of a file's rows."""
    said = from_text(str(file.add.stats()))
    if any(said.get("nullCount", {}).values()):
        raise NotAlike(f"{file.name} has rows without a key or a time")
    low, high = (said.get(bound, {}).get(CLUSTER_TIME) for bound in ("minValues", "maxValues"))
    if low is None or high is None:
        raise NotAlike(f"it is not known of what time the rows of {file.name} are")
    return int(low), int(high)
