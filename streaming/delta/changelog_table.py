"""One changelog table: every event of one collection, and every READ, in rows that are only appended.

**Each event once.** A commit carries ``(app_id, batch_id)``, as those of state tables do, so a batch that is sent again
is left out. Another checkpoint counts its batches anew, from a position that may lie before what the table holds. So
the newest cluster time in the table counts, too (`newest`): whatever lies up to it is held, for a commit holds all of a
batch's events or none, and a batch all of a cluster time's or none. Rows may be deleted: only the newest are asked for.

A table has one owner (`streaming.delta.table_guard`), asked in each attempt of each commit. Columns that somebody has
added are kept, and null in new rows. Rows come in frames, which Delta's writer writes, and in files of the table's
folder, which a commit of ours names. Each commit adds files, so they are put together as those of state tables are
(``upkeep``), in the order of the stream.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from delta.exceptions import ConcurrentTransactionException
from delta.tables import DeltaTable
from pyspark.sql import functions as F

from streaming.column_names import CLUSTER_TIME, KEY, ORDER
from streaming.delta import state_merge
from streaming.delta.attempts import attempts
from streaming.delta.delta_log import CONFLICTS, TableLog, active
from streaming.delta.landing_errors import LandingError, LandingOvertaken
from streaming.delta.new_files import FileGone, NewFile, discard_files, rows_of
from streaming.delta.object_store import OutOfReach
from streaming.delta.snapshot import Snapshot
from streaming.delta.state_upkeep import StateUpkeep
from streaming.delta.state_writing import Writing
from streaming.delta.table_demands import Unsupported, takes_files
from streaming.delta.table_folder import TableFolder
from streaming.delta.table_guard import NAMESPACE_PROPERTY, TableGuard
from streaming.delta.table_identity import Owner
from streaming.delta.table_properties import LEFT_TO_UPKEEP
from streaming.delta.transaction import Transaction
from streaming.namespaces import Namespace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_WRITES = ("WRITE",)
_PROPERTIES = {"delta.dataSkippingStatsColumns": f"{KEY},{CLUSTER_TIME},{ORDER}"}


@dataclass(frozen=True, slots=True)
class Appended:
    """What an append did: how many ``rows`` it wrote, in which ``version`` of the table. ``wrote`` is False when the
    table records this batch, or a later one, already."""

    wrote: bool
    rows: int = 0
    version: int = -1


@dataclass(slots=True)
class _Landing:
    """What an append was asked for. ``asked``: a commit was asked to add the files, and may have done so."""

    rows: DataFrame | None
    files: Sequence[NewFile]
    batch_id: int
    said: str
    asked: bool = False


class ChangelogTable:
    """The changelog of ``namespace`` at ``path`` (a local path or a URI), written as ``app_id`` for ``owner`` (None
    asks nobody). ``schema`` is that of its rows; among them are ``_key`` and ``_cluster_time``. ``own_checkpoints``: as
    of `TableForm`. Not for use by several threads at once."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        namespace: Namespace,
        app_id: str,
        schema: StructType,
        owner: Owner | None = None,
        *,
        own_checkpoints: bool = False,
    ) -> None:
        self._apart = LEFT_TO_UPKEEP if own_checkpoints else {}
        self.path = path
        self.namespace = namespace
        self.app_id = app_id
        self._schema = schema
        self._session = state_merge.landing_session(spark, {})
        self._log = TableLog(self._session, path)
        self._guard = TableGuard(path, namespace, self._log, owner)
        self._writing = Writing(self._session, path, self._guard)
        order = CLUSTER_TIME, ORDER
        self.upkeep = StateUpkeep(self._session, path, self._log, self._guard, self._writing, order)

    def admit(self) -> None:
        """Make sure that the table is this engine's, if there is one. Raises `TableOwned` where it is another's."""
        with active(self._session):
            if self._log.newest() is not None:
                self._admitted()

    def recorded_batch(self) -> int | None:
        """The newest batch that ``app_id`` committed; None when there is none, or no table."""
        with active(self._session):
            newest = self._log.newest()
            return None if newest is None else newest.recorded(self.app_id)

    def newest(self) -> int | None:
        """The greatest cluster time that the table holds; None without a row, or a table."""
        with active(self._session):
            if self._log.newest() is None:
                return None
            self._admitted()
            rows = self._session.read.format("delta").load(self.path)
            found = rows.agg(F.max(CLUSTER_TIME)).first()
            return None if found is None else found[0]

    def marks(self) -> frozenset[str]:
        """The marks of what was replayed into it (`source.sequence`): there are few of these."""
        with active(self._session):
            if self._log.newest() is None:
                return frozenset()
            self._admitted()
            rows = self._session.read.format("delta").load(self.path).select("source.sequence")
            return frozenset(row[0] for row in rows.where("sequence IS NOT NULL").distinct().collect())

    def take_over(self) -> str | None:
        """Make this engine the owner; returns the name of the one before ("" for nobody), or None where this engine is
        it already, or no table is there."""
        with active(self._session):
            return None if self._log.newest() is None else self._guard.take_over()

    def for_files(self) -> TableFolder | None:
        """The table's folder, where files may be written for `append`; None where only Delta's own writer will do, or
        only the JVM reaches it. The table is made first, if there is none. Raises `TableOwned` and `LandingError`."""
        with active(self._session):
            if self._writing.off is not None or not self._takes_files(self._made()):
                return None
            try:
                return self._log.folder()
            except OutOfReach:
                return None

    def append(
        self,
        rows: DataFrame | None,
        files: Sequence[NewFile] = (),
        *,
        batch_id: int,
        metadata: Mapping[str, Any],
    ) -> Appended:
        """Append the ``rows`` of batch ``batch_id``, and those in ``files``, which lie in the table's folder
        (`for_files`), in one commit, with ``metadata`` (JSON values) in it. The table is made first, if there is none.
        Files that no commit was asked to add are removed.

        Raises `TableOwned` where it is another engine's, `LandingError` where it is no changelog, `LandingOvertaken`
        where another engine was quicker, `FileGone` where a file is gone, and whatever Spark raises.
        """
        with active(self._session):
            try:
                before = self._made()
            except BaseException:
                self._remove(files)
                raise
            if before.has_batch(self.app_id, batch_id):
                self._remove(files)
                return Appended(False)
            token = uuid.uuid4().hex
            said = self._guard.marking(token, self.app_id, batch_id, metadata)
            landing = _Landing(rows, files, batch_id, said)
            met: Exception | None = None
            try:
                attempts(partial(self._write, landing), admit=self._admitted)
            except ConcurrentTransactionException as error:  # perhaps our own, whose answer was lost
                met = error
            except BaseException:
                if not landing.asked:
                    self._remove(files)
                raise
            newest = self._log.newest() or before
            commit = self._guard.landing(token, before.version, newest.version, _WRITES)
            if commit is not None:
                return Appended(True, commit.count("numOutputRows"), commit.version)
            self._remove(files)
            if met is not None:
                raise met
            self._admitted()
            raise LandingOvertaken(
                f"batch {batch_id} of the changelog of {self.namespace} was not written by this engine: another "
                f"one, with the same application id {self.app_id!r}, was quicker. Stop one of the two"
            )

    def _takes_files(self, table: Snapshot) -> bool:
        """Whether this version takes files with rows of ours; Delta's own writer would refuse other types."""
        there = {field.name: field.dataType for field in table.schema}
        return takes_files(table) and all(there.get(one.name) == one.dataType for one in self._schema)

    def _write(self, landing: _Landing) -> None:
        rows, files = landing.rows, landing.files
        if rows is None or files:
            try:
                self._commit(landing)
                return
            except Unsupported:  # it was altered since `for_files` was asked
                there = rows_of(self._session, self.path, files, self._schema)
                rows = there if rows is None else rows.unionByName(there)
        state_merge.append(self.path, rows, self.app_id, landing.batch_id, landing.said)
        if not landing.asked:
            self._remove(files)

    def _commit(self, landing: _Landing) -> None:
        transaction = Transaction(self._session, self.path, self.app_id, marks=False)
        self._guard.admit(transaction.begins)
        if transaction.has_batch(landing.batch_id):
            return
        if not self._takes_files(transaction.begins):
            raise Unsupported("the table's own writer is to see every row")
        figures = transaction.append(landing.rows, landing.files)
        landing.asked = True
        try:
            transaction.commit_append(landing.batch_id, figures, landing.said)
        except (FileGone, *CONFLICTS):
            landing.asked = self._log.has_batch(self.app_id, landing.batch_id)
            raise
        # As Delta's own commands do: else whoever keeps the table in Spark's cache goes on reading the old version.
        self._session.catalog.refreshByPath(self.path)

    def _remove(self, files: Sequence[NewFile]) -> None:
        if files:
            discard_files(self._log.folder(), [file.name for file in files])

    def reads_in(self, version: int) -> int | None:
        """How many rows that this commit has added are READs, which have no ``_order``; None where Delta keeps no
        statistics of that."""
        with active(self._session):
            nulls = [file.get("nullCount", {}).get(ORDER) for file in self._log.commits.added(version)]
        return None if None in nulls or not nulls else sum(nulls)

    def _made(self) -> Snapshot:
        if self._log.newest() is None:
            self._log.clear_unfinished()
            builder = DeltaTable.createIfNotExists(self._session).location(self.path).addColumns(self._schema)
            given = {**_PROPERTIES, **self._apart, **self._guard.properties()}
            for name, value in given.items():
                builder = builder.property(name, value)
            builder.execute()
        return self._admitted()

    def _admitted(self) -> Snapshot:
        """The newest version of the table, which is this engine's."""
        newest = self._log.newest()
        self._guard.admit(newest)
        if newest is None:
            raise LandingError(f"there is no changelog of {self.namespace} at {self.path}")
        if newest.table_property(NAMESPACE_PROPERTY) is None:
            raise LandingError(
                f"the table at {self.path} was not made by snapshotter (no property {NAMESPACE_PROPERTY}): move it, "
                "or choose another warehouse"
            )
        return newest
