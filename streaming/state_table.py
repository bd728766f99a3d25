"""One Delta state table: the current documents of one collection.

Columns: ``_key`` (the MERGE key, and what the table is clustered by), the columns of the plan,
``_rescued_data``, ``_cluster_time``, ``_source_ts``, ``_op``.

**Exactly one data commit per table, batch, and part.** A landing carries ``(app_id, batch_id)``, which Delta records
in the same commit. A batch has one part, or two: rows that are only appended may follow what is merged in a commit of
their own (part "reads"), under an application id of their own. Three rules make that safe:

- tables are created and altered by DDL only, which records no batch (an empty write would);
- Delta skips, in silence, a batch that is not above the recorded one. So the record is read before and
  after, and a landing knows by a token in its commit whether *it* wrote;
- one `StateTable` lands a part of a batch once. Landing it again is a mistake of the caller and refused, not
  skipped: the rows of the second call would be lost.

**The plan is written before its columns.** It lies in the table property ``snapshotter.plan``; columns that
the plan has and the table lacks (a crash in between) are added at the next `open` or `evolve`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import stamina
from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
from delta.tables import DeltaTable
from pyspark.sql import functions as F

from streaming import state_merge
from streaming.column_names import CLUSTER_TIME, KEY
from streaming.columns import TablePlan
from streaming.delta_log import Commit, Snapshot, TableLog
from streaming.delta_transaction import Unsupported, supports
from streaming.key_ranges import Range
from streaming.namespaces import Namespace
from streaming.state_merge import NOTHING_KNOWN, Known
from streaming.state_schema import missing_columns, state_schema, type_differences
from streaming.state_upsert import upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streaming.table_files import TableFiles

PLAN_PROPERTY = "snapshotter.plan"
NAMESPACE_PROPERTY = "snapshotter.namespace"

_PROPERTIES = {
    "delta.enableDeletionVectors": "true",
    # The first indexed columns would be the documents' own: each costs time at every write, none prunes a
    # MERGE.
    "delta.dataSkippingStatsColumns": f"{KEY},{CLUSTER_TIME}",
}
# Below it, writing files anew takes less than the dozen jobs that write deletion vectors (bench/README.md), and leaves
# fewer files.
SMALL_BYTES = 4 * 2**20
_ENGINE = "snapshotter"
_CONFLICT_ATTEMPTS = 6
# In Python they have no common base. ConcurrentTransactionException is left out: it means another commit
# under our own application id, so a second engine, which trying again would only hide.
_PASSING_CONFLICTS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)

_WRITES = ("MERGE", "WRITE")
How = Literal["merge", "insert", "append", "replace"]
Part = Literal["batch", "reads"]


class LandingError(Exception):
    """A landing was refused, or did not do what it was asked; nothing of it is in the table."""


@dataclass(frozen=True, slots=True)
class Landed:
    """What a landing did. ``wrote`` is False when the table records this batch, or a later one, already.

    ``source_rows`` are the rows it was given, whatever became of them.
    """

    wrote: bool
    version: int
    source_rows: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


class StateTable:
    """The state table of ``namespace`` at ``path`` (a local path or a URI), written as ``app_id``.

    ``app_id`` holds the id of the query's checkpoint: a new checkpoint counts its batches from 0 again, and
    must not meet the record of an older one. ``settings`` are Spark settings of this table's landings. A table of
    up to ``small_bytes`` has its files written anew where rows change; a larger one gets deletion vectors. Not
    for use by several threads at once; different tables may be landed side by side.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        namespace: Namespace,
        app_id: str,
        settings: Mapping[str, str] | None = None,
        small_bytes: int = SMALL_BYTES,
    ) -> None:
        if "${" in app_id:
            raise ValueError(f"Spark would substitute a variable in the application id {app_id!r}")
        self.path = path
        self.namespace = namespace
        self.app_id = app_id
        self._session = state_merge.landing_session(spark, settings or {})
        self._vectors = state_merge.switched_on(self._session, state_merge.DELETION_VECTORS)
        # What an upsert has written it counts by the files' statistics.
        self._upserting = self._vectors and state_merge.switched_on(self._session, state_merge.STATISTICS)
        self._small_bytes = small_bytes
        self._log = TableLog(self._session, path)
        self._sql_name = f"delta.`{path.replace('`', '``')}`"
        self._landed_parts: set[tuple[Part, int]] = set()
        self._files: TableFiles | None = None

    def create(self, plan: TablePlan) -> None:
        """Make the table, or bring the one that is there up to ``plan``."""
        if self._log.newest() is not None:
            self.evolve(plan)
            return
        self._log.clear_unfinished()
        builder = DeltaTable.createIfNotExists(self._session).location(self.path)
        builder = builder.addColumns(state_schema(plan)).clusterBy(KEY)
        ours = {PLAN_PROPERTY: plan.to_json(), NAMESPACE_PROPERTY: str(self.namespace)}
        for name, value in {**_PROPERTIES, **ours}.items():
            builder = builder.property(name, value)
        builder.execute()

    def open(self) -> TablePlan | None:
        """The table's plan, after finishing an evolution that a crash cut short; None without a table."""
        newest = self._log.newest()
        if newest is None:
            return None
        plan = self._plan_of(newest)
        self._add_missing_columns(newest, plan)
        return plan

    def evolve(self, plan: TablePlan) -> TablePlan:
        """Add what ``plan`` has and the table lacks; the plan of the table afterwards, which holds both."""
        newest = self._existing()
        recorded = self._plan_of(newest)
        merged = recorded.merge(plan)
        if merged != recorded:
            text = merged.to_json().replace("\\", "\\\\").replace("'", "\\'")
            self._session.sql(
                f"ALTER TABLE {self._sql_name} SET TBLPROPERTIES ('{PLAN_PROPERTY}' = '{text}')"
            )
        self._add_missing_columns(newest, merged)
        return merged

    def recorded_batch(self) -> int | None:
        """The newest batch whose first part ``app_id`` committed; None when there is none, or no table."""
        newest = self._log.newest()
        return None if newest is None else newest.recorded(self.app_id)

    def version(self) -> int:
        """The table's newest version. Raises `LandingError` when there is no table."""
        return self._existing().version

    def is_empty(self) -> bool:
        """Whether the table holds no row (also when there is no table)."""
        newest = self._log.newest()
        return newest is None or newest.files == 0 or self._rows().isEmpty()

    def max_key(self, after: str | None = None, upto: str | None = None) -> str | None:
        """The greatest ``_key`` with ``after < _key <= upto``, None leaving an end open; None for no row."""
        rows = self._rows()
        if after is not None:
            rows = rows.where(F.col(KEY) > F.lit(after))
        if upto is not None:
            rows = rows.where(F.col(KEY) <= F.lit(upto))
        found = rows.agg(F.max(KEY)).first()
        return None if found is None else found[0]

    def keys(self, ranges: Sequence[Range] | None) -> DataFrame:
        """The ``_key`` of each of its rows, or of those in ``ranges`` alone."""
        rows = self._rows()
        return rows if ranges is None else rows.where(state_merge.within(F.col(KEY), ranges))

    def last_metadata(self) -> dict[str, Any] | None:
        """What the newest landing of this engine, under any application id, was given as ``metadata``."""
        newest = self._log.newest()
        if newest is None:
            return None
        for commit in self._log.commits_down(newest.version):
            mark = _mark_of(commit)
            if mark is not None:
                return dict(mark["metadata"])
        return None

    def land(
        self,
        source: DataFrame,
        *,
        batch_id: int,
        metadata: Mapping[str, Any],
        how: How,
        key_ranges: Sequence[Range] | None,
        known: Known = NOTHING_KNOWN,
        part: Part = "batch",
        added: DataFrame | None = None,
    ) -> Landed:
        """Write a batch's rows in one commit, with ``metadata`` (JSON values) in it.

        ``source`` has exactly the table's columns, in any order, and one row a ``_key``. ``merge`` deletes
        where ``_op`` is "d", updates and inserts. ``insert`` only inserts, and leaves the rows of known keys
        as they are. ``append`` asks nothing: its keys are proven new, and are none of the batch's deletes.
        ``replace`` merges, and deletes every row whose key the source has not.
        ``key_ranges`` hold all keys of the source (`streaming.key_ranges`, `state_merge.ranges_of`); None
        searches the whole table. ``known``: what the caller promises of the source. ``part``: "reads" lands
        behind the batch's first part, which the caller has landed; `recorded_batch` does not tell of it.
        ``added``: rows of keys that are new and none of the source's, inserted beside a merge where `takes_added`
        says so, and else merged with the source.

        Raises `LandingError` before anything is written when the source does not fit, and whatever Spark
        raises; a conflict with another writer (OPTIMIZE, say) is tried again, some times.
        """
        if (part, batch_id) in self._landed_parts:
            raise LandingError(f"batch {batch_id} of {self.namespace} was landed already: one commit a batch")
        app_id = self.app_id if part == "batch" else f"{self.app_id}:{part}"
        before = self._existing()
        recorded = before.recorded(app_id)
        if recorded is not None and recorded >= batch_id:
            return Landed(False, before.version)
        rows = self._fitting(source, before)
        beside = None if added is None else self._fitting(added, before)
        token = uuid.uuid4().hex
        user_metadata = _marking(token, app_id, batch_id, metadata)
        if how == "append":
            write = partial(state_merge.append, self.path, rows, app_id, batch_id, user_metadata)
        elif how == "merge" and self._upserts(before, known, adds=beside is not None):
            write = partial(self._upsert, rows, beside, key_ranges, known, app_id, batch_id)
        else:
            write = partial(self._merge, rows, beside, key_ranges, known, how, vectors=self._marks(before))
        with state_merge.transaction(self._session, app_id, batch_id, user_metadata):
            _try(write)
        commit = self._commit_of(token, before.version)
        if commit is None:
            self._files = None
            raise LandingError(
                f"batch {batch_id} of {self.namespace} was not written by this engine: another one, with the "
                f"same application id {app_id!r}, was quicker. Stop one of the two"
            )
        self._landed_parts = {p for p in self._landed_parts if p[1] == batch_id} | {(part, batch_id)}
        return _landed(commit)

    def takes_added(self, known: Known) -> bool:
        """Whether `land` would merge such a source so that it takes ``added`` rows beside it."""
        return self._upserts(self._existing(), known, adds=True)

    def _upserts(self, table: Snapshot, known: Known, *, adds: bool) -> bool:
        """Whether a merge is done by `state_upsert`. Delta's MERGE does what that can't, and small tables that little
        is added to: their few files are written anew."""
        fits = known.held and known.distinct and known.deletes is not None and self._upserting
        much = adds or known.large or table.files == 0
        return fits and (much or self._marks(table)) and supports(table)

    def _marks(self, table: Snapshot) -> bool:
        """Whether old rows are marked in deletion vectors: a small table's files are written anew."""
        return self._vectors and table.size > self._small_bytes

    def _upsert(
        self,
        rows: DataFrame,
        added: DataFrame | None,
        ranges: Sequence[Range] | None,
        known: Known,
        app_id: str,
        batch_id: int,
    ) -> None:
        files, self._files = self._files, None
        try:
            self._files = upsert(
                self._session, self.path, rows, ranges, known, app_id, batch_id, added, files
            )
        except Unsupported:
            # Somebody has altered the table since it was looked at. Delta's command can do it, if the slower way.
            self._merge(rows, added, ranges, NOTHING_KNOWN, "merge", vectors=True)

    def _merge(
        self,
        rows: DataFrame,
        added: DataFrame | None,
        ranges: Sequence[Range] | None,
        known: Known,
        how: How,
        *,
        vectors: bool,
    ) -> None:
        if added is not None:  # what was said of the source does not hold for both
            rows, ranges, known = rows.unionByName(added), None, NOTHING_KNOWN
        given = {"updates": how != "insert", "replaces": how == "replace", "vectors": vectors}
        state_merge.merge(self._session, self.path, rows, ranges, known, **given)

    def _commit_of(self, token: str, before: int) -> Commit | None:
        newest = self._existing().version
        for commit in self._log.commits_down(newest, before + 1):
            mark = _mark_of(commit)
            # Whatever Delta does behind it (auto compaction, say) carries the same mark.
            if mark is not None and mark["landing"] == token and commit.operation in _WRITES:
                return commit
        return None

    def _fitting(self, source: DataFrame, table: Snapshot) -> DataFrame:
        """The source with its columns in the table's order; raises `LandingError` for other columns."""
        schema = table.schema
        differences = type_differences(source.schema, schema)
        if differences:
            raise LandingError(
                f"the rows for {self.namespace} do not fit its table: {'; '.join(differences)}. "
                "Evolve the table first"
            )
        return source.select(*[F.col(f"`{name}`") for name in schema.names])

    def _rows(self) -> DataFrame:
        return self._session.read.format("delta").load(self.path).select(KEY)

    def _existing(self) -> Snapshot:
        newest = self._log.newest()
        if newest is None:
            raise LandingError(f"there is no table of {self.namespace} at {self.path}: create it first")
        return newest

    def _plan_of(self, table: Snapshot) -> TablePlan:
        text = table.table_property(PLAN_PROPERTY)
        if text is None:
            raise LandingError(
                f"the table at {self.path} was not made by snapshotter (no property {PLAN_PROPERTY}): "
                "move it, or choose another warehouse"
            )
        return TablePlan.from_json(text)

    def _add_missing_columns(self, table: Snapshot, plan: TablePlan) -> None:
        missing = missing_columns(table.schema, plan)
        if missing:
            self._session.sql(f"ALTER TABLE {self._sql_name} ADD COLUMNS ({', '.join(missing)})")


