"""The roads by which rows get into a state table: appended, put in the place of old ones, or by Delta's MERGE.

Which one a landing takes depends on what is known of its rows, and on what the table asks of its writers. Transactions
of our own (`delta_transaction`) are for tables that ask no more than they do; each asks the table's guard on the very
version that it begins at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from streaming.delta import state_merge, state_upsert
from streaming.delta.delta_log import Snapshot
from streaming.delta.state_merge import NOTHING_KNOWN, Known
from streaming.delta.table_guard import TableGuard
from streaming.delta.transaction import Transaction, Unsupported, supports
from streaming.keys.ranges import Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streaming.delta.table_files import TableFiles

# Below it, writing files anew takes less than the dozen jobs that write deletion vectors (bench/README.md), and leaves
# fewer files.
SMALL_BYTES = 4 * 2**20
How = Literal["merge", "insert", "append", "replace"]


@dataclass(frozen=True, slots=True)
class Writing:
    """What `streaming.delta.state_table.StateTable.land` was asked for, but for the rows."""

    how: How
    ranges: Sequence[Range] | None
    known: Known
    app_id: str
    batch_id: int
    user_metadata: str
    heals: bool


class Roads:
    """Of the table at ``path``, in its own session. ``files``: the table's, as of some version, if they are known."""

    def __init__(self, session: SparkSession, path: str, guard: TableGuard, small_bytes: int) -> None:
        self._session = session
        self._path = path
        self._guard = guard
        self._small_bytes = small_bytes
        self._vectors = state_merge.switched_on(session, state_merge.DELETION_VECTORS)
        # What an upsert has written it counts by the files' statistics.
        self._upserting = self._vectors and state_merge.switched_on(session, state_merge.STATISTICS)
        self.files: TableFiles | None = None

    def upserts(self, table: Snapshot, known: Known, *, anyway: bool) -> bool:
        """Whether a merge is done by `state_upsert`. Delta's MERGE does what that can't, and small tables that little
        is added to, unless ``anyway``: their few files are written anew."""
        fits = known.held and known.distinct and known.deletes is not None and self._upserting
        much = anyway or known.large or table.files == 0
        return fits and (much or self.marks(table)) and supports(table)

    def marks(self, table: Snapshot) -> bool:
        """Whether old rows are marked in deletion vectors: a small table's files are written anew."""
        return self._vectors and table.size > self._small_bytes

    def write(
        self, writing: Writing, rows: DataFrame, added: DataFrame | None, table: Snapshot, *, tried: bool
    ) -> None:
        """Write rows, and ``added`` ones beside them. ``tried``: another writer was quicker, so that keys are new is
        proven no more, and they are looked for."""
        how, ranges, known, vectors = writing.how, writing.ranges, writing.known, self.marks(table)
        if tried and (how == "append" or added is not None):
            now: How = "insert" if how == "append" else how
            self._merge(rows, added, ranges, known, how=now, vectors=vectors)
        elif how == "append":
            self._append(writing, rows)
        elif how == "merge" and self.upserts(table, known, anyway=writing.heals or added is not None):
            self._upsert(writing, rows, added)
        else:
            self._merge(rows, added, ranges, known, how=how, vectors=vectors)

    def _append(self, writing: Writing, rows: DataFrame) -> None:
        app_id, batch_id = writing.app_id, writing.batch_id
        work = partial(state_upsert.insert, rows=rows, ranges=writing.ranges, batch_id=batch_id)
        if not self._upserting or not self._in_transaction(app_id, batch_id, work):
            state_merge.append(self._path, rows, app_id, batch_id, writing.user_metadata)

    def _upsert(self, writing: Writing, rows: DataFrame, added: DataFrame | None) -> None:
        ranges, known, batch_id = writing.ranges, writing.known, writing.batch_id
        work = partial(
            state_upsert.upsert, source=rows, ranges=ranges, known=known, batch_id=batch_id, added=added
        )
        if not self._in_transaction(writing.app_id, batch_id, work):
            # Somebody has altered the table since it was looked at. Delta's command can do it, if the slower way.
            self._merge(rows, added, ranges, NOTHING_KNOWN, how="merge", vectors=True)

    def _in_transaction(self, app_id: str, batch_id: int, work: Callable[[Transaction], None]) -> bool:
        """Whether the table is one for transactions of our own; then the work is done, but for a batch that is
        recorded."""
        files, self.files = self.files, None
        try:
            transaction = Transaction(self._session, self._path, app_id, files)
        except Unsupported:
            return False
        self._guard.admit(transaction.begins)
        recorded = transaction.recorded()
        if recorded is None or recorded < batch_id:
            work(transaction)
            # Delta's own commands do so too. Who keeps the table in Spark's cache would go on reading what was there
            # before.
            self._session.catalog.refreshByPath(self._path)
            self.files = transaction.known
        return True

    def _merge(
        self,
        rows: DataFrame,
        added: DataFrame | None,
        ranges: Sequence[Range] | None,
        known: Known,
        *,
        how: How,
        vectors: bool,
    ) -> None:
        if added is not None:  # what was said of the source does not hold for both
            rows, ranges, known = rows.unionByName(added), None, NOTHING_KNOWN
        given = {"updates": how != "insert", "replaces": how == "replace", "vectors": vectors}
        state_merge.merge(self._session, self._path, rows, ranges, known, **given)
