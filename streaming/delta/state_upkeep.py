"""Keeps the files of one table in order, beside its landings: `streaming.delta.upkeep_plan` says what is due.

Small files and files of many marked rows are written anew by transactions of our own (`streaming.delta.rewriting`).
Delta's OPTIMIZE would write a clustered table whole for a few new rows.

Invariants: a commit of upkeep changes no data (each of its actions says so), holds as many rows as it takes out,
records no batch and carries no landing's mark, so that neither a landing, nor the look at what others have done, nor
whoever streams from the table takes it for one. It says which engine made it. What it does to the files is known to the
next landing. Whoever calls `look`, `begin`, `finish`, `rewrite`, `retain`, `own_checkpoints` or `stand_upon_checkpoint`
holds the table's lock; `Begun.write` and what removes files or writes checkpoints needs none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from delta.tables import DeltaTable

from streaming.column_names import KEY
from streaming.delta.delta_log import USER_METADATA, TableLog, active, configured, metadata_text
from streaming.delta.file_index import DataFile
from streaming.delta.log_checkpoint import left_to_us
from streaming.delta.operations import Rewritten
from streaming.delta.rewriting import Begun, Copies
from streaming.delta.state_merge import landing_session, set_unless_given
from streaming.delta.table_demands import has_vectors, unsupported
from streaming.delta.table_files import TableFiles
from streaming.delta.table_properties import STATISTICS, USUAL
from streaming.delta.transaction import Transaction
from streaming.delta.upkeep_plan import COMMITS, SAFE_HOURS, FileFacts, Step, Thresholds
from streaming.json_text import from_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streaming.delta.snapshot import Snapshot
    from streaming.delta.state_writing import Writing
    from streaming.delta.table_guard import TableGuard

REMEMBERS = "delta.deletedFileRetentionDuration"
GOES_BACK = "delta.logRetentionDuration"
SET_BY_US = "snapshotter.retention"
"""What an engine has set the two to, so that it is not taken for somebody else's word."""
_HOUR_MS = 3_600_000
# Delta lets go of whole days of commits, and lists all of them for it.
_CLEAN_SECONDS = 6 * 3_600.0
_APART_SECONDS = 3_600.0
"""So long files are not tried again that could not be concatenated: what was wrong may have been the store."""
_FILES_MAX = 2_000
"""So many are looked at where the list of all of them stays with Delta: each costs calls into the JVM."""
# A file is removed a moment before the version without it is committed.
_MARGIN_MS = 60_000
_OF_VACUUM = {
    # Two commits that change nothing, each of which would make the next landing ask for its files again.
    "spark.databricks.delta.vacuum.logging.enabled": "false",
    # In jobs, which can be cancelled where an engine stops.
    "spark.databricks.delta.vacuum.parallelDelete.enabled": "true",
}
# As workers and the driver write: by itself Spark takes Snappy, and more bytes for the same (bench/README.md).
_OF_REWRITES = {"spark.sql.parquet.compression.codec": "zstd"}
# Delta lists a table's folder in as many tasks as this, which by default are 10,000.
_PARALLEL = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


class RetentionContradicted(Exception):
    """The table says for how long its removed files stay, and the engine was told otherwise. Nothing was removed."""


@dataclass(frozen=True, slots=True)
class TableLook:
    """A table's newest ``version``: how many files it has, of how many bytes, and how many ``commits`` a reader has to
    go through behind the log's newest checkpoint. ``files``: those that may need something; None where it was found
    without their list that none does. ``marked``: how many rows are marked, None where that is not known. ``lacks``:
    why its files are left as they are. ``table_id``: which table it is, as Delta tells them apart."""

    version: int
    count: int
    size_bytes: int
    commits: int
    files: tuple[FileFacts, ...] | None = None
    marked: int | None = None
    lacks: str | None = None
    table_id: str = ""


