"""Rows by key into a state table, in one commit and few jobs: what a MERGE writes, without its joins.

A MERGE looks for the source's keys in the table, joins the two again to write what changes, and once more to mark the
old rows. Our sources need less: each of their rows is a whole new row (or a delete), whatever the old one was.

    files    that may hold keys of the source                       (by the statistics of each, `table_files`)
    found    where those keys lie in them: one join; of READs also whether they equal the row that is there, and those
             that do are left out (`comparison`)
    vectors  that mark the rows found
    write    the source's rows but for deletes, and rows ``added``, whose keys are proven new
             (those that lie in the table's folder as files are only named)
             (the guard of `state_merge` is in this plan: a key outside the ranges fails it);
             where rows of deleted documents stay, these as they were, with what is the delete's
    commit   all of it

So READs that are proven new land with the batch's events in one version of the table. Each frame's rows come into files
of their own: those of changes, whose keys lie far apart, would widen the ranges of the READs' files.

Invariants: the source is read twice, so it is `Known` to be held and distinct. The keys of ``added`` are in neither
the table nor the source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from streaming.column_names import KEY, OP, quoted
from streaming.delta.comparison import NOTHING_FOUND, Found, Matches, matched
from streaming.delta.delta_log import USER_METADATA, configured
from streaming.delta.row_writer import Batch, Source
from streaming.delta.state_merge import guarded, ranges_of
from streaming.delta.transaction import PLACE, Removed, Transaction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streaming.delta.further_values import SoftDeletes
    from streaming.delta.new_files import NewFile
    from streaming.delta.table_files import TableFiles
    from streaming.delta.table_guard import TableGuard

_OP, _OF_DELETE = "_snapshotter_op", "_snapshotter_delete_"


@dataclass(slots=True)
class Upsert:
    """Our own commits, on the table at ``path``: a `RowWriter` for tables that are not `transaction.unsupported`.

    Both methods raise `Unsupported` where the table, at the version that they begin with, is none. ``guard`` is asked
    about that very version. ``files``: the table's as of some version, if they are known; afterwards those of the
    version that was committed, None where nothing was. ``added``: rows that `merge` inserts in the same commit; their
    keys are in neither the table nor the source. ``new``: such rows, of `append` too, that lie in the table's folder as
    files. ``soft``: how rows of deleted documents are kept, if they are.
    """

    session: SparkSession
    path: str
    guard: TableGuard
    files: TableFiles | None = None
    added: DataFrame | None = None
    soft: SoftDeletes | None = None
    new: Sequence[NewFile] | None = None

    def merge(self, source: Source, batch: Batch) -> Found:
        """As `RowWriter.merge`. The source is `Known` to be held and distinct, and its deletes are counted."""
        work = partial(
            _upsert,
            self.session,
            source=source,
            batch=batch,
            added=self.added,
            soft=self.soft,
            new=self.new,
        )
        return self._in_transaction(batch, work)

    def append(self, source: Source, batch: Batch) -> None:
        """As `RowWriter.append`. Delta's own append reads nothing, so of two that append the same rows both succeed;
        here the ranges count as read. The table needs no deletion vectors for it."""
        work = partial(_insert, source=source, batch_id=batch.batch_id, new=self.new)
        self._in_transaction(batch, work, marks=False)

    def _in_transaction(
        self, batch: Batch, work: Callable[[Transaction], Found], *, marks: bool = True
    ) -> Found:
        found = NOTHING_FOUND
        known, self.files = self.files, None
        transaction = Transaction(self.session, self.path, batch.app_id, known, marks=marks)
        self.guard.admit(transaction.begins)
        recorded = transaction.recorded()
        if recorded is None or recorded < batch.batch_id:
            found = work(transaction)
            # As Delta's own commands do: else whoever keeps the table in Spark's cache goes on reading the old version.
            self.session.catalog.refreshByPath(self.path)
            self.files = transaction.known
        return found


def _upsert(
    session: SparkSession,
    transaction: Transaction,
    source: Source,
    batch: Batch,
    added: DataFrame | None,
    soft: SoftDeletes | None,
    new: Sequence[NewFile] | None,
) -> Found:
    known = source.known
    assert known.deletes is not None, "who calls this knows how many deletes the source holds"
    files = transaction.files(source.ranges)
    with ExitStack() as until_written:
        matches = None
        if source.reads is not None and not files.isEmpty():
            places = transaction.rows_and_places(files)
            matches = matched(places, source.reads, few=source.few, keep=PLACE)
            until_written.callback(matches.free)
        removed = _remove(transaction, files, source, matches)
        rows = [frame for frame in (source.rows, _to_write(source, matches)) if frame is not None]
        made, written = 0, 0
        if rows:
            whole = guarded(reduce(DataFrame.unionByName, rows), source.ranges, distinct=True)
            rows = [whole.where(F.col(OP) != "d")]
            if added is not None:
                transaction.reads(None)  # that none of their keys is there
                rows.append(added)
            made, written = transaction.write(reduce(DataFrame.unionByName, rows))
        if new is not None:
            transaction.reads(None)
            files, more = transaction.add(new)
            made, written = made + files, written + more
        marked = (0, 0)
        if soft is not None and removed.deletes:
            marked = transaction.write(_kept(transaction, source, soft))
    updated = min(removed.rows - removed.deletes, written)  # more rows went where a key had several
    deleted = removed.deletes if soft is None else 0
    figures = {
        "operationNumSourceRows": written + known.deletes,
        "numSourceRows": written + known.deletes,
        "numTargetRowsInserted": written - updated,
        "numTargetRowsUpdated": updated + marked[1],
        "numTargetRowsMatchedUpdated": updated + marked[1],
        "numTargetRowsDeleted": deleted,
        "numTargetRowsMatchedDeleted": deleted,
        "numTargetFilesAdded": made + marked[0],
        "numTargetFilesRemoved": removed.files,
        "numTargetDeletionVectorsAdded": removed.vectors,
        "numTargetDeletionVectorsUpdated": removed.other_vectors,
    }
    found = NOTHING_FOUND if matches is None else matches.found
    with configured(session, {USER_METADATA: batch.said(found)}):
        transaction.commit(batch.batch_id, figures)
    return found


def _to_write(source: Source, matches: Matches | None) -> DataFrame | None:
    """The READs that the table has otherwise, or has not; None where there is nothing at all to write: a write of no
    rows would leave an empty file behind."""
    if source.reads is None:
        return None
    reads = source.reads.rows if matches is None else matches.to_write
    differing = matches is not None and matches.found.differing
    return None if source.rows is None and not differing and reads.isEmpty() else reads


def _kept(transaction: Transaction, source: Source, soft: SoftDeletes) -> DataFrame:
    """The rows of keys that the source deletes, as they are in the table, with what is the delete's: one a key, by
    which they are sorted out into few files. Whole rows are read, so no more files than may hold one of these keys."""
    assert source.rows is not None, "deletes are rows"
    deletes = source.rows.where(F.col(OP) == "d")
    said = deletes.select(KEY, *(F.col(quoted(name)).alias(_OF_DELETE + name) for name in soft.columns))
    old = transaction.rows_and_places(transaction.files(ranges_of(deletes))).drop(*PLACE)
    both = old.join(F.broadcast(said) if source.known.few else said, KEY)
    columns = [
        F.col(quoted(_OF_DELETE + name)).alias(name) if name in soft.columns else F.col(quoted(name))
        for name in old.columns
    ]
    return both.select(*columns).dropDuplicates([KEY])


def _insert(transaction: Transaction, source: Source, batch_id: int, new: Sequence[NewFile] | None) -> Found:
    transaction.reads(source.ranges)
    if new is not None:
        files, rows = transaction.add(new)
        size = sum(file.size_bytes for file in new)
        figures = {"numFiles": files, "numOutputRows": rows, "numOutputBytes": size}
        transaction.commit_append(batch_id, figures)
        return NOTHING_FOUND
    assert source.rows is not None, "an append has rows"
    transaction.write(source.rows)
    transaction.commit_append(batch_id)
    return NOTHING_FOUND


def _remove(transaction: Transaction, files: Any, source: Source, matches: Matches | None) -> Removed:
    """Take out what these files have of the source's keys, but for rows that equal their READ."""
    if files.isEmpty():
        return Removed()
    few, found = source.known.few, []
    if source.rows is not None:
        keys = source.rows.select(KEY, F.col(OP).alias(_OP))
        found.append(transaction.places(files).join(F.broadcast(keys) if few else keys, KEY))
    if matches is not None and matches.found.differing:
        found.append(matches.differing.withColumn(_OP, F.lit("r")))
    if not found:
        return Removed()
    deletes = Observation()
    rows = reduce(DataFrame.unionByName, found).observe(deletes, F.count_if(F.col(_OP) == "d").alias("count"))
    removed = transaction.remove(files, rows, few=few)
    return replace(removed, deletes=int(deletes.get["count"]))
