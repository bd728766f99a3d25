"""Streamed rows that the worker which decodes them writes as files of their table.

As with READs (`snapshotter.reading.chunk_reader`) a row then needs nothing of the JVM: it gets the key, the time and
the operation of each, by which the old rows are found, and the commit names the files. Deletes have no row in them.

Invariant: a file goes again unless a commit was asked to add it (`EventFiles.settle`). Of a commit whose answer was
lost nobody knows, so what it was asked to add stays until the engine's next start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StringType, StructField, StructType

from snapshotter.landing.tables import OpenTable
from snapshotter.landing.targets.target import CollectionContents, LandedCollection
from streaming.column_names import KEY, OP
from streaming.decode.streamed_rows import table_schema
from streaming.delta.new_files import EVENTS, MARKS, FileWriter, NewFile, discard_files, discard_job, job_name
from streaming.delta.row_writer import Known, RowsInFiles
from streaming.delta.table_folder import TableFolder
from streaming.json_text import from_text, to_text
from streaming.layout import AnyLayout, TablePlan

Decode = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
KEPT = ("_key", "_cluster_time", "_op", "_trailer")
"""What the JVM gets of each row."""
KEPT_SCHEMA = StructType(
    [StructField(name, LongType() if name == "_cluster_time" else StringType()) for name in KEPT]
)
_FILE = '{"file":'
_UPSERTED = Known(distinct=True, held=True, deletes=0)
"""What is promised of such rows."""


@dataclass(slots=True)
class EventFiles:
    """The files of one landing in the ``folder`` of its table. ``files``: those that the rows of `keys` lie in;
    ``told``: what the driver has been told of each row."""

    folder: TableFolder
    job: str = field(default_factory=partial(job_name, EVENTS))
    files: tuple[NewFile, ...] = ()
    schema: StructType = field(default_factory=StructType)
    told: pa.Table | None = None
    asked: bool = False

    def writing(self, decode: Decode, layout: AnyLayout, plan: TablePlan) -> Decode:
        """For ``mapInArrow``: what ``decode`` makes, of a table with this ``layout`` and ``plan``; its rows go to a
        file for each partition, and come as `KEPT_SCHEMA`."""
        columns = pa.schema([*layout.arrow_schema(plan), *MARKS])
        folder, job, self.schema = self.folder, self.job, table_schema(layout, plan)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            file = FileWriter(folder, columns, job, 0)
            try:
                for batch in decode(batches):
                    whole = pc.and_(pc.is_null(batch["_trailer"]), pc.not_equal(batch["_op"], "d"))
                    file.add(batch.filter(whole).select(columns.names).cast(columns))
                    yield batch.select(KEPT)
                if (written := file.close()) is not None:
                    yield _told(written)
            except BaseException:
                file.discard()
                raise

        return run

    def taken(self, texts: Sequence[str]) -> list[str]:
        """Take in what trailers say of files; the other ones."""
        found = [text for text in texts if text.startswith(_FILE)]
        self.files = tuple(NewFile.from_json(from_text(text)["file"]) for text in found)
        return [text for text in texts if not text.startswith(_FILE)]

    def failed(self) -> None:
        """The job that writes them has failed, and told of none: whatever there is of it goes."""
        discard_job(self.folder, self.job)

    def rows(self, keys: DataFrame, count: int) -> RowsInFiles:
        """The rows of ``keys``, which are so many but for the deletes. Raises RuntimeError where the files have not as
        many."""
        if (written := sum(file.rows for file in self.files)) != count:
            raise RuntimeError(f"{count} rows were decoded, and {written} are in files")
        told = None if self.told is None else self.told.select([KEY, OP])
        return RowsInFiles(keys, self.files, self.schema, told)

    def settle(self, named: frozenset[str] | None = frozenset()) -> None:
        """Remove what no commit has ``named``; None: that is not known. Where one was ``asked`` to add them, that is
        for whoever asked to say."""
        if named is not None:
            discard_files(self.folder, {file.name for file in self.files} - named)
            self.files = ()

    def left(self) -> None:
        """The landing is over: what no commit was asked to add goes."""
        if not self.asked:
            self.settle()


@dataclass(frozen=True, slots=True)
class Events:
    """The rows of a batch's events: in a frame, or in ``files``, of which ``rows`` has the keys."""

    rows: DataFrame | RowsInFiles
    files: EventFiles | None

    @classmethod
    def of(cls, found: DataFrame, landed: LandedCollection, files: EventFiles | None) -> Events:
        """The rows that were ``found`` in events; ``landed`` says how many there are, and ``files`` hold them."""
        rows = found.where("_trailer is null").drop("_trailer")
        return cls(rows if files is None else files.rows(rows, landed.events - landed.deletes), files)


def files_for_events(
    opened: OpenTable, batch: CollectionContents, folder: TableFolder | None
) -> EventFiles | None:
    """Where the rows of the batch's events are to be written, in the ``folder`` of the table ``opened``; None where its
    own writer has to see them."""
    if folder is None or batch.events is None or batch.truncated is not None:
        return None
    return EventFiles(folder) if opened.table.takes_added(_UPSERTED) else None


def _told(file: NewFile) -> pa.RecordBatch:
    """The trailer that tells of it."""
    nothing = [pa.nulls(1, pa.string()), pa.nulls(1, pa.int64()), pa.nulls(1, pa.string())]
    text = pa.array([f"{_FILE}{to_text(file.to_json())}}}"])
    return pa.RecordBatch.from_arrays([*nothing, text], names=list(KEPT))
