"""READs that are told: those of the windows that close in a batch, but for what an event supersedes.

Their documents lie in files, or in frames (`snapshotter.reading.read_buffer`). Those in files are told by workers that
read these (`snapshotter.landing.targets.telling`): as a frame, or as files that a commit names.

Files that no commit was asked to add go again, with their job or by whoever was to add them
(`streaming.delta.changelog_table.ChangelogTable.append`, `streaming.delta.small_table.SmallTable.append`). Those of a
run that was killed, of an attempt at a task that is not the one which counts, and of a commit whose answer was lost,
are left to VACUUM in a changelog; in the outbox they go with their stretch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from snapshotter.core.values.effects import Closing
from snapshotter.landing.frames import STREAMED, frame_of, not_superseded
from snapshotter.landing.targets.read_files import newer_keys
from snapshotter.landing.targets.target import KEYS_SCHEMA, CollectionContents
from snapshotter.landing.targets.telling import (
    REPORT,
    Make,
    Part,
    Task,
    Tell,
    Telling,
    made,
    reported,
    writer,
)
from snapshotter.reading.read_buffer import Trailer, distinct
from streaming.delta.new_files import NewFile, discard_job, hide
from streaming.delta.table_folder import TableFolder
from streaming.events.envelope import INCREMENTAL, INITIAL, Envelope, keys_told
from streaming.events.read_envelopes import READS, WINDOW

_TASK_BYTES = 16 << 20


def write(spark: SparkSession, tasks: Sequence[Task], to: TableFolder) -> tuple[NewFile, ...]:
    """Do these `ToldReads.tasks` in ``spark``: their files in the folder ``to``. Leaves none behind where it fails.
    Raises `FileGone` where documents are gone."""
    job = Telling(to, tasks)
    try:
        return reported(_numbers(spark, len(tasks)).mapInArrow(partial(writer, job), REPORT).toArrow())
    except BaseException:
        discard_job(to, job.name)
        raise


@dataclass(frozen=True)
class ToldReads:
    """The READs of a ``batch`` that ``envelope`` tells, in ``spark``."""

    spark: SparkSession
    batch: CollectionContents
    envelope: Envelope

    @property
    def in_files(self) -> bool:
        """Whether there are windows whose documents lie in files."""
        return bool(self._closing(in_files=True))

    def frame(self, make: Make, schema: StructType, *, written: bool = False) -> DataFrame | None:
        """What ``make`` makes of them, as a frame with this ``schema``; None where no window closes. Without those that
        lie in files, where these are ``written``. Where documents are gone, a job that reads it fails as
        `side_by_side.lost_reads` knows it; raises `FileGone`, too."""
        frames: list[DataFrame] = []
        if closings := self._closing(in_files=False):
            frames.append(self._in_frames(closings).mapInArrow(make, schema))
        if not written and self.in_files:
            of, groups = self._groups()
            frames.append(
                _numbers(self.spark, len(groups)).mapInArrow(partial(made, make, of, groups), schema)
            )
        return reduce(DataFrame.unionByName, frames) if frames else None

    def frame_bytes(self, *, written: bool) -> int:
        """How large the documents are that `frame` has."""
        closings = self._closing(in_files=False) + ([] if written else self._closing(in_files=True))
        return sum(part.size_bytes for closing in closings for part in self._parts(closing))

    def tasks(self, tell: Tell) -> list[Task]:
        """What is to be done to `write` those that lie in files, made as ``tell`` says. Raises `FileGone` where
        documents are gone."""
        of, groups = self._groups()
        return [Task(of, parts, tell) for parts in groups]

    def _closing(self, *, in_files: bool) -> list[Closing]:
        """The windows whose READs may be told, of those whose documents lie in files, or in frames."""
        closings = [closing for closing in self.batch.closings if not closing.superseded]
        return [one for one in closings if (self._folder(one) is not None) is in_files]

    def _folder(self, closing: Closing) -> TableFolder | None:
        return self.batch.buffers[closing.window.id].folder

    def _parts(self, closing: Closing) -> tuple[Trailer, ...]:
        return self.batch.buffers[closing.window.id].trailers_of(closing.window.id)

    def _groups(self) -> tuple[TableFolder, tuple[tuple[Part, ...], ...]]:
        """Where the documents lie; and these in groups of some megabytes, without those that an event supersedes."""
        closings = self._closing(in_files=True)
        folder = next(folder for one in closings if (folder := self._folder(one)) is not None)
        groups: list[list[Part]] = []
        size = _TASK_BYTES
        for closing in closings:
            trailers = [part for part in self._parts(closing) if part.documents is not None]
            keys, window = newer_keys(self._streamed, closing.low.to_int()), self._window(closing)
            files = folder.each(partial(_hidden, folder, keys), [part.documents for part in trailers])
            for trailer, file in zip(trailers, files, strict=True):
                if size + trailer.size_bytes > _TASK_BYTES:
                    groups.append([])
                    size = 0
                groups[-1].append(Part(file, trailer.size_bytes, window))
                size += trailer.size_bytes
        return folder, tuple(map(tuple, groups))

    def _in_frames(self, closings: Sequence[Closing]) -> DataFrame:
        """The READs of these windows, which lie in frames, with the columns of `READS`."""
        buffers = distinct(self.batch.buffers[closing.window.id] for closing in closings)
        documents = reduce(DataFrame.unionByName, [buffer.documents() for buffer in buffers])
        windows = F.broadcast(frame_of(self.spark, self._windows(closings)))
        reads = documents.withColumnRenamed("_window", "_number").join(windows, "_number")
        if self._streamed.num_rows:
            newer = F.col(STREAMED[1]) > F.col("cluster_time")
            streamed = frame_of(self.spark, self._streamed.rename_columns(STREAMED))
            reads = not_superseded(reads, streamed, newer)
        return reads.select(*READS.names)

    def _window(self, closing: Closing) -> tuple[int, str, str, str | None]:
        """What each READ of it says: `WINDOW`."""
        window = closing.window
        snapshot = INITIAL if window.id in self.batch.initial else INCREMENTAL
        return closing.low.to_int(), snapshot, str(window.id), window.request_id

    def _windows(self, closings: Iterable[Closing]) -> pa.Table:
        columns = pa.schema([pa.field("_number", pa.int32()), *WINDOW])
        rows = [(closing.window.id.number, *self._window(closing)) for closing in closings]
        return pa.Table.from_pylist([dict(zip(columns.names, row, strict=True)) for row in rows], columns)

    @cached_property
    def _streamed(self) -> pa.Table:
        """Key and time (`KEYS_SCHEMA`) of every event that was told since the windows were registered, or is in this
        batch."""
        found = [table for table in self.batch.told if table.num_rows]
        if self.batch.events is not None:
            found.append(keys_told(self.batch.events, self.envelope).toArrow())
        named = [table.rename_columns(KEYS_SCHEMA.names) for table in found]
        return pa.concat_tables(named).combine_chunks() if named else KEYS_SCHEMA.empty_table()


def _numbers(spark: SparkSession, count: int) -> DataFrame:
    """The numbers of so many tasks, one in each partition."""
    return spark.range(0, count, 1, max(count, 1))


def _hidden(folder: TableFolder, keys: pa.Array, file: NewFile | None) -> NewFile:
    """The ``file`` without these ``keys``."""
    assert file is not None, "only files of documents are looked into"
    return hide(folder, file, keys)
