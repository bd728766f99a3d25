"""Data files that are written into a table's folder before anybody decides whether they are the table's.

A worker that reads and decodes rows can write them as well, as the Parquet file that the table would get in any case.
Nobody sees it until a commit adds it (Delta's protocol, "Add File"), so the commit that lands it is metadata alone. A
row that is not to be seen is marked in a deletion vector of the same commit (`NewFile.gone`).

The commit does not look into the file, and no reader would complain of one that does not fit. So a file has exactly the
columns of a plan, with our marks, in the types of the table; whether a table takes such files at all is asked of
`table_demands.takes_files`.

Invariants: a name is used once, so an attempt that is repeated writes another file; it begins with the name of its job
(`job_name`), so what a job that failed has left can be told. A file that is reported is closed, and on the disk or in
the object store. Rows lie in the file in the order in which they came, and a row's number is its place there.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from streaming.column_names import CLUSTER_TIME, KEY, OP, SOURCE_TS
from streaming.delta.table_folder import TableFolder
from streaming.json_text import to_text

GROUP_BYTES = 32 << 20
"""Of rows in memory (Arrow) that are written as one row group."""
MARKED_MAX = 20_000
"""More rows than these are not marked in a file: its vector lies in the commit itself."""
READS, EVENTS, COPIES, TOLD = "reads", "events", "copies", "told"
"""What the rows of a file are: its name begins so. Copies of rows that the table has, and what is told of READs, are no
`leftovers`: those that a run has left behind, which was killed, VACUUM removes, or they go with their partition."""
_SUFFIX = ".parquet"
# Delta remembers of a file that it was removed for a week, unless a table says otherwise.
_REMEMBERED_SECONDS = 3 * 86_400
_STATISTICS_CHARS = 32
_LAST_CHAR = "\U0010ffff"
MARKS = (
    pa.field(CLUSTER_TIME, pa.int64()),
    pa.field(SOURCE_TS, pa.timestamp("us", "UTC")),
    pa.field(OP, pa.string()),
)
"""What each row of a table says of where it comes from."""
CALENDAR = {"org.apache.spark.version": "4.0.0"}
"""Of a file: Spark takes one that does not say who wrote it for one that may have been written under the Julian
calendar."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file in the table's folder: its name, its size, how many ``rows`` it has, its lowest and highest key, and the
    cluster time that all rows carry, or the lowest, where ``newest`` is the highest. ``gone``: the numbers of rows that
    are not to be seen, ascending. ``null``: a column of the table's index that is null in all rows. ``partition``: the
    one that it belongs to, as ``column=value`` (a number, or a plain word), which is the name of its folder, too. Such
    a table is not indexed: keys and times are left empty."""

    name: str
    size_bytes: int
    rows: int
    low: str
    high: str
    time: int
    gone: tuple[int, ...] = ()
    newest: int | None = None
    null: str | None = None
    partition: str | None = None

    @property
    def path(self) -> str:
        """Where it lies in the table's folder."""
        return self.name if self.partition is None else f"{self.partition}/{self.name}"

    @property
    def visible(self) -> int:
        """How many rows whoever reads the table will see."""
        return self.rows - len(self.gone)

    def partition_values(self) -> dict[str, str]:
        """The column of its partition, if it has one, and the value there."""
        return {} if self.partition is None else dict([self.partition.split("=", 1)])

    def without(self, gone: Sequence[int]) -> NewFile:
        """The file with these rows marked."""
        return replace(self, gone=tuple(gone))

    def statistics(self) -> str:
        """What Delta keeps of a file (its protocol, "Per-file Statistics"): how many rows, and the bounds of what the
        table is indexed by. They bound fewer rows as well."""
        if self.partition is not None:
            return to_text({"numRecords": self.rows})
        low = {KEY: _cut(self.low), CLUSTER_TIME: self.time}
        newest = self.time if self.newest is None else self.newest
        high = {KEY: _raised(self.high), CLUSTER_TIME: newest}
        nulls = {KEY: 0, CLUSTER_TIME: 0, **({} if self.null is None else {self.null: self.rows})}
        return to_text({"numRecords": self.rows, "minValues": low, "maxValues": high, "nullCount": nulls})

    def to_action(self, now_ms: int) -> str:
        """The file with all of its rows as an action of Delta's log."""
        what = {"path": self.path, "partitionValues": self.partition_values(), "size": self.size_bytes}
        when = {"modificationTime": now_ms, "dataChange": True}
        return to_text({"add": {**what, **when, "stats": self.statistics()}})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> NewFile:
        return cls(**{**value, "gone": tuple(value["gone"])})


class FileGone(Exception):
    """A file that was to be added, or read, is gone, or is of another size. Nothing has been committed."""


