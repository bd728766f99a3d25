"""Files of a table that follow one another by key, concatenated without a look at their rows.

A Parquet file is a list of row groups, and a footer that says where they lie. So one file can have the row groups of
many, byte for byte, and only a footer is made: a hundred files of a first load take as long as it takes to copy them,
where to decode, sort and encode their rows takes Spark minutes. It is done by Parquet's own writer, in the driver's
JVM. Marked rows go with the others, and stay marked: a row's number in the new file is its number in its own, and those
of all rows before that. (Indexes of pages are left behind. A row group of a chunk is small enough to do without.)

Invariants: the new file has exactly the rows of the others, in their order; it is no part of the table before a commit
adds it. Files are concatenated only if they have the same columns in the same types, and dates of the same calendar.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from py4j.protocol import Py4JError

from streaming.column_names import CLUSTER_TIME, KEY
from streaming.delta.file_copies import is_gregorian
from streaming.delta.new_files import CALENDAR, COPIES, NewFile, file_name, job_name
from streaming.delta.table_file import UNREAD, read_footer
from streaming.json_text import from_text

if TYPE_CHECKING:
    from streaming.delta.file_keys import FileKeys
    from streaming.delta.listed_file import ListedFile
    from streaming.delta.table_folder import TableFolder

_LEAST_PART = 4
_WRITER = 128 << 20, 0
"""What Parquet's writer asks for, and does not need for row groups that are there: their size, and their padding."""


class NotAlike(Exception):
    """These files can't be concatenated, as the message says. Nothing is left of the try."""


@dataclass(frozen=True, slots=True)
class Concatenated:
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

    def concat(
        self, folder: TableFolder, names: Sequence[str], into: str, check: Callable[[], object]
    ) -> None:
        """Write the row groups of the files of these ``names`` in a table's ``folder``, one behind the other, to a new
        one (``into``). ``check`` raises where it is not to go on."""
        writer = None
        try:
            for name in names:
                check()
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
        return self._parquet.hadoop.ParquetFileWriter(sink, schema, create, *_WRITER)

    def _on_disk(self, folder: TableFolder, name: str) -> Any:
        return self._jvm.java.io.File(folder.path, name)

    def _path(self, folder: TableFolder, name: str) -> Any:
        path = self._jvm.org.apache.hadoop.fs.Path
        if folder.store is None:
            return path(self._on_disk(folder, name).toURI())
        return path(f"{folder.location}/{name}")


@dataclass(frozen=True, slots=True)
class _Source:
    """A file to concatenate: what its footer says of its row groups (``rows`` of each), of what ``kind`` it is, and the
    lowest and the highest cluster ``time`` of its rows."""

    file: ListedFile
    rows: Sequence[int]
    kind: tuple[Any, ...]
    times: tuple[int, int]


def concatenated(
    groups: RowGroups,
    folder: TableFolder,
    files: Sequence[ListedFile],
    kept: FileKeys,
    check: Callable[[], object],
) -> Concatenated:
    """One file with the row groups of those of these ``files`` in a table's ``folder`` that are alike, one behind the
    other, by the writer of ``groups``. ``kept`` takes what is marked in them. ``check`` raises where it is not to go
    on. Raises `NotAlike` where few of them are alike, or Parquet's writer fails."""
    alike = _alike(folder, files, kept)
    of = [source.file for source in alike]
    name = file_name(job_name(COPIES), 0)
    try:
        groups.concat(folder, [file.name for file in of], name, check)
        folder.seal(name)
        size, sizes = folder.size(name), _rows_of_groups(read_footer(folder, name))
        if sizes != [rows for source in alike for rows in source.rows]:
            raise RuntimeError(f"{len(of)} files were concatenated, and their rows are others than before")
    except BaseException as error:
        with suppress(OSError):  # else it goes with other files that no version has
            folder.remove([name])
        if isinstance(error, (Py4JError, *UNREAD)):
            raise NotAlike(f"Parquet's writer failed: {error}") from error
        raise
    assert size is not None
    *begins, rows = accumulate((file.said.facts.rows for file in of), initial=0)
    low, high = min(file.said.low or "" for file in of), max(file.said.high or "" for file in of)
    oldest, newest = min(source.times[0] for source in alike), max(source.times[1] for source in alike)
    return Concatenated(NewFile(name, size, rows, low, high, oldest, newest=newest), of, begins)


def _alike(folder: TableFolder, files: Sequence[ListedFile], kept: FileKeys) -> Sequence[_Source]:
    """The most of the files that are of one kind."""

    def source(file: ListedFile) -> _Source | None:
        try:
            found = _source(folder, file)
            kept.marked(folder, file.as_old())
        except UNREAD:  # left out, and put together with others as rows: by Spark, if need be
            return None
        return found

    kinds: list[list[_Source]] = []
    for one in folder.each(source, files):
        if one is None:
            continue
        same = next((of for of in kinds if of[0].kind == one.kind), None)
        if same is None:
            kinds.append([one])
        else:
            same.append(one)
    most = max(kinds, key=len, default=[])
    if len(most) < max(2, len(files) // _LEAST_PART):
        raise NotAlike(f"of {len(files)} files no more than {len(most)} are alike")
    return most


def _source(folder: TableFolder, file: ListedFile) -> _Source | None:
    """None where that is none to concatenate."""
    footer = read_footer(folder, file.name)
    said = from_text(str(file.add.stats()))
    nulls = [said.get("nullCount", {}).get(name) for name in (KEY, CLUSTER_TIME)]
    times = [said.get(bound, {}).get(CLUSTER_TIME) for bound in ("minValues", "maxValues")]
    if not is_gregorian(footer.metadata or {}) or footer.num_rows != file.said.facts.rows:
        return None
    if nulls != [0, 0] or None in times:
        return None
    schema = footer.schema
    paths = [schema.column(at).path for at in range(len(schema))]
    # The columns of the one say nothing of the groups that they lie in, nor the fields of the other of how they lie.
    kind = schema, paths, schema.to_arrow_schema()
    return _Source(file, _rows_of_groups(footer), kind, (int(times[0]), int(times[1])))


def _rows_of_groups(footer: pq.FileMetaData) -> list[int]:
    return [footer.row_group(at).num_rows for at in range(footer.num_row_groups)]
