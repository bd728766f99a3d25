"""Rows by key into a state table, in one commit and few jobs: what a MERGE writes, without its joins.

A MERGE looks for the source's keys in the table, joins the two again to write what changes, and once more to mark the
old rows. Our sources need less: each of their rows is a whole new row (or a delete), whatever the old one was.

    files    that may hold keys of the source                       (by the statistics of each, `table_files`)
    found    where those keys lie in them: one join; of READs also whether they equal the row that is there, and those
             that do are left out (`comparison`)
    vectors  that mark the rows found
    write    the source's rows but for deletes, and rows ``added``, whose keys are proven new
             (those that lie in the table's folder as files are only named; so are READs that do, once workers have
             found which of them are to be seen: `file_matching`)
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

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streaming.column_names import KEY, OP, quoted
from streaming.delta.comparison import NOTHING_FOUND, Found, Matches, ReadFiles, Reads, matched
from streaming.delta.delta_log import CONFLICTS, USER_METADATA, TableLog, configured
from streaming.delta.file_matching import FILES_MAX, Matched, Matching, Strange, match, tasks
from streaming.delta.listed_file import ListedFile
from streaming.delta.new_files import FileGone, discard_job
from streaming.delta.old_rows import ByReads, keys_at_hand, remove
from streaming.delta.row_writer import Batch, RowsInFiles, Source
from streaming.delta.state_merge import OUTSIDE, guarded, ranges_of
from streaming.delta.table_demands import takes_files
from streaming.delta.transaction import PLACE, Removed, Transaction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streaming.delta.file_keys import FileKeys
    from streaming.delta.further_values import SoftDeletes
    from streaming.delta.new_files import NewFile
    from streaming.delta.table_files import TableFiles
    from streaming.delta.table_guard import TableGuard
    from streaming.keys.ranges import Range

_OF_DELETE = "_snapshotter_delete_"


@dataclass(slots=True)
class Upsert:
    """Our own commits, on the table at ``path``: a `RowWriter` for tables that are not `table_demands.unsupported`.

    Both methods raise `Unsupported` where the table, at the version that they begin with, is none. ``guard`` is asked
    about that very version. ``files``: the table's as of some version, if they are known; afterwards those of the
    version that was committed, None where nothing was. ``added``: rows that `merge` inserts in the same commit; their
    keys are in neither the table nor the source. ``new``: such rows, of `append` too, that lie in the table's folder as
    files. ``soft``: how rows of deleted documents are kept, if they are. ``kept``: keys of files that the driver has;
    None: Spark is to look for old rows. ``named``: the files of READs that the commit has added; None where nothing was
    committed, as far as is known. ``slower``: why it took longer than such landings do, if it did.
    """

    session: SparkSession
    path: str
    guard: TableGuard
    files: TableFiles | None = None
    added: DataFrame | None = None
    soft: SoftDeletes | None = None
    new: Sequence[NewFile] | None = None
    kept: FileKeys | None = None
    named: frozenset[str] | None = None
    slower: str | None = None

    def takes_longer(self, why: str) -> None:
        """It does, for this reason."""
        self.slower = why if self.slower is None else f"{self.slower}; {why}"

    def merge(self, source: Source, batch: Batch) -> Found:
        """As `RowWriter.merge`. The source is `Known` to be held and distinct, and its deletes are counted."""
        return self._in_transaction(batch, partial(_upsert, self, source=source, batch=batch))

    def append(self, source: Source, batch: Batch) -> None:
        """As `RowWriter.append`. Delta's own append reads nothing, so of two that append the same rows both succeed;
        here the ranges count as read. The table needs no deletion vectors for it."""
        work = partial(_insert, self.guard, source=source, batch_id=batch.batch_id, new=self.new)
        self._in_transaction(batch, work, marks=False)

    def _in_transaction(
        self, batch: Batch, work: Callable[[Transaction], Found], *, marks: bool = True
    ) -> Found:
        found, self.named = NOTHING_FOUND, None
        known, self.files = self.files, None
        transaction = Transaction(self.session, self.path, batch.app_id, known, marks=marks)
        self.guard.admit(transaction.begins)
        if not transaction.has_batch(batch.batch_id):
            found = work(transaction)
            # As Delta's own commands do: else whoever keeps the table in Spark's cache goes on reading the old version.
            self.session.catalog.refreshByPath(self.path)
            self.files, self.named = transaction.known, transaction.named
        return found


def _upsert(upsert: Upsert, transaction: Transaction, source: Source, batch: Batch) -> Found:
    session, added, new, soft = upsert.session, upsert.added, upsert.new, upsert.soft
    assert source.known.deletes is not None, "who calls this knows how many deletes the source holds"
    files = _nearest(transaction, source)
    with ExitStack() as until_written:
        held = matches = None
        if isinstance(reads := source.reads, ReadFiles):
            try:
                held = _held(session, transaction, files, source, reads)
                source = replace(source, reads=None)
                until_written.push(held.discarding)
            except Strange as why:
                source = replace(source, reads=reads.read(session, upsert.path, transaction.begins.schema))
                upsert.takes_longer(f"READs were taken as rows: {why}")
        if isinstance(source.reads, Reads) and not files.isEmpty():
            places = transaction.rows_and_places(files)
            matches = matched(places, source.reads, few=source.few, keep=PLACE)
            until_written.callback(matches.free)
        by_reads = None if held is None else ByReads(held.listed, held.matched.gone)
        removed = remove(transaction, files, source, matches, by_reads, upsert.kept, upsert.takes_longer)
        frames = [frame for frame in (source.frame, _to_write(source, matches)) if frame is not None]
        made, written = 0, 0
        if frames:
            whole = guarded(reduce(DataFrame.unionByName, frames), source.ranges, distinct=True)
            frames = [whole.where(F.col(OP) != "d")]
        if added is not None:
            transaction.reads(None)  # that none of their keys is there
            frames.append(added)
        if frames:
            made, written = transaction.write(reduce(DataFrame.unionByName, frames))
        if new is not None:
            transaction.reads(None)
        if files_named := [*_within_ranges(source), *(new or ()), *(held.matched.added if held else ())]:
            upsert.guard.check_files(transaction.begins)
            more = transaction.add(files_named)
            made, written = made + more[0], written + more[1]
        marked = (0, 0)
        if soft is not None and removed.deletes:
            marked = transaction.write(_kept(transaction, source, soft))
        figures = _figures(source, removed, (made, written), marked, soft=soft is not None)
        found = held.matched.found if held is not None else matches.found if matches else NOTHING_FOUND
        if held is not None:
            held.lacks_batch = partial(_lacks_batch, upsert, batch)
        with configured(session, {USER_METADATA: batch.said(found)}):
            transaction.commit(batch.batch_id, figures)
        return found


def _nearest(transaction: Transaction, source: Source) -> Any:
    """The files that may hold keys of the source, as Delta's list of them. Its few ranges leave none out between keys
    that lie all over the table. So where the driver has the keys, and there are fewer than files, each of them says
    which these are, and each file of READs."""
    files, rows, reads = transaction.files(source.ranges), source.rows, source.reads
    told = keys_at_hand(rows)
    if isinstance(reads, Reads) or (rows is not None and told is None):
        return files
    read = () if reads is None else reads.files
    if (0 if told is None else told.num_rows) + len(read) >= files.size():
        return files
    keys = [] if told is None else told[KEY].to_pylist()
    sought = [*((key, key) for key in keys), *((file.low, file.high) for file in read)]
    return transaction.narrowed(files, sought)


def _figures(
    source: Source, removed: Removed, made: tuple[int, int], marked: tuple[int, int], *, soft: bool
) -> dict[str, int]:
    """What the table's history says of it. ``made``: how many files came, with how many rows that are seen; ``marked``:
    the same of rows that stay, marked as deleted."""
    files, written = made
    updated = min(removed.rows - removed.deletes, written)  # more rows went where a key had several
    deleted = 0 if soft else removed.deletes
    given = written + (source.known.deletes or 0)
    return {
        "operationNumSourceRows": given,
        "numSourceRows": given,
        "numTargetRowsInserted": written - updated,
        "numTargetRowsUpdated": updated + marked[1],
        "numTargetRowsMatchedUpdated": updated + marked[1],
        "numTargetRowsDeleted": deleted,
        "numTargetRowsMatchedDeleted": deleted,
        "numTargetFilesAdded": files + marked[0],
        "numTargetFilesRemoved": removed.files,
        "numTargetDeletionVectorsAdded": removed.vectors,
        "numTargetDeletionVectorsUpdated": removed.other_vectors,
    }


@dataclass(slots=True)
class _Held:
    """What became of READs in files, which were held against the ``listed`` files of the table by a ``job``, if it took
    one. ``lacks_batch``, once a commit was asked to add what that has written, asks the newest version whether it is
    without the batch."""

    matched: Matched
    listed: Sequence[ListedFile]
    job: Matching | None = None
    lacks_batch: Callable[[], bool] | None = None

    def discarding(self, kind: type[BaseException] | None, *_: object) -> None:
        """Where nothing was committed, what was written anew goes. A conflict alone does not say so: it may be one with
        the very commit, whose answer was lost."""
        if kind is None or self.job is None:
            return
        lacks = self.lacks_batch
        if lacks is None or issubclass(kind, FileGone) or (issubclass(kind, CONFLICTS) and lacks()):
            discard_job(self.job.folder, self.job.name)


def _held(
    session: SparkSession, transaction: Transaction, files: Any, source: Source, reads: ReadFiles
) -> _Held:
    """What becomes of these READs. Raises `Strange` where their files cannot be held against the table's, or added."""
    if source.ranges is not None and not all(_inside(file, source.ranges) for file in reads.files):
        raise ValueError(f"{OUTSIDE}: one of a file of READs")
    listed = transaction.listed(files)
    old = [one.as_old() for one in listed]
    if not takes_files(transaction.begins):
        raise Strange("the table's writers are to check every row")
    if len(old) > FILES_MAX:
        raise Strange(f"more than {FILES_MAX} files of the table may have rows of these keys")
    if not all(file.reached for file in old):
        raise Strange("a file of the table, or its deletion vector, lies outside of its folder")
    held = _Held(Matched(tuple(reads.files), {}, NOTHING_FOUND), listed)
    if reads.files and (old or any(file.gone for file in reads.files)):
        divided = tasks(reads.files, old, session.sparkContext.defaultParallelism)
        held.job = Matching(transaction.folder(), reads.columns, divided, reads.rewrite)
        held.matched = match(session, held.job)
    return held


