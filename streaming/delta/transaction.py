"""A transaction on a Delta table, from the parts that Delta's own MERGE is made of.

Delta has one public way to change rows by key, MERGE, which goes through the table's keys three times and takes some
twenty jobs. These are its parts: which files a condition may meet, deletion vectors for rows of them, new files, the
commit with its check for conflicts. They are reached by py4j and are no public interface, so Delta's version is
pinned, and `table_demands` says what a table asks of its writers that is not done here.

Invariant: what was read through `files` is what the commit's check for conflicts looks at.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streaming.column_names import KEY
from streaming.delta.delta_log import configured
from streaming.delta.file_concat import RowGroups
from streaming.delta.file_index import DataFile
from streaming.delta.java_adds import JavaAdds
from streaming.delta.listed_file import ListedFile
from streaming.delta.new_files import FileGone, NewFile, size_in
from streaming.delta.newest_version import begun_at_newest
from streaming.delta.operations import (
    OF_APPEND,
    OF_OPTIMIZE,
    Rewritten,
    append_operation,
    measured,
    merge_operation,
    optimize_operation,
)
from streaming.delta.snapshot import Snapshot
from streaming.delta.state_merge import STATISTICS, within
from streaming.delta.table_demands import Unsupported, has_vectors, takes_files, unsupported
from streaming.delta.table_files import TableFiles
from streaming.delta.table_folder import TableFolder, table_folder
from streaming.delta.vector_writer import write_vectors
from streaming.json_text import from_text
from streaming.jvm import packages, python_utils, singleton

if TYPE_CHECKING:
    from uuid import UUID

    from pyspark.sql import Column, SparkSession

    from streaming.delta.marked_rows import Numbers
    from streaming.delta.vector_writer import Vector
    from streaming.keys.ranges import Range

# With few rows nothing is left to find out: sizes seen on the way would change nothing, and planning anew after each
# stage takes a sixth of the time.
_FEW = {"spark.sql.autoBroadcastJoinThreshold": "10m", "spark.sql.adaptive.enabled": "false"}
_ADD_FILE_FIELDS, _DATA_CHANGE = 13, 4
PLACE = _PATH, _INDEX = "_snapshotter_path", "_snapshotter_index"
"""Of a row: its file, and its number there."""


@dataclass(frozen=True, slots=True)
class Removed:
    """How many ``rows`` were taken out, how many ``files`` lost all of theirs, and how many deletion vectors are new
    (``vectors``) or replace others. ``deletes``: how many of the rows are not written anew."""

    rows: int = 0
    files: int = 0
    vectors: int = 0
    other_vectors: int = 0
    deletes: int = 0


class Transaction:
    """One transaction on the table at ``path``, in ``session``, which it tells, as application ``app_id`` (None: it
    lands nothing, and records no batch). Not for several threads.

    ``known``: the table's files as of some version, if they are known. ``known`` of a transaction that is committed:
    those of the version that it made, if that is known. ``begins``: the version that it reads. ``marks``: it marks rows
    of files that are there. ``named``: once it is committed, the files that it has added by their names.

    Raises `Unsupported` where the version that it begins at is none for it.
    """

    def __init__(
        self,
        session: SparkSession,
        path: str,
        app_id: str | None,
        known: TableFiles | None = None,
        *,
        marks: bool = True,
    ) -> None:
        self.session = session
        self._jvm = packages(session)
        self._utils = python_utils(session)
        self._delta = self._jvm.org.apache.spark.sql.delta
        self._none = singleton(self._jvm.scala, "None")
        self._log = self._delta.DeltaLog.forTable(session._jsparkSession, path)
        self._transaction = begun_at_newest(session, self._log)
        self._snapshot = self._transaction.snapshot()
        self.begins = Snapshot(self._snapshot)
        if (reason := unsupported(self.begins, marks=marks)) is not None:
            raise Unsupported(f"no transaction of ours on the table at {path}: {reason}")
        if app_id is not None:
            # A commit under this id meanwhile is a conflict too, not only one that changes what was read.
            self._transaction.readTxn().addOne(app_id)
        self._app_id = app_id
        self._actions: list[Any] = []
        self._came: list[Any] = []
        self._marked: list[tuple[Any, DataFile]] = []
        self._uuids: dict[UUID, Any] = {}
        self._gone: list[str] = []
        self._new: list[NewFile] = []
        self.named: frozenset[str] | None = None
        self.known = known if known is not None and known.of_version(self.begins) else None
        self._began = time.monotonic()

    def has_batch(self, batch_id: int) -> bool:
        """Whether the application had committed this batch, or a later one, when the transaction began."""
        return self._app_id is not None and self.begins.has_batch(self._app_id, batch_id)

    def files(self, ranges: Sequence[Range] | None) -> Any:
        """The files that may hold keys of these ranges (None: all files), as Delta's list of them."""
        filters = self._filters(ranges)
        if self.known is None:
            self.known = TableFiles.of(self.begins)
        if self.known is None:
            return self._transaction.filterFiles(filters, True)
        files = self.known.within(ranges)
        self._transaction.trackReadPredicates(filters, False, True)
        self._transaction.trackFilesRead(files)
        return files

    def narrowed(self, files: Any, ranges: Sequence[Range]) -> Any:
        """Those that may hold keys of these ``ranges``, which lie within the ranges that ``files`` were asked for by;
        ``files`` as they are where the table's are not known. What counts as read stays the same."""
        return files if self.known is None else self.known.within(ranges)

    def reads(self, ranges: Sequence[Range] | None) -> None:
        """Count these ranges (None: the whole table) as read, without a look at their files: it is known that the keys
        to be written are not there. A writer that adds to them meanwhile is a conflict. (In a table without partitions
        Delta takes any file that is added for one that could hold keys of theirs; of a commit that has read nothing it
        never asks.)"""
        self._transaction.trackReadPredicates(self._filters(ranges), False, True)

    def _filters(self, ranges: Sequence[Range] | None) -> Any:
        return self._seq([self._resolved(F.col(KEY).isNotNull() if ranges is None else within(KEY, ranges))])

    def _resolved(self, condition: Column) -> Any:
        of_no_file = self._rows(self._seq([])).where(condition)
        return of_no_file._jdf.queryExecution().analyzed().condition()

    def places(self, files: Any) -> DataFrame:
        """The key of each row in these files, and where it lies."""
        return self.rows_and_places(files).select(KEY, *PLACE)

    def rows_and_places(self, files: Any) -> DataFrame:
        """The rows in these files, with where each lies."""
        place = F.col("_metadata.file_path").alias(_PATH), F.col("_metadata.row_index").alias(_INDEX)
        return self._rows(files).select("*", *place)

    def listed(self, files: Any) -> list[ListedFile]:
        """What the log says of each of these files."""
        adds = JavaAdds(self._snapshot, self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(files))
        texts = from_text(adds.texts())
        return [
            ListedFile(adds.get(place), DataFile.of(said), said.get("deletionVector"))
            for place, said in enumerate(texts)
        ]

    def told(self, adds: Sequence[Any]) -> list[ListedFile]:
        """The same of Delta's objects, which may be of another version, or of none yet."""
        return self.listed(self._seq(adds))

    def files_named(self, names: Sequence[str]) -> dict[str, ListedFile]:
        """Those of the files of these names that there are."""
        if self.known is None:
            self.known = TableFiles.of(self.begins)
        if self.known is None:
            among = F.array_contains(F.lit(list(names)), F.col("path"))
            adds = self.begins.files_where(among, len(names))
        else:
            adds = [self.known.add_of(name) for name in names if name in self.known]
        return {file.name: file for file in self.told(adds)}

    def folder(self) -> TableFolder:
        """The table's. Raises `OutOfReach` where only the JVM reaches it."""
        return table_folder(self._jvm, self._log)

    def row_groups(self) -> RowGroups:
        """What concatenates its files."""
        return RowGroups(self._jvm, self._log.newDeltaHadoopConf())

    def drop(self, files: Sequence[ListedFile]) -> Removed:
        """Take out all rows of these files."""
        now = int(time.time() * 1_000)
        for file in files:
            self._actions.append(file.add.removeWithTimestamp(now, True))
            self._gone.append(file.name)
        rows = sum(file.said.facts.rows - file.said.facts.marked for file in files)
        return Removed(rows, len(files))

    def places_of(self, rows: Mapping[str, Numbers]) -> DataFrame:
        """Rows of files, by the names of these, as `places` gives them, without their keys."""
        uri, path = self._jvm.java.net.URI, self._jvm.org.apache.hadoop.fs.Path
        places = [path(self._log.dataPath(), path(uri(name))).toUri().toString() for name in rows]
        files = np.repeat(np.arange(len(rows), dtype=np.int32), [len(numbers) for numbers in rows.values()])
        numbers = pa.table({"_file": files, _INDEX: np.concatenate([*rows.values()])})
        by_file = pa.table({"_file": np.arange(len(rows), dtype=np.int32), _PATH: places})
        frames = [self.session.createDataFrame(table) for table in (numbers, by_file)]
        return frames[0].join(F.broadcast(frames[1]), "_file").select(*PLACE)

    def list_of(self, files: Sequence[ListedFile]) -> Any:
        """These files as Delta's list of them."""
        return self._seq([file.add for file in files])

    def remove(self, files: Any, found: DataFrame, *, few: bool = False) -> Removed:
        """Take out the rows whose places are ``found`` in these files. ``few`` says that ``found`` needs no join of two
        large frames: then Spark may see that the list of files, which Delta joins with it, fits every executor."""
        commands, spark = self._delta.commands, self.session._jsparkSession
        every = self._jvm.org.apache.spark.sql.catalyst.expressions.Literal.TrueLiteral()
        columns = [self._jvm.scala.Option.apply(F.col(name)._jc) for name in (_PATH, _INDEX)]
        generator = singleton(commands, "DeletionVectorBitmapGenerator")
        with configured(self.session, _FEW if few else {}):
            vectors = generator.buildRowIndexSetsForFilesMatchingCondition(
                spark, self._transaction, True, found._jdf, files, every, *columns
            )
        helper = singleton(commands, "DMLWithDeletionVectorsHelper")
        by_path = helper.generateCandidateFileMap(self._log.dataPath(), files)
        touched = helper.findFilesWithMatchingRows(self._transaction, by_path, vectors)
        if self.known is not None:
            return self._mark([touched.apply(at) for at in range(touched.size())])
        metadata = self._transaction.metadata()
        longest = singleton(self._delta.stats, "StatsCollectionUtils").getDataSkippingStringPrefixLength(
            spark, metadata
        )
        done = helper.processUnmodifiedData(spark, touched, self._snapshot, longest)
        self._add(done._1())
        counts = done._2()
        names = ("numModifiedRows", "numRemovedFiles", "numDeletionVectorsAdded", "numDeletionVectorsUpdated")
        return Removed(*(int(counts.apply(name)) for name in names))

    def _mark(self, touched: Sequence[Any]) -> Removed:
        """Replace each file by itself with its new deletion vector, or remove it where no row is left. Its statistics
        bound fewer rows as well, and say that they are no longer exact."""
        now, files, vectors, others = int(time.time() * 1_000), 0, 0, 0
        for file in touched:
            add = file.fileLogEntry()
            if file.isFullyReplaced():
                self._actions.append(add.removeWithTimestamp(now, True))
                self._gone.append(add.path())
                files += 1
                continue
            self._came.append(self._replace(add, file.newDeletionVector()))
            if add.deletionVector() is None:
                vectors += 1
            else:
                others += 1
        return Removed(sum(int(file.numberOfModifiedRows()) for file in touched), files, vectors, others)

    def mark(self, files: Sequence[tuple[ListedFile, Vector]]) -> Removed:
        """Give each of these files its new deletion vector; how many of these are new. Only where the files are
        `known`, and their rows counted."""
        for file, vector in files:
            marked = self._replace(file.add, self._described(vector))
            self._marked.append((marked, file.said.marking(vector.rows)))
        others = sum(file.vector is not None for file, _ in files)
        return Removed(vectors=len(files) - others, other_vectors=others)

    def _replace(self, add: Any, vector: Any) -> Any:
        """A file by itself, with a new vector; Delta's object of it."""
        marked = add.removeRows(vector, True, True)
        new, old = marked._1(), marked._2()
        self._actions += [new, old]
        return new

    def write(self, rows: DataFrame) -> tuple[int, int]:
        """Write new files; how many, and with how many rows (by their statistics, which Delta is to collect)."""
        files = self.write_all(rows)
        return len(files), sum(int(file.numPhysicalRecords().get()) for file in files)

    def write_all(self, rows: DataFrame) -> list[Any]:
        """Write new files; Delta's objects of them."""
        written = self._transaction.writeFiles(rows._jdf)
        files = [written.apply(at) for at in range(written.size())]
        self._actions += files
        self._came += files
        return files

    def add(self, files: Sequence[NewFile]) -> tuple[int, int]:
        """Add files that lie in the table's folder; how many, and with how many rows that are seen.

        Raises `Unsupported` where the table takes none; and the commit raises `FileGone` where one is gone by then."""
        partitions = {of for file in files for of in file.partition_values()}
        if files and not takes_files(self.begins, partitions):
            raise Unsupported("the table's writers are to check every row")
        gone = [np.array(file.gone, np.int64) for file in files if file.gone]
        if gone and not has_vectors(self.begins):
            raise Unsupported("the table has no deletion vectors, and some of the rows are not to be seen")
        now, action = int(time.time() * 1_000), singleton(self._delta.actions, "Action")
        # In a file, not in the log itself: Delta's VACUUM fails on any table that has such a vector.
        vectors = iter(write_vectors(self.folder(), gone) if gone else [])
        for file in files:
            added = action.fromJson(file.to_action(now))
            if file.gone:
                added = added.removeRows(self._described(next(vectors)), True, True)._1()
            self._actions.append(added)
            self._came.append(added)
        self._new += files
        return len(files), sum(file.visible for file in files)

    def append(self, rows: DataFrame | None, files: Sequence[NewFile]) -> dict[str, int]:
        """Write new files of ``rows``, if there are some, and `add` these ``files``: figures for `commit_append`."""
        added, seen = self.add(files)
        with configured(self.session, {STATISTICS: "true"}):  # by which rows are counted
            made = [] if rows is None else self.write_all(rows)
        written = sum(int(file.numPhysicalRecords().get()) for file in made)
        size = sum(int(file.size()) for file in made) + sum(file.size_bytes for file in files)
        return {"numFiles": len(made) + added, "numOutputRows": written + seen, "numOutputBytes": size}

    def copy(self, files: Sequence[Any], outputs: int, order: Sequence[str] = (KEY,)) -> list[Any]:
        """Write the rows of these files (Delta's ``AddFile`` objects), but for those that are marked, into so many
        (``outputs``) others, in this ``order`` of columns; Delta's objects of them. They are no part of the commit.

        Raises RuntimeError where the files that were written have not as many rows."""
        rows = self._rows(self._seq(files))
        rows = rows.coalesce(1) if outputs == 1 else rows.repartitionByRange(outputs, *order)
        sorted_rows = rows.sortWithinPartitions(*order)
        written = self._transaction.writeFiles(sorted_rows._jdf, self._none, True, self._seq([]))
        made = [_without_change(written.apply(at)) for at in range(written.size())]
        left = sum(int(file.numLogicalRecords().get()) for file in files)
        if (found := sum(int(file.numPhysicalRecords().get()) for file in made)) != left:
            raise RuntimeError(f"of {left} rows in {len(files)} files {found} were written anew")
        return made

    def as_copies(self, files: Sequence[NewFile]) -> list[Any]:
        """Files with rows that the table has: Delta's objects of them, as `copy` gives them."""
        now, action = int(time.time() * 1_000), singleton(self._delta.actions, "Action")
        return [_without_change(action.fromJson(file.to_action(now))) for file in files]

    def replace(self, files: Sequence[ListedFile], made: Sequence[Any], purged: int) -> Rewritten:
        """Have files with the same rows (``made``, Delta's objects) take the place of these, of which so many marked
        rows were not copied (``purged``). To readers nothing changes."""
        self._transaction.trackFilesRead(self.list_of(files))
        now = int(time.time() * 1_000)
        self._actions += [*made, *(file.add.removeWithTimestamp(now, False) for file in files)]
        self._came += made
        self._gone += [file.name for file in files]
        sizes = sum(file.said.facts.size_bytes for file in files), sum(int(add.size()) for add in made)
        return Rewritten(len(files), sizes[0], len(made), sizes[1], purged)

    def with_vectors(self, files: Sequence[tuple[ListedFile, Vector]]) -> list[Any]:
        """Files that no version has yet, each with its deletion vector: Delta's objects."""
        return [file.add.removeRows(self._described(vector), True, False)._1() for file, vector in files]

    def _described(self, vector: Vector) -> Any:
        """A deletion vector that lies in a file, as Delta describes it."""
        if vector.id not in self._uuids:  # vectors of a commit lie in one file
            self._uuids[vector.id] = self._jvm.java.util.UUID.fromString(str(vector.id))
        descriptor = self._delta.actions.DeletionVectorDescriptor
        what = self._uuids[vector.id], "", vector.size_bytes, vector.rows
        offset = self._jvm.scala.Option.apply(vector.offset)
        return descriptor.onDiskWithRelativePath(*what, offset, self._none)

    def commit(self, version: int, metrics: Mapping[str, int]) -> None:
        """All of it, as batch ``version`` of the application, with these figures in the table's history as a MERGE."""
        took = int((time.monotonic() - self._began) * 1_000)
        measured(self.session, self._transaction, {**metrics, "executionTimeMs": took})
        self._commit(version, merge_operation(self.session))

    def commit_append(
        self, version: int, metrics: Mapping[str, int] | None = None, user_metadata: str | None = None
    ) -> None:
        """The same of rows that were only written, as an append, as batch ``version``; its figures are those of the
        write, or these ``metrics``. ``user_metadata``: of the commit, where it is not the session's."""
        if metrics is not None:
            measured(self.session, self._transaction, metrics, OF_APPEND)
        self._commit(version, append_operation(self.session, user_metadata))

    def commit_rewrite(self, done: Rewritten) -> None:
        """The same of a rewrite, as an OPTIMIZE; it records no batch."""
        measured(self.session, self._transaction, done.figures(), OF_OPTIMIZE)
        self._commit(None, optimize_operation(self.session))

    def _commit(self, version: int | None, operation: Any) -> None:
        actions = list(self._actions)
        if version is not None:
            at = self._jvm.scala.Option.apply(int(time.time() * 1_000))
            actions.append(self._delta.actions.SetTransaction(self._app_id, version, at))
        # Last of all: nobody looks into them any more.
        if self._new:
            folder = self.folder()
            sizes = folder.each(partial(size_in, folder), self._new)
            for file, size in zip(self._new, sizes, strict=True):
                if size != file.size_bytes:
                    raise FileGone(f"{file.path} is not what it was when it was written")
        # If the commit fails, or comes after somebody else's, what is known of the files no longer holds.
        known, self.known = self.known, None
        made = int(self._transaction.commit(self._seq(actions), operation))
        self.named = frozenset(file.name for file in self._new)
        if known is not None and made == known.version + 1:
            followed = known.follow(made, self._came, self._gone, self._marked)
            self.known = known if followed else None

    def _rows(self, files: Any) -> DataFrame:
        return DataFrame(self._log.createDataFrame(self._snapshot, files, False, self._none), self.session)

    def _add(self, actions: Any) -> None:
        self._actions += [actions.apply(at) for at in range(actions.size())]

    def _seq(self, values: Sequence[Any]) -> Any:
        return self._utils.toSeq(list(values))


def _without_change(add: Any) -> Any:
    """Delta's ``AddFile`` as one that changes no data."""
    given = [getattr(add, f"copy$default${number}")() for number in range(1, _ADD_FILE_FIELDS + 1)]
    given[_DATA_CHANGE] = False
    return add.copy(*given)