class StateUpkeep:
    """Of the table at ``path``, in the ``session`` of its landings. ``log`` and ``guard`` are that table's, ``writing``
    is how it is landed, and ``order`` how rows lie in its files. Not for use by several threads at once."""

    def __init__(
        self,
        session: SparkSession,
        path: str,
        log: TableLog,
        guard: TableGuard,
        writing: Writing,
        order: Sequence[str] = (KEY,),
    ) -> None:
        self._order = order
        self._session = session
        self._writes: SparkSession | None = None
        self._path = path
        self._log = log
        self._guard = guard
        self._writing = writing
        self._looked = -1
        self._cleaned: float | None = None
        self._add_of: Callable[[str], Any] | None = None
        self._apart: dict[str, float] = {}

    def look(self, limits: Thresholds) -> TableLook | None:
        """The table as it is, with the files of which ``limits`` may want something; None without a table."""
        with active(self._session):
            table = self._log.newest()
            if table is None:
                return None
            self._looked = table.version
            known = table.version, table.files, table.size, table.commits
            found = partial(TableLook, *known, table_id=table.table_id)
            self._add_of = None
            if (lacks := self._writing.off or unsupported(table, marks=False)) is not None:
                return found(lacks=lacks)
            marked = table.marked_rows
            if marked == 0 and table.files < limits.fewest(marks=False):
                return found(marked=0)
            files = self._told(table, (file.facts for file in self._files(table, limits)))
            counted = sum(file.marked for file in files) if len(files) == table.files else marked
            return found(files=files, marked=counted)

    def rewrite(self, step: Step) -> Rewritten | None:
        """All of a rewrite at once, for whoever holds the lock from beginning to end."""
        begun = self.begin(step)
        return None if begun is None else self.finish(begun, begun.write())

    def begin(self, step: Step) -> Begun | None:
        """A rewrite of files of the newest `look`; None where somebody has committed since. Raises `Unsupported` where
        the table is not one for our transactions any more, and what `TableGuard.admit` does."""
        # A session of its own: landings change the settings of theirs around each commit.
        if self._writes is None:
            self._writes = landing_session(self._session, {})
            set_unless_given(self._writes, _OF_REWRITES)
        session = self._writes
        with active(session):
            transaction = Transaction(session, self._path, None, self._writing.files, marks=False)
            self._guard.admit(transaction.begins)
            if transaction.begins.version != self._looked or self._add_of is None:
                return None
            of = transaction.told([self._add_of(file.path) for file in step.files])
            return Begun(step, transaction, of, self._order, self._writing.kept, self._apart)

    def finish(self, begun: Begun, copies: Copies, check: Callable[[], object] = lambda: None) -> Rewritten:
        """Commit the ``copies`` of what was ``begun``. ``check`` raises where that may no longer be. Raises `GaveWay`
        and what `begin` does, and then the copies are removed; and the conflicts of `delta_log.CONFLICTS`."""
        with active(self._session):
            try:
                check()
                transaction = Transaction(self._session, self._path, None, self._writing.files, marks=False)
                self._guard.admit(transaction.begins)
                done = begun.put_in_place(copies, transaction)
            except BaseException:
                begun.discard(copies)
                raise
            text = metadata_text({**self._guard.mark(), "upkeep": begun.step.kind.value})
            with configured(self._session, {USER_METADATA: text}):
                transaction.commit_rewrite(done)
            self._writing.files = transaction.known
            begun.know(copies)
            # As Delta's own commands do: else whoever keeps the table in Spark's cache goes on reading old files.
            self._session.catalog.refreshByPath(self._path)
            return done

    def retain(self, hours: int) -> None:
        """See to it that the table remembers its removed files for so many ``hours`` at least, for else they would be
        taken for such that never were the table's; and that its log goes back as far, or a week, and no further: older
        versions have lost their files, and Delta would keep a month of commits. What somebody has set is not overruled;
        what an engine has follows the option. Raises `RetentionContradicted`, and what `TableGuard.admit` does."""
        with active(self._session):
            table = self._log.newest()
            if table is None:
                return
            self._guard.admit(table)
            said, ours = table.table_property(REMEMBERS), table.table_property(SET_BY_US)
            if said not in (None, ours) and table.remembers_ms != hours * _HOUR_MS:
                raise RetentionContradicted(
                    f"the table at {self._path} says {REMEMBERS} = {said!r}, and delta.retention.hours is {hours}: "
                    "let the two say the same"
                )
            now = _interval(max(hours, SAFE_HOURS))
            wanted = {}
            sets = hours > SAFE_HOURS if said is None else said == ours
            if sets:
                wanted[REMEMBERS] = now
            # A week was set by engines that did not note what they set.
            if table.table_property(GOES_BACK) in (None, ours, _interval(SAFE_HOURS)):
                wanted[GOES_BACK] = now
            if wanted:
                wanted[SET_BY_US] = now
            if any(table.table_property(name) != value for name, value in wanted.items()):
                self._log.set_properties(lambda _: wanted, metadata_text(self._guard.mark()))

    def own_checkpoints(self) -> None:
        """See to it that landings write no checkpoint of the log, each of which takes longer than they do, where there
        are enough commits for one. Whoever has said how often there is to be one is not overruled. Raises what
        `TableGuard.admit` does."""
        with active(self._session):
            table = self._log.newest()
            if table is None or table.commits < COMMITS or left_to_us(table) is None:
                return
            self._guard.admit(table)
            self._log.set_properties(left_to_us, metadata_text(self._guard.mark()))

    def checkpoint(self) -> None:
        """Write a checkpoint of the log, and some times a day let go of what is older than the log is to be. Needs no
        lock: it is of a version that is there."""
        now = time.monotonic()
        cleans = self._cleaned is None or now - self._cleaned >= _CLEAN_SECONDS
        if cleans:
            self._cleaned = now  # also where it fails: a checkpoint does not depend on it
        with active(self._session):
            self._log.checkpoint(cleans=cleans)

    def stand_upon_checkpoint(self) -> None:
        """Let the version in memory stand upon it, which a landing in flight would take back."""
        with active(self._session):
            self._log.stand_upon_checkpoint()

    def vacuum(self, hours: int, *, check: bool = True) -> int | None:
        """Remove files that no version of the last ``hours`` has; the oldest version that can be read then, None
        without a table. With ``check`` Delta refuses less than it takes for safe. Needs no lock: nothing is committed,
        and what is in flight is younger. Of a table that was made since then no file is old enough, so Delta is not
        asked: its jobs take a core for some seconds."""
        with active(self._session):
            if self._log.newest() is None:
                return None
            before = int(time.time() * 1_000) - hours * _HOUR_MS
            if not self._log.begins_behind(before):
                self._vacuum(hours, check=check)
            return self._log.oldest_kept(before + _MARGIN_MS)

    def _vacuum(self, hours: int, *, check: bool) -> None:
        cores = str(self._session.sparkContext.defaultParallelism)
        settings = {**_OF_VACUUM, _PARALLEL: cores, _CHECK: str(check).lower()}
        session = landing_session(self._session, settings)
        with active(session):
            DeltaTable.forPath(session, self._path).vacuum(hours)

    def _told(self, table: Snapshot, files: Iterable[FileFacts]) -> tuple[FileFacts, ...]:
        """The same files; those that are not to be concatenated without the bounds of their keys."""
        now = time.monotonic()
        self._apart = {name: at for name, at in self._apart.items() if now - at < _APART_SECONDS}
        # A table without deletion vectors has a file written anew for each change in it: it is better off with small
        # ones. Statistics of other columns than ours would be lost.
        usual = table.table_property(STATISTICS) == USUAL.all_properties[STATISTICS]
        chains = self._order[0] == KEY and usual and has_vectors(table) and self._writing.kept is not None
        return tuple(
            file if chains and file.path not in self._apart else replace(file, low=None, high=None)
            for file in files
        )

    def _files(self, table: Snapshot, limits: Thresholds) -> Iterable[DataFile]:
        """The table's files; of too many some of those that are small or marked."""
        known = self._writing.files
        if known is None or not known.of_version(table):
            known = self._writing.files = TableFiles.of(table)
        if known is not None:
            self._add_of = known.add_of
            return known
        wanted = f"size < {limits.small_bytes} OR deletionVector IS NOT NULL"
        adds = {add.path(): add for add in table.files_where(wanted, _FILES_MAX)}
        self._add_of = adds.__getitem__
        files = (DataFile.of(from_text(add.json())["add"]) for add in adds.values())
        return [file for file in files if file.counted]


def _interval(hours: int) -> str:
    return f"interval {hours} hours"
