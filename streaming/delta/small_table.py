"""A small table beside the engine's state that batches only append to, for months.

Delta's own writer lists the log's folder several times for an append, and each tenth commit, which writes a checkpoint,
again. A table of one commit a second has four hundred thousand files there after a day, and each listing
then takes seconds, in which a batch waits. So the rows of a table that is there are committed by a transaction of ours,
which lists nothing, checkpoints are written here (`streaming.delta.log_checkpoint`), and old commits go by their names.

Invariants: an append that the table records changes nothing, also where it comes to be recorded meanwhile. The commit
of an append is that of Delta's writer: the same figures, the same mark. Rows that differ from the table's columns, and
tables that ask more of their writers, are left to Delta's writer; their logs are looked after all the same. No commit
goes that is not below a checkpoint, or while it is younger than it is to become. What fails behind an append does not
undo it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from delta.exceptions import ConcurrentTransactionException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from streaming.delta.delta_log import TableLog, active
from streaming.delta.log_checkpoint import left_to_us
from streaming.delta.new_files import FileGone, NewFile, discard_files
from streaming.delta.object_store import OutOfReach
from streaming.delta.snapshot import Snapshot
from streaming.delta.state_merge import append
from streaming.delta.state_upkeep import GOES_BACK
from streaming.delta.table_demands import Unsupported, takes_files
from streaming.delta.table_folder import TableFolder
from streaming.delta.transaction import Transaction

COMMITS = 50
"""Behind so many commits a checkpoint is written."""
VERSIONS = 1_000
"""So many of the newest commits stay, however old they are."""
_WEEK_MS = 7 * 24 * 3_600_000
_CLEANS = "delta.enableExpiredLogCleanup"
_RETRY_SECONDS = 600.0
_AT_ONCE = 2 * COMMITS
"""So many old commits go behind a checkpoint at most: what an engine finds that kept all of them goes bit by bit."""


@dataclass(slots=True)
class SmallTable:
    """The table at ``path``, in ``session``. ``kept_ms``: for so long its commits stay; None: as the table's
    ``delta.logRetentionDuration`` says, or a week. ``failed`` is told why its log could not be looked after: no append
    depends on that, and it is tried again some minutes later. Not for several threads."""

    session: SparkSession
    path: str
    failed: Callable[[Exception], object]
    kept_ms: int | None = None
    _oldest: tuple[str, int] | None = None
    _rests_until: float = 0.0

    def for_files(self, schema: StructType, partitions: Collection[str]) -> TableFolder | None:
        """The table's folder, where files of rows with this ``schema`` may be written for `append`, each in one of the
        ``partitions`` by these columns. None where only Delta's own writer will do, or only the JVM reaches it."""
        with active(self.session):
            log = TableLog(self.session, self.path)
            table = log.newest()
            if table is None or not takes_files(table, partitions):
                return None
            try:
                return log.folder() if _alike(table.schema, schema) else None
            except OutOfReach:
                return None

    def append(
        self,
        rows: DataFrame | None,
        app_id: str,
        batch_id: int,
        user_metadata: str,
        files: Sequence[NewFile] = (),
    ) -> None:
        """Append ``rows``, and those in ``files`` of the table's folder, as batch ``batch_id`` of ``app_id``, with
        ``user_metadata``. Without a table Delta's writer makes it. Files that no commit was asked to add are removed.
        Raises what Spark raises, `FileGone` where a file is gone, and `Unsupported` where the table takes no files, or
        not these rows beside them."""
        session = self.session if rows is None else rows.sparkSession  # as Delta's writer does it
        with active(session), own_commit_counts(session, self.path, app_id, batch_id):
            transaction = self._begun(session, rows, app_id)
            if transaction is None and rows is not None and not files:
                append(self.path, rows, app_id, batch_id, user_metadata)
            else:
                self._commit(transaction, rows, batch_id, user_metadata, files)
        session.catalog.refreshByPath(self.path)
        if time.monotonic() >= self._rests_until:
            try:
                with active(self.session):
                    self._look_after()
            except Exception as error:  # noqa: BLE001 - told, and no append depends on it
                self._rests_until = time.monotonic() + _RETRY_SECONDS
                self.failed(error)

    def _commit(
        self,
        transaction: Transaction | None,
        rows: DataFrame | None,
        batch_id: int,
        user_metadata: str,
        files: Sequence[NewFile],
    ) -> None:
        asked = False
        try:
            if transaction is None:
                raise Unsupported(f"the table at {self.path} was altered, and takes no files now")
            if transaction.has_batch(batch_id):
                return
            figures = None  # Delta's writer keeps its own
            if files or rows is None:
                figures = transaction.append(rows, files)
            else:
                transaction.write_all(rows)
            asked = True
            transaction.commit_append(batch_id, figures, user_metadata or None)
        except FileGone:
            asked = False
            raise
        finally:
            if files and not asked:
                discard_files(TableLog(self.session, self.path).folder(), [file.path for file in files])

    def _begun(self, session: SparkSession, rows: DataFrame | None, app_id: str) -> Transaction | None:
        """None where it is for Delta's writer to append them; also without a table, which has no columns."""
        try:
            transaction = Transaction(session, self.path, app_id, marks=False)
        except Unsupported:
            return None
        alike = rows is None or _alike(transaction.begins.schema, rows.schema)
        return transaction if alike else None

    def _look_after(self) -> None:
        """Write a checkpoint, where enough commits lie behind the last one, and let old commits go."""
        log = TableLog(self.session, self.path)
        table = log.newest()
        if table is None or table.version < COMMITS:
            return
        if left_to_us(table) is not None:
            log.set_properties(left_to_us)
        if table.commits < COMMITS:
            return
        log.checkpoint(cleans=False)
        log.stand_upon_checkpoint()
        if (table := log.newest()) is not None and (table.table_property(_CLEANS) or "true") == "true":
            self._forget(log, table)

    def _forget(self, log: TableLog, table: Snapshot) -> None:
        if self._oldest is None or self._oldest[0] != table.table_id:
            self._oldest = table.table_id, log.oldest_commit(table.version)
        first, behind = self._oldest[1], min(table.checkpoint, table.version - VERSIONS)
        kept_ms = self.kept_ms
        if kept_ms is None:
            kept_ms = _WEEK_MS if table.table_property(GOES_BACK) is None else table.goes_back_ms
        before = int(time.time() * 1_000) - kept_ms
        self._oldest = table.table_id, log.forget(first, min(behind, first + _AT_ONCE), before)


@contextmanager
def own_commit_counts(session: SparkSession, path: str, app_id: str, batch_id: int) -> Iterator[None]:
    """Within, a commit of batch ``batch_id`` of ``app_id`` to the table at ``path``, in ``session``, that meets another
    of that batch has been made: it is our own, whose answer was lost."""
    try:
        yield
    except ConcurrentTransactionException:
        if not TableLog(session, path).has_batch(app_id, batch_id):
            raise


def _alike(table: StructType, rows: StructType) -> bool:
    """Whether these rows are the table's, column by column."""
    return [_told(field) for field in table] == [_told(field) for field in rows]


def _told(field: Any) -> tuple[str, str]:
    return field.name, field.dataType.simpleString()