class FileWriter:
    """Writes one file of rows with ``columns`` (their schema in Arrow) into the ``folder`` of a table. The name of the
    ``job`` (`job_name`) and ``number`` are part of its name (`number_in`). ``time``: all rows are READs that hold as of
    this cluster time, and are marked so (`MARKS`); None: rows are written as they come. Values of the ``plain`` columns
    are all different. ``indexed``: a reader that looks for few rows finds their pages. Call `close` or `discard` once.
    """

    def __init__(
        self,
        folder: TableFolder,
        columns: pa.Schema,
        job: str,
        number: int,
        time: int | None = None,
        plain: Collection[str] = (KEY,),
        indexed: bool = False,
    ) -> None:
        self._folder, self._name = folder, file_name(job, number)
        self._schema = columns if time is None else pa.schema([*columns, *MARKS])
        self._time, self._plain, self._indexed = time, plain, indexed
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._sink: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._keys: tuple[str, str] | None = None
        self._times: tuple[int, int] | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Write these rows behind those of before."""
        if not batch.num_rows:
            return
        self._rows += batch.num_rows
        if KEY in self._schema.names:
            self._keys = _widened(self._keys, batch.column(KEY))
        if self._time is None and CLUSTER_TIME in self._schema.names:
            self._times = _widened(self._times, batch.column(CLUSTER_TIME))
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= GROUP_BYTES:
            self._write()

    def close(self) -> NewFile | None:
        """The file, which is on the disk; None where there was no row."""
        self._write()
        if self._writer is None or self._sink is None:
            return None
        self._writer.add_key_value_metadata(CALENDAR)
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        self._folder.seal(self._name)
        oldest, newest = self._times or (self._time or 0, None)
        return NewFile(self._name, size, self._rows, *(self._keys or ("", "")), oldest, newest=newest)

    def discard(self) -> None:
        """Leave nothing behind. Where the store does not answer, that is done at the engine's next start."""
        for opened in (self._writer, self._sink):
            if opened is not None:
                with suppress(OSError, pa.ArrowException):
                    opened.close()
        with suppress(OSError):
            self._folder.remove([self._name])

    def _write(self) -> None:
        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._waiting)
        count = rows.num_rows
        self._waiting, self._waiting_bytes = [], 0
        if self._writer is None:
            # A dictionary of values that are all different would be built, and thrown away.
            alike = [field for field in self._schema if field.name not in self._plain]
            others = [path for field in alike for path, _ in _leaves(field)]
            # Arrow leaves NaN out of the bounds of a column. To Spark it is the greatest number: it would not be found.
            bound = [p for field in self._schema for p, of in _leaves(field) if not pa.types.is_floating(of)]
            form = {"compression": "zstd", "compression_level": 1, "use_dictionary": others}
            form |= {"write_statistics": bound, "write_page_index": self._indexed}
            # As Spark does: next to no work, and a reader that checks them notices a byte that a disk has changed.
            form["write_page_checksum"] = True
            self._sink = self._folder.create(self._name)
            self._writer = pq.ParquetWriter(self._sink, self._schema, store_schema=False, **form)
        made: list[pa.Array] = []
        if self._time is not None:
            marks = self._time, datetime.fromtimestamp(self._time >> 32, UTC), "r"
            made = [pa.repeat(pa.scalar(m, of.type), count) for m, of in zip(marks, MARKS, strict=True)]
        whole = pa.Table.from_arrays([*rows.columns, *made], schema=self._schema)
        self._writer.write_table(whole, row_group_size=count)


def job_name(kind: str = READS) -> str:
    """A new name, with which the files of one job begin, whose rows are of this ``kind``."""
    return f"{kind}-{uuid.uuid4().hex[:16]}"


def file_name(job: str, number: int) -> str:
    """A new name for the file of this ``number`` of a ``job`` (`job_name`)."""
    return f"{job}-{number}-{uuid.uuid4().hex}{_SUFFIX}"


def trial_name() -> str:
    """A name for a file that is written to see whether that can be done: if it stays, it is one of the `leftovers`."""
    return f"{job_name()}-trial{_SUFFIX}"


def is_new_file(text: str) -> bool:
    """Whether a text names such a file."""
    return re.search(number_in(), text) is not None


def number_in() -> str:
    """A regular expression whose first group is the number in the name of a file: see `FileWriter`."""
    return rf"(?:{READS}|{EVENTS})-[0-9a-f]+-(\d+)-"


def opened(folder: TableFolder, file: NewFile) -> pa.NativeFile:
    """The ``file`` in a table's ``folder``, to be read. Raises `FileGone` where it is gone, or of another size."""
    try:
        source = folder.open(file.path)
    except FileNotFoundError:
        raise FileGone(f"{file.path} is gone") from None
    if source.size() != file.size_bytes:
        source.close()
        raise FileGone(f"{file.path} is not what it was when it was written")
    return source