def _lacks_batch(upsert: Upsert, batch: Batch) -> bool:
    """Whether the newest version of the table does not record the batch."""
    newest = TableLog(upsert.session, upsert.path).newest()
    return newest is not None and not newest.has_batch(batch.app_id, batch.batch_id)


def _inside(file: NewFile, ranges: Sequence[Range]) -> bool:
    """Whether all keys of a file lie in one of these ranges."""
    return any(low <= file.low and file.high <= high for low, high in ranges)


def _to_write(source: Source, matches: Matches | None) -> DataFrame | None:
    """The READs that the table has otherwise, or has not; None where there is nothing at all to write: a write of no
    rows would leave an empty file behind."""
    if not isinstance(source.reads, Reads):
        return None
    reads = source.reads.rows if matches is None else matches.to_write
    differing = matches is not None and matches.found.differing
    return None if source.frame is None and not differing and reads.isEmpty() else reads


def _within_ranges(source: Source) -> Sequence[NewFile]:
    """The files that the source's rows lie in. Raises ValueError where one has keys beyond all ranges."""
    files = source.rows.files if isinstance(source.rows, RowsInFiles) else ()
    if source.ranges is None or not files:
        return files
    ends = min(low for low, _ in source.ranges), max(high for _, high in source.ranges)
    if not all(ends[0] <= file.low and file.high <= ends[1] for file in files):
        raise ValueError(f"{OUTSIDE}: one of a file of streamed rows")
    return files


