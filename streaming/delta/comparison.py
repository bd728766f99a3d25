"""READs held against the rows that a table has: which of their keys it has, and which of its rows equal what was read.

A row that equals its document says so already: it is left as it is, so a sound table that is read again gets no new
files, and whoever follows the table's changes sees real ones only. Equality is that of rows as they land: every column
of ours, and what is rescued. When something was written, and by what operation, is no part of it; nor are columns that
somebody has added. It is taken from the table's own columns, never from a digest beside them, so a row that was altered
by hand differs. A row that is marked as deleted equals no document: a READ of its key brings it back.

Numbers are equal where Spark holds them equal: a negative zero is a zero, and NaN is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from streaming.column_names import CLUSTER_TIME, KEY, OP, SOURCE_TS
from streaming.decode.streamed_rows import table_schema
from streaming.delta.further_values import is_live, is_marked
from streaming.delta.local_checkpoints import free_checkpoint, held
from streaming.delta.new_files import rows_of
from streaming.delta.state_schema import of_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from streaming.delta.new_files import NewFile
    from streaming.layout import AnyLayout, TablePlan

_ROW, _READ, _SAME = "_snapshotter_row", "_snapshotter_read", "_snapshotter_same"
_LIVE = "_snapshotter_live"
_OF_THE_WRITE = frozenset({KEY, CLUSTER_TIME, SOURCE_TS, OP})


@dataclass(frozen=True, slots=True)
class Found:
    """What READs have found: how many live rows of the table they ``changed``, how many they left ``unchanged``, and
    how many that were marked as deleted they have ``revived``."""

    changed: int = 0
    unchanged: int = 0
    revived: int = 0

    def to_json(self) -> dict[str, int]:
        return {"changed": self.changed, "unchanged": self.unchanged, "revived": self.revived}

    @classmethod
    def from_json(cls, value: Mapping[str, int]) -> Found:
        return cls(value["changed"], value["unchanged"], value["revived"])

    @property
    def differing(self) -> int:
        """How many rows READs take the place of."""
        return self.changed + self.revived


NOTHING_FOUND = Found()


@dataclass(frozen=True, slots=True)
class Reads:
    """READs as rows of the table's columns, one a key, whose keys no other row of their landing has.

    ``ours``: the columns that the table's plan knows; only these are compared. ``rewrite``: what equals its row is
    written all the same, and counts as changed.
    """

    rows: DataFrame
    ours: StructType
    rewrite: bool = False

    def fitted(self, fit: Callable[[DataFrame], DataFrame]) -> Reads:
        """With the columns that the table has at this moment."""
        return replace(self, rows=fit(self.rows))


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """The same of READs that lie in ``files`` of the table's folder, in which those are marked that gave way.
    ``columns``: `Reads.ours` in Arrow, the key first, without our marks."""

    files: Sequence[NewFile]
    columns: pa.Schema
    ours: StructType
    rewrite: bool = False

    def fitted(self, _: Callable[[DataFrame], DataFrame]) -> ReadFiles:
        """What a file lacks is null in the table."""
        return self

    def read(self, session: SparkSession, folder: str, table: StructType) -> Reads:
        """They as rows of a ``table`` in this ``folder``, read in ``session``, for whoever takes no files."""
        return Reads(rows_of(session, folder, self.files, table), self.ours, self.rewrite)


def to_compare(
    reads: DataFrame | Sequence[NewFile], layout: AnyLayout, plan: TablePlan, rewrite: bool
) -> Reads | ReadFiles:
    """``reads``, rows or files, of a table of this ``layout`` and ``plan``; ``rewrite``: also what is equal."""
    ours = table_schema(layout, plan)
    if isinstance(reads, Sequence):
        return ReadFiles(reads, layout.arrow_schema(plan), ours, rewrite)
    return Reads(reads, ours, rewrite)


@dataclass(frozen=True, slots=True)
class Matches:
    """The table's rows under the READs' keys, on the executors until they are freed: the key, what else was asked for,
    and whether the READ equals the row."""

    frame: DataFrame
    reads: DataFrame
    found: Found

    @property
    def differing(self) -> DataFrame:
        """The table's rows that have to go, without what tells them apart."""
        return self.frame.where(~F.col(_SAME)).drop(_SAME, _LIVE)

    @property
    def to_write(self) -> DataFrame:
        """The READs that the table lacks, or has otherwise."""
        if not self.found.unchanged:
            return self.reads
        return self.reads.join(self.frame.where(_SAME).select(KEY), KEY, "left_anti")

    @property
    def all_equal(self) -> bool:
        """Whether nothing is left to write."""
        return not self.found.differing and self.to_write.isEmpty()

    def free(self) -> None:
        free_checkpoint(self.frame)


def matched(table: DataFrame, reads: Reads, *, few: bool, keep: Sequence[str] = ()) -> Matches:
    """Hold ``reads`` against the rows of ``table``, and keep these columns of it. ``few``: the READs fit every
    executor. Where the table has several rows of one key (two engines have landed there), none of them is equal."""
    equal = F.lit(False)
    alive = (is_live() if is_marked(table.schema) else F.lit(True)).alias(_LIVE)
    rows = table.select(KEY, *keep, alive)
    against = reads.rows.select(KEY)
    if not reads.rewrite:
        rows = table.select(KEY, *keep, alive, _compared(table, reads.ours).alias(_ROW))
        against = reads.rows.select(KEY, _compared(reads.rows, reads.ours).alias(_READ))
        equal = F.col(_LIVE) & F.col(_ROW).eqNullSafe(F.col(_READ))
    joined = rows.join(F.broadcast(against) if few else against, KEY)
    alone = F.count(F.lit(1)).over(Window.partitionBy(KEY)) == 1
    same = joined.select(KEY, *keep, _LIVE, equal.alias(_SAME))
    frame = held(same.select(KEY, *keep, _LIVE, (F.col(_SAME) & alone).alias(_SAME)))
    differs, lives = ~F.col(_SAME), F.col(_LIVE)
    changed, revived = (F.count_distinct(F.when(differs & one, F.col(KEY))) for one in (lives, ~lives))
    try:
        counts = frame.agg(changed, F.count_if(_SAME), revived).first()
    except BaseException:
        free_checkpoint(frame)
        raise
    return Matches(frame, reads.rows, Found(*(counts or (0, 0, 0))))


def _compared(frame: DataFrame, ours: StructType) -> Column:
    """All that is compared of a row, as one value."""
    columns = of_schema(frame.schema, ours, but=_OF_THE_WRITE)
    return F.struct(*columns) if columns else F.struct(F.lit(0))
