"""Rows by key into a large state table, in one commit and few jobs: what a MERGE writes, without its joins.

A MERGE looks for the source's keys in the table, joins the two again to write what changes, and once more to mark the
old rows. Our sources need less: each of their rows is a whole new row (or a delete), whatever the old one was.

    files    that may hold keys of the source                       (by the statistics of each, `table_files`)
    found    where those keys lie in them: one join
    vectors  that mark the rows found
    write    the source's rows but for deletes, and rows ``added``, whose keys are proven new
             (the guard of `state_merge` is in this plan: a key outside the ranges fails it)
    commit   all of it

So READs that are proven new land with the batch's events in one version of the table. Each frame's rows come into files
of their own: those of changes, whose keys lie far apart, would widen the ranges of the READs' files.

Invariants: the source is read twice, so it is `Known` to be held and distinct. The keys of ``added`` are in neither
the table nor the source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from streaming.column_names import KEY, OP
from streaming.delta.row_writer import Batch, Source
from streaming.delta.state_merge import guarded
from streaming.delta.transaction import Removed, Transaction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streaming.delta.table_files import TableFiles
    from streaming.delta.table_guard import TableGuard

_OP = "_snapshotter_op"


@dataclass(slots=True)
class Upsert:
    """Our own commits, on the table at ``path``: a `RowWriter` for tables that are not `transaction.unsupported`.

    Both methods raise `Unsupported` where the table, at the version that they begin with, is none. ``guard`` is asked
    about that very version. ``files``: the table's as of some version, if they are known; afterwards those of the
    version that was committed, None where nothing was. ``added``: rows that `merge` inserts in the same commit; their
    keys are in neither the table nor the source.
    """

    session: SparkSession
    path: str
    guard: TableGuard
    files: TableFiles | None = None
    added: DataFrame | None = None

    def merge(self, source: Source, batch: Batch) -> None:
        """As `RowWriter.merge`. The source is `Known` to be held and distinct, and its deletes are counted."""
        self._in_transaction(
            batch, partial(_upsert, source=source, batch_id=batch.batch_id, added=self.added)
        )

    def append(self, source: Source, batch: Batch) -> None:
        """As `RowWriter.append`. Delta's own append reads nothing, so of two that append the same rows both succeed;
        here the ranges count as read."""
        self._in_transaction(batch, partial(_insert, source=source, batch_id=batch.batch_id))

    def _in_transaction(self, batch: Batch, work: Callable[[Transaction], None]) -> None:
        known, self.files = self.files, None
        transaction = Transaction(self.session, self.path, batch.app_id, known)
        self.guard.admit(transaction.begins)
        recorded = transaction.recorded()
        if recorded is None or recorded < batch.batch_id:
            work(transaction)
            # As Delta's own commands do: else whoever keeps the table in Spark's cache goes on reading the old version.
            self.session.catalog.refreshByPath(self.path)
            self.files = transaction.known


def _upsert(transaction: Transaction, source: Source, batch_id: int, added: DataFrame | None) -> None:
    known = source.known
    assert known.deletes is not None, "who calls this knows how many deletes the source holds"
    removed = _remove(transaction, source)
    rows = [guarded(source.rows, source.ranges, distinct=True).where(F.col(OP) != "d")]
    if added is not None:
        transaction.reads(None)  # that none of their keys is there
        rows.append(added)
    made, written = transaction.write(reduce(DataFrame.unionByName, rows))
    updated = min(removed.rows - removed.deletes, written)  # more rows went where a key had several
    figures = {
        "operationNumSourceRows": written + known.deletes,
        "numSourceRows": written + known.deletes,
        "numTargetRowsInserted": written - updated,
        "numTargetRowsUpdated": updated,
        "numTargetRowsMatchedUpdated": updated,
        "numTargetRowsDeleted": removed.deletes,
        "numTargetRowsMatchedDeleted": removed.deletes,
        "numTargetFilesAdded": made,
        "numTargetFilesRemoved": removed.files,
        "numTargetDeletionVectorsAdded": removed.vectors,
        "numTargetDeletionVectorsUpdated": removed.other_vectors,
    }
    transaction.commit(batch_id, figures)


def _insert(transaction: Transaction, source: Source, batch_id: int) -> None:
    transaction.reads(source.ranges)
    transaction.write(source.rows)
    transaction.commit_append(batch_id)


def _remove(transaction: Transaction, source: Source) -> Removed:
    """Take out what the table has of the source's keys."""
    files = transaction.files(source.ranges)
    if files.isEmpty():
        return Removed()
    keys = source.rows.select(KEY, F.col(OP).alias(_OP))
    few = source.known.few
    found = transaction.places(files).join(F.broadcast(keys) if few else keys, KEY)
    deletes = Observation()
    found = found.observe(deletes, F.count_if(F.col(_OP) == "d").alias("count"))
    removed = transaction.remove(files, found, few=few)
    return replace(removed, deletes=int(deletes.get["count"]))