def _kept(transaction: Transaction, source: Source, soft: SoftDeletes) -> DataFrame:
    """The rows of keys that the source deletes, as they are in the table, with what is the delete's: one a key, by
    which they are sorted out into few files. Whole rows are read, so no more files than may hold one of these keys."""
    assert source.frame is not None, "deletes are rows, and say more than their keys"
    deletes = source.frame.where(F.col(OP) == "d")
    said = deletes.select(KEY, *(F.col(quoted(name)).alias(_OF_DELETE + name) for name in soft.columns))
    old = transaction.rows_and_places(transaction.files(ranges_of(deletes))).drop(*PLACE)
    both = old.join(F.broadcast(said) if source.known.few else said, KEY)
    columns = [
        F.col(quoted(_OF_DELETE + name)).alias(name) if name in soft.columns else F.col(quoted(name))
        for name in old.columns
    ]
    return both.select(*columns).dropDuplicates([KEY])


def _insert(
    guard: TableGuard, transaction: Transaction, source: Source, batch_id: int, new: Sequence[NewFile] | None
) -> Found:
    transaction.reads(source.ranges)
    if new is not None:
        guard.check_files(transaction.begins)
        files, rows = transaction.add(new)
        size = sum(file.size_bytes for file in new)
        figures = {"numFiles": files, "numOutputRows": rows, "numOutputBytes": size}
        transaction.commit_append(batch_id, figures)
        return NOTHING_FOUND
    assert source.frame is not None, "an append has rows"
    transaction.write(source.frame)
    transaction.commit_append(batch_id)
    return NOTHING_FOUND