def _marking(token: str, app_id: str, batch_id: int, metadata: Mapping[str, Any]) -> str:
    """What a commit's ``userMetadata`` says, so that a landing knows it again."""
    mark = {"engine": _ENGINE, "landing": token, "app_id": app_id, "batch": batch_id, "metadata": metadata}
    # Spark substitutes ${...} in settings, which is where a MERGE takes its metadata from.
    return json.dumps(mark, separators=(",", ":")).replace("$", "\\u0024")


def _try(write: Callable[[], None]) -> None:
    """Again, some times, where another writer was quicker."""
    for attempt in stamina.retry_context(on=_PASSING_CONFLICTS, attempts=_CONFLICT_ATTEMPTS, timeout=None):
        with attempt:
            write()


def _mark_of(commit: Commit) -> dict[str, Any] | None:
    """The mark of a commit that a landing of this product made; None for any other commit."""
    try:
        value = json.loads(commit.user_metadata or "null")
    except ValueError:
        return None
    ours = isinstance(value, dict) and value.get("engine") == _ENGINE and "landing" in value
    return value if ours else None


def _landed(commit: Commit) -> Landed:
    if commit.operation == "MERGE":
        return Landed(
            True,
            commit.version,
            commit.count("numSourceRows"),
            commit.count("numTargetRowsInserted"),
            commit.count("numTargetRowsUpdated"),
            commit.count("numTargetRowsDeleted"),
        )
    written = commit.count("numOutputRows")
    return Landed(True, commit.version, written, inserted=written)
