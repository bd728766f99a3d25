"""How a landing gets into a state table: by which writer (`streaming.delta.row_writer.choose`), and what is done
instead where somebody else was quicker, or has altered the table meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streaming.delta import state_merge
from streaming.delta.comparison import NOTHING_FOUND, Found, ReadFiles
from streaming.delta.file_keys import KEPT, FileKeys
from streaming.delta.new_files import NewFile, rows_of
from streaming.delta.row_writer import (
    NOTHING_KNOWN,
    Batch,
    By,
    Choice,
    How,
    Known,
    RowsInFiles,
    Source,
    choose,
)
from streaming.delta.state_merge import DeltaMerge
from streaming.delta.state_upsert import Upsert
from streaming.delta.table_demands import Unsupported, has_vectors, unsupported
from streaming.delta.table_properties import ANY, READER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streaming.delta.further_values import SoftDeletes
    from streaming.delta.snapshot import Snapshot
    from streaming.delta.table_files import TableFiles
    from streaming.delta.table_guard import TableGuard

_SMALL_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Landing:
    """What `streaming.delta.state_table.StateTable.land` was asked for. ``added``: rows beside the source's; ``new``:
    such rows, or those of an append, as files; ``soft``: how rows of deleted documents are kept, if they are."""

    how: How
    source: Source
    batch: Batch
    added: DataFrame | None = None
    soft: SoftDeletes | None = None
    new: Sequence[NewFile] | None = None

    @property
    def adds(self) -> bool:
        """Whether rows that are proven new come beside the source."""
        return self.how != "append" and (self.added is not None or self.new is not None)


class Writing:
    """Writes landings into the table at ``path``, in the table's own ``session``.

    ``guard`` is asked about each version that our own writer begins at. ``files``: the table's, as of some version, if
    they are known; ``kept``: keys of files that the driver has, None where Spark is to look for old rows; ``chosen``:
    how the newest landing was written, and ``named``: which files of READs it has added, None where that is not known.
    ``off``: the Spark setting that switches our own writer off, if one does.
    """

    def __init__(self, session: SparkSession, path: str, guard: TableGuard) -> None:
        self._session = session
        self._path = path
        self._guard = guard
        # What an upsert has written it counts by the files' statistics.
        switches = state_merge.DELETION_VECTORS, state_merge.STATISTICS
        self.off = next((s for s in switches if not state_merge.switched_on(session, s)), None)
        self._vectors = self.off != state_merge.DELETION_VECTORS
        self.files: TableFiles | None = None
        self.kept: FileKeys | None = KEPT
        self.chosen: Choice | None = None
        self.named: frozenset[str] | None = None

    def choose(self, how: How, known: Known, table: Snapshot) -> Choice:
        """As `row_writer.choose`, of the table at this version. Changes nothing."""
        choice = choose(how, known, lambda: unsupported(table), self.off)
        if (
            choice.slower
            and self.off is None
            and table.table_property(READER) == ANY
            and not has_vectors(table)
        ):
            return Choice(choice.by, "the table is for any reader, so it has no deletion vectors")
        return choice

    def write(self, landing: Landing, table: Snapshot, *, tried: bool) -> Found:
        """Write ``landing``, whose rows fit the columns of ``table``; what its READs have found there. ``tried``:
        another writer was quicker, so keys are no longer proven new, and are looked for. Raises the conflicts of
        `row_writer.RowWriter`."""
        how, source, self.named = landing.how, landing.source, None
        if tried and (how == "append" or landing.adds):
            self.chosen = Choice(By.MERGE, "another writer committed first, so keys are no more proven new")
            return self._merge(landing, table, how="insert" if how == "append" else how)
        self.chosen = self.choose(how, source.known, table)
        if self.chosen.by is By.MERGE:
            return self._merge(landing, table, how=how)
        found = self._by_ourselves(landing)
        # It was altered since it was looked at, or takes no upserts: Delta's own command can, if more slowly.
        return self._by_delta(landing, table) if found is None else found

    def _by_ourselves(self, landing: Landing) -> Found | None:
        """Done, where the table is one for transactions of our own; else None."""
        if self.off is not None:
            return None
        beside = landing.added, landing.soft, landing.new
        upsert = Upsert(self._session, self._path, self._guard, self.files, *beside, kept=self.kept)
        try:
            if landing.how == "append":
                upsert.append(landing.source, landing.batch)
                return NOTHING_FOUND
            return upsert.merge(landing.source, landing.batch)
        except Unsupported:
            return None
        finally:
            self.files, self.named = upsert.files, upsert.named
            if upsert.slower is not None:
                self.chosen = Choice(By.UPSERT, upsert.slower, slower=True)

    def _by_delta(self, landing: Landing, table: Snapshot) -> Found:
        if landing.how == "append":
            landing = self._with_rows(landing, table)
            DeltaMerge(self._session, self._path).append(landing.source, landing.batch)
            self.named = frozenset()
            return NOTHING_FOUND
        self.chosen = Choice(By.MERGE, "the table was altered while the batch landed")
        source = replace(landing.source, known=NOTHING_KNOWN)
        return self._merge(replace(landing, source=source), table, how="merge")

    def _merge(self, landing: Landing, table: Snapshot, *, how: How) -> Found:
        landing = self._with_rows(landing, table)
        source = landing.source
        if landing.added is not None:  # what was said of the source does not hold for both
            assert source.frame is not None, "rows are added beside others"
            source = Source(source.frame.unionByName(landing.added), None, NOTHING_KNOWN)
        assert how != "append"
        # Without vectors files are written again: of small ones that is quicker without Java made for it.
        vectors = self._vectors and (has_vectors(table) or table.size > _SMALL_BYTES)
        merge = DeltaMerge(self._session, self._path, vectors, how, landing.soft)
        found, self.named = merge.merge(source, landing.batch), frozenset()
        return found

    def _with_rows(self, landing: Landing, table: Snapshot) -> Landing:
        """The landing with its files read as rows, for a writer that takes no files."""
        if isinstance(there := landing.source.rows, RowsInFiles):
            rows = there.read(self._session, self._path, table.schema)
            landing = replace(landing, source=replace(landing.source, rows=rows))
        if isinstance(files := landing.source.reads, ReadFiles):
            reads = files.read(self._session, self._path, table.schema)
            landing = replace(landing, source=replace(landing.source, reads=reads))
        if landing.new is None:
            return landing
        rows = rows_of(self._session, self._path, landing.new, table.schema)
        if landing.how == "append":
            return replace(landing, source=replace(landing.source, rows=rows), new=None)
        return replace(landing, added=rows, new=None)
