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

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from streaming.delta.state_merge import Known, guarded
from streaming.delta.transaction import Removed, Transaction
from streaming.plan.column_names import KEY, OP

if TYPE_CHECKING:
    from streaming.keys.ranges import Range

_OP = "_snapshotter_op"


def upsert(
    transaction: Transaction,
    source: DataFrame,
    ranges: Sequence[Range] | None,
    known: Known,
    batch_id: int,
    added: DataFrame | None = None,
) -> None:
    """Update, insert or delete (``_op`` "d") the rows of the source's keys, and insert the rows ``added``; one commit,
    which records the batch. ``ranges`` hold all keys of the source; None searches the whole table."""
    assert known.deletes is not None, "who calls this knows how many deletes the source holds"
    removed = _remove(transaction, source, ranges, known)
    rows = [guarded(source, ranges, distinct=True).where(F.col(OP) != "d")]
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


def insert(transaction: Transaction, rows: DataFrame, ranges: Sequence[Range] | None, batch_id: int) -> None:
    """Append rows whose keys are proven new, all of them in ``ranges`` (None: anywhere); one commit. Delta's own append
    reads nothing, so of two that append the same rows both would succeed."""
    transaction.reads(ranges)
    transaction.write(rows)
    transaction.commit_append(batch_id)


def _remove(
    transaction: Transaction, source: DataFrame, ranges: Sequence[Range] | None, known: Known
) -> Removed:
    """Take out what the table has of the source's keys."""
    files = transaction.files(ranges)
    if files.isEmpty():
        return Removed()
    keys = source.select(KEY, F.col(OP).alias(_OP))
    found = transaction.places(files).join(F.broadcast(keys) if known.few else keys, KEY)
    deletes = Observation()
    found = found.observe(deletes, F.count_if(F.col(_OP) == "d").alias("count"))
    removed = transaction.remove(files, found, few=known.few)
    return replace(removed, deletes=int(deletes.get["count"]))