def hide(folder: TableFolder, file: NewFile, keys: pa.Array) -> NewFile:
    """The ``file``, of a table's ``folder``, without the rows of these ``keys``. Raises `FileGone`."""
    inside = keys.filter(pc.and_(pc.greater_equal(keys, file.low), pc.less_equal(keys, file.high)))
    if not len(inside):
        return file
    with opened(folder, file) as source:
        found = pq.ParquetFile(source).read(columns=[KEY])[KEY]
    if len(found) != file.rows:
        raise ValueError(f"{file.name} has {len(found)} rows, and {file.rows} were written")
    hits = pc.is_in(found, value_set=inside)
    return file.without(pc.indices_nonzero(hits).to_pylist())


def size_in(folder: TableFolder, file: NewFile) -> int | None:
    """How large the ``file`` in a table's ``folder`` is now, in bytes; None where it is gone."""
    return folder.size(file.path)


def rows_of(session: SparkSession, folder: str, files: Sequence[NewFile], schema: StructType) -> DataFrame:
    """The rows of these ``files`` in a table's ``folder``, read in ``session``, with the columns of ``schema``.

    Null where a file lacks one."""
    if not files:
        return session.createDataFrame([], schema)
    rows = read_files(session, folder, [file.name for file in files], schema)
    gone = [(file.name, row) for file in files for row in file.gone]
    if not gone:
        return rows
    kind = StructType(
        [StructField("_snapshotter_file", StringType()), StructField("_snapshotter_row", LongType())]
    )
    table = F.broadcast(session.createDataFrame(gone, kind))
    place = F.col("_metadata.file_name"), F.col("_metadata.row_index")
    placed = rows.select("*", *(column.alias(name) for column, name in zip(place, kind.names, strict=True)))
    return placed.join(table, kind.names, "left_anti").drop(*kind.names)


def read_files(session: SparkSession, folder: str, names: Sequence[str], schema: StructType) -> DataFrame:
    """All rows of the files of these ``names`` in ``folder``, read in ``session`` with the columns of ``schema``.

    Raises `FileGone` where one is not there: Spark may see that, or would go on without it.
    """
    # The path is no pattern: it may have brackets in it.
    exactly = session.read.schema(schema).option("__globPaths__", "false")
    try:
        rows = exactly.parquet(*[f"{folder.rstrip('/')}/{name}" for name in names])
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise FileGone(f"of {len(names)} files in {folder} some are gone") from error
    if len(found := rows.inputFiles()) != len(names):
        raise FileGone(f"of {len(names)} files in {folder} {len(found)} are there")
    return rows


def leftovers(folder: TableFolder, now: float) -> set[str]:
    """The files in a table's ``folder`` that were written so, but for old ones: of these the log may have forgotten
    that they were the table's. ``now``: as seconds since 1970."""
    young = {name for name, at in folder.written("") if now - at < _REMEMBERED_SECONDS}
    return {name for name in young if name.startswith((f"{READS}-", f"{EVENTS}-")) and name.endswith(_SUFFIX)}


def discard_job(folder: TableFolder, job: str) -> None:
    """Remove what a job that failed has left in a table's ``folder``. Where its store does not answer, that is done at
    the engine's next start."""
    with suppress(OSError):
        folder.remove(name for name, _ in folder.written(f"{job}-"))


def discard_files(folder: TableFolder, names: Iterable[str]) -> None:
    """Remove files that no commit was ever asked to add; as `discard_job` where the store does not answer."""
    with suppress(OSError):
        folder.remove(names)


def _widened(known: tuple[Any, Any] | None, values: pa.Array) -> tuple[Any, Any]:
    """The lowest and the highest of these ``values``, and of those ``known`` before."""
    low, high = (end.as_py() for end in pc.min_max(values).values())
    return (low, high) if known is None else (min(known[0], low), max(known[1], high))


def _leaves(field: pa.Field, above: str = "") -> Iterator[tuple[str, pa.DataType]]:
    """The columns that Parquet makes of a field, by their paths, with their types."""
    path = f"{above}{field.name}"
    if pa.types.is_struct(field.type):
        for inner in field.type.fields:
            yield from _leaves(inner, f"{path}.")
    elif pa.types.is_list(field.type):
        yield from _leaves(field.type.value_field.with_name("element"), f"{path}.list.")
    else:
        yield path, field.type


def _cut(low: str) -> str:
    """A prefix, which is no more than the key."""
    return low[:_STATISTICS_CHARS]


def _raised(high: str) -> str:
    """A text that is no less than the key: it, or a prefix and the last character there is."""
    end = _STATISTICS_CHARS
    if len(high) <= end:
        return high
    while high[end : end + 1] == _LAST_CHAR:
        end += 1
    return high[:end] + _LAST_CHAR
