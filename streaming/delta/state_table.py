"""One Delta state table: the current documents of one collection.

Columns: those of the plan, ``_rescued_data``, ``_cluster_time``, ``_source_ts``, ``_op``, further ones
(`streaming.delta.further_columns`), and ``_key``: the MERGE key, and what the table is clustered by. They come in the
table's own order (`streaming.delta.new_table`).

**Exactly one data commit per table, batch, and part.** A landing carries ``(app_id, batch_id)``, which Delta records
in the same commit. A batch has one part, or two: rows that are only appended may follow what is merged in a commit of
their own (part "reads"), under an application id of their own. Three rules make that safe:

- tables are created and altered by DDL only, which records no batch (an empty write would);
- Delta skips, in silence, a batch that is not above the recorded one. So the record is read before and
  after, and a landing knows by a token in its commit whether *it* wrote;
- one `StateTable` lands a part of a batch once. Landing it again is a mistake of the caller and refused, not
  skipped: the rows of the second call would be lost.

The plan lies in the table property ``snapshotter.plan``; `streaming.delta.state_evolution` adds the columns that it
asks for. Columns that somebody has added are kept, and null in every row that is written, also in one that takes the
place of another: a landing knows documents, and nothing of what stood beside them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, cast

from delta.exceptions import ConcurrentTransactionException
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from streaming.column_names import KEY, Path
from streaming.decode.streamed_rows import table_schema
from streaming.delta import state_merge
from streaming.delta.attempts import Altered, attempts
from streaming.delta.comparison import to_compare
from streaming.delta.delta_log import TableLog, active
from streaming.delta.further_columns import NOTHING_FURTHER, FurtherColumns
from streaming.delta.further_values import Further, ddl, live, with_fields
from streaming.delta.landed import Landed
from streaming.delta.landing_errors import LandingError, LandingOvertaken
from streaming.delta.new_files import NewFile, discard_files, leftovers, trial_name
from streaming.delta.new_table import make_table, new_schema
from streaming.delta.row_writer import NOTHING_KNOWN, Batch, By, Choice, How, Known, RowsInFiles, Source
from streaming.delta.snapshot import Snapshot
from streaming.delta.state_evolution import Evolution, is_refusal
from streaming.delta.state_schema import fitting
from streaming.delta.state_upkeep import StateUpkeep
from streaming.delta.state_writing import Landing, Writing
from streaming.delta.table_demands import has_vectors, takes_files
from streaming.delta.table_folder import TableFolder
from streaming.delta.table_guard import CLEARED_PROPERTY, TableGuard, landing_mark
from streaming.delta.table_identity import PART_READS, Owner, TableMark
from streaming.delta.table_properties import PLAN_PROPERTY, USUAL, TableForm
from streaming.keys.ranges import Range
from streaming.layout import AnyLayout, TablePlan
from streaming.namespaces import Namespace

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_WRITES = ("MERGE", "WRITE")
P = ParamSpec("P")
T = TypeVar("T")
Part = Literal["batch", "reads"]


def _in_session(method: Callable[Concatenate[StateTable, P], T]) -> Callable[Concatenate[StateTable, P], T]:
    """For every method that reaches Delta: its parts find the table's session, whatever thread calls them."""

    @wraps(method)
    def within(table: StateTable, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with active(table._session):
            return method(table, *args, **kwargs)

    return cast("Callable[Concatenate[StateTable, P], T]", within)


class StateTable:
    """The state table of ``namespace`` at ``path`` (a local path or a URI), written as ``app_id``.

    ``app_id`` holds the id of the query's checkpoint: a new checkpoint counts its batches from 0 again, and must not
    meet the record of an older one. ``layout`` says what columns the table has for documents. ``settings`` are Spark
    settings of this table's landings. ``owner``: the engine that it is written for; None asks nobody. ``further``: the
    columns that it is to have beside its plan's, and whether rows of deleted documents stay. ``form``: how it is made,
    if it is not there. ``upkeep``: what is done to its files beside landings. Not for use by several threads at once;
    different tables may be landed side by side.
    """

    def __init__(
        self,
        layout: AnyLayout,
        spark: SparkSession,
        path: str,
        namespace: Namespace,
        app_id: str,
        settings: Mapping[str, str] | None = None,
        owner: Owner | None = None,
        further: FurtherColumns = NOTHING_FURTHER,
        form: TableForm = USUAL,
    ) -> None:
        if "${" in app_id:
            raise ValueError(f"Spark would substitute a variable in the application id {app_id!r}")
        self.layout, self.path, self.namespace, self.app_id = layout, path, namespace, app_id
        self._session = state_merge.landing_session(spark, settings or {})
        self._log = TableLog(self._session, path)
        self._guard = TableGuard(path, namespace, self._log, owner)
        self._further, self._form = Further(namespace, further), form
        self._sql_name = f"delta.`{path.replace('`', '``')}`"
        self._landed_parts: set[tuple[Part, int]] = set()
        self._writing = Writing(self._session, path, self._guard)
        self.upkeep = StateUpkeep(self._session, path, self._log, self._guard, self._writing)
        self._evolution = Evolution(layout, lambda: self._existing().schema, self._alter, self._rewrite_plan)

    @property
    def refusals(self) -> Mapping[Path, str]:
        """Why fields got no column, of those that were refused by this object."""
        return self._evolution.refusals

    @_in_session
    def look(self, mark: TableMark | None) -> TableMark | None:
        """The newest version, after what others have committed behind ``mark`` was looked at; None without a table, if
        there was none. Without a mark whatever is there is where the next look begins.

        Raises `TableAltered` where the table is not what this engine left, `TableOwned` where it is not this engine's;
        one that may be taken is (`streaming.delta.table_guard`). From here on landings expect this very table.
        """
        return self._guard.look(mark)

    @_in_session
    def take_over(self) -> str | None:
        """Make this engine the owner; returns the name of the one before ("" for nobody), or None where this engine is
        it already, or no table is there. What the other has landed is not looked at: read the collection again with
        reconcile."""
        return None if self._log.newest() is None else self._guard.take_over()

    @_in_session
    def create(self, plan: TablePlan) -> None:
        """Make the table, or bring the one that is there up to ``plan``."""
        newest = self._log.newest()
        self._guard.admit(newest)
        if newest is None:
            try:
                # The documents may have fields of the names of further columns, which come first.
                self._make(self.layout.least_plan() if self._further.configured.added else plan)
                if not self._further.configured.added:
                    return
            except AnalysisException as error:
                if not is_refusal(error):
                    raise
                self._make(self.layout.least_plan())  # then it is found which of its columns can't be
        self.evolve(plan)

    def _make(self, plan: TablePlan) -> None:
        self._log.clear_unfinished()
        schema = new_schema(self.layout, plan, self._further.configured)
        comment = f"the MongoDB collection {self.namespace}, a row for each document; kept by snapshotter"
        ours = {PLAN_PROPERTY: plan.to_json(), **self._guard.properties()}
        make_table(self._session, self.path, schema, comment, {**self._form.all_properties, **ours})
        self._guard.admit(self._existing())  # of two engines one was quicker

    @_in_session
    def open(self) -> TablePlan | None:
        """The table's plan, after finishing an evolution that a crash cut short; None without a table."""
        newest = self._log.newest()
        if newest is None:
            return None
        self._guard.admit(newest)
        if self._further.configured.wanted:
            self._add_further(newest)
        return self._evolution.complete(self._plan_of(newest))

    def _add_further(self, table: Snapshot) -> None:
        """Give it the further columns that it lacks; its rows have nulls there until they are written again."""
        self._plan_of(table)  # refuses a table that is not one of ours, before it is altered
        try:
            missing = self._further.missing(table.schema)
        except ValueError as taken:
            raise LandingError(
                f"the table of {self.namespace} cannot have the columns that the configuration asks for: {taken}. "
                "Let the transform unwrap add its fields under other names, or set delta.deletes.mode=remove"
            ) from taken
        if missing:
            self._alter(ddl(missing))

    @_in_session
    def evolve(self, plan: TablePlan) -> TablePlan:
        """Add what ``plan`` has and the table lacks; the plan of the table afterwards, which holds both, but for fields
        that it refuses."""
        self._admitted()
        return self._evolution.evolve(plan)

    def _rewrite_plan(self, change: Callable[[TablePlan, StructType], TablePlan]) -> TablePlan:
        """Plan and schema are those of the version that the commit follows, so that they belong together whoever else
        adds columns."""
        written: list[TablePlan] = []

        def wanted(begun: Snapshot) -> dict[str, str] | None:
            self._guard.admit(begun)
            recorded = self._plan_of(begun)
            written[:] = [change(recorded, begun.schema)]
            return None if written[0] == recorded else {PLAN_PROPERTY: written[0].to_json()}

        attempts(lambda: self._log.set_properties(wanted))
        return written[0]

    def _alter(self, change: str) -> None:
        attempts(lambda: self._session.sql(f"ALTER TABLE {self._sql_name} {change}"), admit=self._admitted)

    @_in_session
    def recorded_batch(self) -> int | None:
        """The newest batch whose first part ``app_id`` committed; None when there is none, or no table."""
        newest = self._log.newest()
        return None if newest is None else newest.recorded(self.app_id)

    @_in_session
    def landings_of(self, batch_id: int) -> list[tuple[Mapping[str, Any], Landed]]:
        """What the commits of batch ``batch_id`` say, as `land` was given it, and what each did; none where another
        batch is the newest that is recorded."""
        newest = self._log.newest()
        if newest is None:
            return []
        parts = [i for i in (self.app_id, f"{self.app_id}{PART_READS}") if newest.recorded(i) == batch_id]
        marks = self._guard.landings(parts, batch_id, newest.version, _WRITES)
        return [(mark["metadata"], Landed.of(commit, mark.get("found"))) for mark, commit in marks]

    def version(self) -> int:
        """The table's newest version. Raises `LandingError` when there is no table."""
        return self._existing().version

    @_in_session
    def is_empty(self) -> bool:
        """Whether the table holds no row (also when there is no table)."""
        newest = self._log.newest()
        return newest is None or newest.files == 0 or self._rows().isEmpty()

    @_in_session
    def max_key(self, after: str | None = None, upto: str | None = None) -> str | None:
        """The greatest ``_key`` with ``after < _key <= upto``, None leaving an end open; None for no row."""
        rows = self._rows()
        if after is not None:
            rows = rows.where(F.col(KEY) > F.lit(after))
        if upto is not None:
            rows = rows.where(F.col(KEY) <= F.lit(upto))
        found = rows.agg(F.max(KEY)).first()
        return None if found is None else found[0]

    @_in_session
    def keys(self, ranges: Sequence[Range] | None) -> DataFrame:
        """The ``_key`` of each row that a delete would still change, or of those in ``ranges`` alone. Where deleted
        rows stay these are the live ones; elsewhere those that are marked, from a time when they stayed, too."""
        rows = self._rows(live_only=self._further.configured.soft)
        return rows if ranges is None else rows.where(state_merge.within(KEY, ranges))

    @_in_session
    def land(
        self,
        source: DataFrame | RowsInFiles | None,
        *,
        batch_id: int,
        metadata: Mapping[str, Any],
        how: How,
        key_ranges: Sequence[Range] | None,
        known: Known = NOTHING_KNOWN,
        part: Part = "batch",
        added: DataFrame | None = None,
        new: Sequence[NewFile] | None = None,
        reads: DataFrame | Sequence[NewFile] | None = None,
        rewrite: bool = False,
        emptied_at: int | None = None,
    ) -> Landed:
        """Write the rows of batch ``batch_id`` in one commit, with ``metadata`` (JSON values) in it. Batches must
        ascend: one that is not above the newest recorded is left out, and `Landed.wrote` says so.

        ``source`` has exactly the table's columns, in any order (or lies in files of the table), and one row a
        ``_key``. ``how``: "merge" deletes where ``_op`` is "d", updates and inserts; where a key has several rows in
        the table (two engines have landed there) it leaves one, unless Delta's own MERGE has to write. "insert" only
        inserts, and leaves the rows of known keys as they are. "append" asks nothing: its keys are proven new, and are
        none of the batch's deletes. "replace" merges, and deletes every row whose key the source lacks. ``key_ranges``
        hold all keys of the source (`streaming.keys.ranges`); None searches the whole table. ``known``: what the caller
        promises of the source. ``part``: "reads" lands after the batch's first part, which has landed; `recorded_batch`
        does not tell of it. ``added``: rows whose keys are neither in the table nor in the source, inserted beside a
        merge where `takes_added` says so, or else merged with the source. ``new``: such rows, or all of an append, that
        lie in the table's folder as files. ``reads``: further rows of a merge, or such files, whose keys the source
        lacks, written only where they differ from the table's (with ``rewrite`` whatever it has); there need be no
        ``source`` then. ``emptied_at``: the cluster time at which the rows went that "replace" deletes; needed where
        they stay, marked.

        Raises `LandingError` before anything is written when the source does not fit or the batch was landed by this
        object already, `LandingOvertaken` when another engine wrote it, and whatever Spark raises. A conflict with
        another writer (OPTIMIZE, ALTER TABLE, say) is tried again, some times.
        """
        if (part, batch_id) in self._landed_parts:
            raise LandingError(f"batch {batch_id} of {self.namespace} was landed already: one commit a batch")
        app_id = self.app_id if part == "batch" else f"{self.app_id}{PART_READS}"
        before = self._admitted()
        if before.has_batch(app_id, batch_id):
            return Landed(False, before.version)
        token = uuid.uuid4().hex
        user_metadata = self._guard.marking(token, app_id, batch_id, metadata)
        compared = None if reads is None else to_compare(reads, self.layout, self._plan_of(before), rewrite)
        whole = Source(source, key_ranges, known, compared)
        stays = self._further.configured.soft
        soft = self._further.soft_deletes(before.schema, emptied_at) if stays else None
        landing = Landing(how, whole, Batch(app_id, batch_id, user_metadata), added, soft, new)
        landed = self._landed(landing, token, before.version)
        # Batches ascend, so only this one's parts can come again.
        self._landed_parts = {p for p in self._landed_parts if p[1] == batch_id} | {(part, batch_id)}
        return landed

    def _landed(self, landing: Landing, token: str, before: int) -> Landed:
        """Write it, and find its commit behind the version ``before`` by the ``token`` in it: also where the storage's
        answer was lost, so that another attempt met it."""
        first, again = (partial(self._write, landing, tried=tried) for tried in (False, True))
        app_id, batch_id = landing.batch.app_id, landing.batch.batch_id
        met: ConcurrentTransactionException | None = None
        with state_merge.transaction(self._session, app_id, batch_id, landing.batch.user_metadata):
            try:
                attempts(first, again, admit=self._admitted)
            except ConcurrentTransactionException as error:
                met = error
        commit = self._guard.landing(token, before, self._existing().version, _WRITES)
        if commit is None:
            self._writing.files = None
            if met is not None:
                raise met
            self._admitted()
            said = f"batch {batch_id} of {self.namespace} was not written by this engine: another one, with the same"
            raise LandingOvertaken(f"{said} application id {app_id!r}, was quicker. Stop one of the two")
        return Landed.of(commit, (landing_mark(commit) or {}).get("found"))

    def _write(self, landing: Landing, *, tried: bool) -> None:
        """Write rows as they fit the table of this moment."""
        table, source = self._existing(), landing.source
        fit = partial(self._fitting, table=table.schema, ours=self._ours(table))
        rows = source.rows if source.frame is None else fit(source.frame)
        if isinstance(rows, RowsInFiles):
            self._columns(rows.schema, table.schema, self._ours(table))
        reads = source.reads and source.reads.fitted(fit)
        added = None if landing.added is None else fit(landing.added)
        fitted = replace(landing, source=replace(source, rows=rows, reads=reads), added=added)
        try:
            self._writing.write(fitted, table, tried=tried)
        except AnalysisException as error:
            if self._existing().schema == table.schema:
                raise
            raise Altered(f"somebody has altered the table of {self.namespace}") from error

    @property
    def written_by(self) -> Choice | None:
        """How the newest landing was written, and why so; None before the first."""
        return self._writing.chosen

    @property
    def named(self) -> frozenset[str] | None:
        """The files of READs that the newest landing has added; None where that is not known."""
        return self._writing.named

    @_in_session
    def takes_added(self, known: Known) -> bool:
        """Whether `land` would merge such a source so that it takes ``added`` rows beside it."""
        return self._writing.choose("merge", known, self._existing()).by is By.UPSERT

    @_in_session
    def takes_files(self) -> bool:
        """Whether `land` takes rows as files without reading them: rows have no columns but the plan's and ours, and
        the table asks its writers to check nothing."""
        table = self._existing()
        return not self._further.of(table.schema) and takes_files(table)

    @_in_session
    def marks_rows(self) -> bool:
        """Whether rows may be marked as gone, of files that are added too."""
        return has_vectors(self._existing())

    @_in_session
    def folder(self) -> TableFolder:
        """The table's folder, for files to be written there. Raises `OutOfReach` where only the JVM reaches it."""
        self._guard.files_from(self._existing())
        return self._log.folder()

    @_in_session
    def try_writing(self, folder: TableFolder) -> None:
        """Write into the table's ``folder`` as workers and as Spark do. Raises `OutOfReach` where workers cannot."""
        cores = self._session.sparkContext.defaultParallelism
        self._log.try_writing(folder, [trial_name() for _ in range(cores)])

    @_in_session
    def leftovers(self, folder: TableFolder) -> set[str]:
        """Files that earlier runs have written into the table's ``folder``, and no commit has added."""
        found = leftovers(folder, time.time())
        return found - self._existing().paths(self._session) if found else found

    @_in_session
    def clear_leftovers(self, folder: TableFolder) -> None:
        """Remove `leftovers`, where there are some. Not while a run of this engine has such files in flight. A commit
        of its own comes first, so that an earlier run which does not know that it is over cannot add what is removed:
        its commit is a conflict, and it looks again."""
        name = uuid.uuid4().hex
        self._log.set_properties(lambda _: {CLEARED_PROPERTY: name})
        self._guard.cleared(name)
        discard_files(folder, self.leftovers(folder))

    def _ours(self, table: Snapshot) -> StructType:
        """The columns that the plan of this version knows."""
        return table_schema(self.layout, self._plan_of(table))

    def _fitting(self, source: DataFrame, table: StructType, ours: StructType) -> DataFrame:
        """The source with its columns in the order of the ``table``, whose plan knows ``ours``; raises `LandingError`
        for other columns."""
        source = self._further.filled(source, table)
        return source.select(*self._columns(source.schema, table, ours))

    def _columns(self, schema: StructType, table: StructType, ours: StructType) -> list[Column]:
        """The columns of rows with this ``schema``, as `_fitting` has them."""
        try:
            return fitting(schema, table, with_fields(ours, self._further.of(table)))
        except ValueError as misfit:
            raise LandingError(
                f"the rows for {self.namespace} do not fit its table: {misfit}. Evolve the table first"
            ) from misfit

    def _rows(self, *, live_only: bool = False) -> DataFrame:
        rows = self._session.read.format("delta").load(self.path)
        return (live(rows) if live_only else rows).select(KEY)

    def _admitted(self) -> Snapshot:
        """The newest version of the table, which is this engine's, and the one of before."""
        self._guard.admit(self._log.newest())
        return self._existing()

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
        plan: TablePlan = self.layout.plan_from_json(text)
        return plan
