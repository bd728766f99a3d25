"""Rows by key into a state table by Delta's own MERGE; the session of a table's landings, and the source's guards.

A MERGE's source is guarded in its own plan, so that no row is written when a guard fails:

- two rows of one key fail it. (Delta refuses two matched ones for ever, and inserts two unmatched ones in
  silence.)
- a row whose key lies outside the literal ranges fails it: it would match nothing and be inserted beside its
  old row.

The first guard is a count over a window by key: its exchange and sort are those that the MERGE's own join
needs, and it evaluates the source once, where an aggregate beside it would evaluate it twice. It is left out
where the caller promises distinct keys (`Known`). An append has no such guard either: its caller has proven the
keys new and strictly ascending.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Literal, cast

from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from streaming.column_names import KEY, OP, literal, quoted
from streaming.delta.comparison import NOTHING_FOUND, Found, Reads, matched
from streaming.delta.delta_log import USER_METADATA, configured, record
from streaming.delta.further_values import is_live
from streaming.delta.row_writer import Batch, Source
from streaming.keys.ranges import RANGES_MAX, Range, cover

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from streaming.delta.further_values import SoftDeletes

_APP_ID = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"

_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"
DELETION_VECTORS = "spark.databricks.delta.merge.deletionVectors.persistent"
_CODEGEN = "spark.sql.codegen.factoryMode"
STATISTICS = "spark.databricks.delta.stats.collect"
_EXCLUDED = "spark.sql.adaptive.optimizer.excludedRules"
_DROPS_JOINS = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
_FEW_ROWS = 2_000

TIMES, MICROSECONDS = "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"
_PROBE = "_snapshotter_probe"

DUPLICATE = "snapshotter: two rows of one key in the source of a landing"
OUTSIDE = "snapshotter: a key outside the literal ranges of a landing"


def landing_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session of its own for one table: its settings and marks are seen by no other table's writes."""
    session = spark.newSession()
    cores = str(spark.sparkContext.defaultParallelism)
    defaults = {
        # With Spark's 200 and Delta's 50, small tables pay for empty tasks at every commit.
        "spark.sql.shuffle.partitions": cores,
        "spark.databricks.delta.snapshotPartitions": cores,
        # By the size of its files Spark takes the keys of a table for small, and would collect all of them on the
        # driver, twice a MERGE. Sizes seen while it runs are true; with them it may still hash the smaller side.
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "64m",
        # Where the table is empty, Spark drops the join, but not the stage that has begun to read the source for it.
        # Delta then counts the source by itself, and the stage's count may come on top: twice the "source rows".
        _EXCLUDED: _DROPS_JOINS,
        # Spark's own choice, INT96, is deprecated and has no statistics. Workers and the driver write microseconds.
        TIMES: MICROSECONDS,
    }
    set_unless_given(session, defaults)
    for name, value in settings.items():
        session.conf.set(name, value)
    excluded = session.conf.get(_EXCLUDED) or ""
    if _DROPS_JOINS not in excluded:
        session.conf.set(_EXCLUDED, f"{excluded},{_DROPS_JOINS}")
    return session


def session_of_few(spark: SparkSession) -> SparkSession:
    """A session of its own for a small table beside the engine's state: settings of landings do not reach it."""
    session = spark.newSession()
    session.conf.set("spark.databricks.delta.snapshotPartitions", "1")
    set_unless_given(session, {TIMES: MICROSECONDS})
    return session


def set_unless_given(session: SparkSession, settings: Mapping[str, str]) -> None:
    """Set those of ``settings`` that Spark was not started with: what somebody has chosen stays."""
    given = session.sparkContext.getConf()
    for name, value in settings.items():
        if not given.contains(name):
            session.conf.set(name, value)


def switched_on(session: SparkSession, name: str) -> bool:
    """Whether a switch that is on by default has not been turned off."""
    return (session.conf.get(name, None) or "true").lower() == "true"


def transaction(
    session: SparkSession, app_id: str, batch_id: int, user_metadata: str
) -> AbstractContextManager[None]:
    """Within, commits of ``session`` record batch ``batch_id`` of ``app_id`` and carry ``user_metadata``.

    Delta skips, in silence, a batch that is not above the newest one recorded for ``app_id``.
    """
    return configured(session, {_APP_ID: app_id, _VERSION: str(batch_id), USER_METADATA: user_metadata})


@dataclass(frozen=True, slots=True)
class DeltaMerge:
    """Delta's own commands, on the table at ``path``: a `RowWriter` for every table.

    ``vectors`` marks old rows in deletion vectors, half of a MERGE's jobs; without, the files that hold them are
    rewritten. ``how``: what `merge` does besides (`state_table.StateTable.land`): "insert" leaves rows of known keys as
    they are, "replace" also deletes rows whose keys the source has not. ``soft``: how rows of deleted documents are
    kept, if they are.
    """

    session: SparkSession
    path: str
    vectors: bool = True
    how: Literal["merge", "insert", "replace"] = "merge"
    soft: SoftDeletes | None = None

    def merge(self, source: Source, batch: Batch) -> Found:
        """As `RowWriter.merge`; the batch's marks are the session's.

        READs are held against the version before the MERGE, outside of its transaction: a writer that comes between
        the two is no conflict, but its commit is found by the look behind each landing (`table_guard`).

        In each task over Delta's log Spark writes some hundred lines of Java, only to find their class in its cache:
        half of the task's time. A few rows go quicker without; for many rows that Java is worth it (bench/README.md).
        """
        known, replaces, updates = source.known, self.how == "replace", self.how != "insert"
        ranges = None if replaces else source.ranges
        condition = F.col(f"t.{KEY}") == F.col(f"s.{KEY}")
        if ranges is not None:
            condition = condition & within(f"t.{KEY}", ranges)
        rows, found, free = self._rows_of(source)
        if rows is None:  # a MERGE of nothing would leave an empty file behind
            free()
            with configured(self.session, {USER_METADATA: batch.said(found)}):
                record(self.session, self.path, batch.app_id, batch.batch_id)
            return found
        rows = guarded(rows, ranges, distinct=known.distinct)
        if known.few and not known.large and self.how == "merge":
            rows = F.broadcast(rows)
        few = not self.vectors and known.rows is not None and known.rows <= _FEW_ROWS
        settings = {
            _MATERIALIZE: "none" if known.held else "auto",
            DELETION_VECTORS: str(self.vectors).lower(),
            _CODEGEN: "NO_CODEGEN" if few else "FALLBACK",
            USER_METADATA: batch.said(found),
        }
        builder = DeltaTable.forPath(self.session, self.path).alias("t").merge(rows.alias("s"), condition)
        deletes = F.col(f"s.{OP}") == "d"
        if updates:
            builder = self._deleting(builder, deletes).whenMatchedUpdateAll()
        if replaces:
            builder = self._emptying(builder)
        with configured(self.session, settings):
            try:
                builder.whenNotMatchedInsertAll(~deletes).execute()
            finally:
                free()
        return found

    def _deleting(self, builder: DeltaMergeBuilder, deletes: Column) -> DeltaMergeBuilder:
        """What becomes of rows that the source deletes."""
        if self.soft is None:
            return builder.whenMatchedDelete(deletes)
        marks = {quoted(name): F.col(f"s.{quoted(name)}") for name in self.soft.columns}
        return builder.whenMatchedUpdate(deletes, cast("Any", marks))

    def _emptying(self, builder: DeltaMergeBuilder) -> DeltaMergeBuilder:
        """What becomes of rows whose keys the source has not. Those that are marked already are left alone."""
        if self.soft is None:
            return builder.whenNotMatchedBySourceDelete()
        assert self.soft.emptied, "who replaces knows when the rows went"
        marks = {quoted(name): value for name, value in self.soft.emptied.items()}
        return builder.whenNotMatchedBySourceUpdate(is_live("t."), cast("Any", marks))

    def _rows_of(self, source: Source) -> tuple[DataFrame | None, Found, Callable[[], None]]:
        """What is to be merged (None: nothing); what its READs have found; and what frees the frame afterwards."""
        if source.reads is None:
            assert source.frame is not None, "a source has rows, or READs"
            return source.frame, NOTHING_FOUND, lambda: None
        assert isinstance(source.reads, Reads), "whoever takes no files is given rows"
        table = self.session.read.format("delta").load(self.path)
        if source.ranges is not None:
            table = table.where(within(KEY, source.ranges))
        matches = matched(table, source.reads, few=source.few)
        if source.frame is None:
            return None if matches.all_equal else matches.to_write, matches.found, matches.free
        return source.frame.unionByName(matches.to_write), matches.found, matches.free

    def append(self, source: Source, batch: Batch) -> None:
        """As `RowWriter.append`."""
        assert source.frame is not None, "an append has rows"
        append(self.path, source.frame, batch.app_id, batch.batch_id, batch.user_metadata)


def append(
    path: str, source: DataFrame, app_id: str, batch_id: int, user_metadata: str, *, grows: bool = False
) -> None:
    """Append ``source`` to the table at ``path``, as batch ``batch_id`` of ``app_id``, with ``user_metadata``. It
    ``grows``: columns that the table lacks are added to it.

    Its writer is bound to the source's own session, not to the table's, so the marks are options of the write.
    """
    writer = source.write.format("delta").mode("append").option("userMetadata", user_metadata)
    writer = writer.option("mergeSchema", "true") if grows else writer
    writer.option("txnAppId", app_id).option("txnVersion", batch_id).save(path)


def guarded(source: DataFrame, ranges: Sequence[Range] | None, *, distinct: bool = False) -> DataFrame:
    """The source, failing in the middle of whatever reads it where a guard of the module is broken.

    ``ranges``: every key must lie in one of them; None: anywhere. ``distinct``: no key comes twice, so that is not
    checked. Both guards look at a column that Spark cannot know before it has the row. Without it Spark would move
    them below the source's own filters and joins, and rows that the source leaves out would fail them.
    """
    if distinct and ranges is None:
        return source
    count = F.count(F.lit(1)).over(Window.partitionBy(KEY))
    probed = source.withColumn(_PROBE, F.monotonically_increasing_id() if distinct else count)
    wrong = F.lit(False) if ranges is None else ~within(KEY, ranges)
    guard = F.when((F.col(_PROBE) >= 0) & wrong, _raise(OUTSIDE))
    if not distinct:
        guard = guard.when(F.col(_PROBE) > 1, _raise(DUPLICATE))
    return probed.where(guard.otherwise(F.col(_PROBE) >= 0)).drop(_PROBE)


def ranges_of(source: DataFrame, limit: int = RANGES_MAX) -> tuple[Range, ...]:
    """Ranges that hold the keys of a source, from two passes over its keys; () when it is empty.

    The first pass finds what all keys begin with, the second the least and the greatest key of each
    bucket of two characters more. Cache the source first.
    """
    least, greatest = source.agg(F.min(KEY), F.max(KEY)).first() or (None, None)
    if least is None or greatest is None:
        return ()
    shared = len(_common_prefix(least, greatest))
    bucket = F.substring(F.col(KEY), 1, shared + 2)
    rows = source.groupBy(bucket).agg(F.min(KEY), F.max(KEY)).collect()
    return cover([(row[1], row[2]) for row in rows], limit)


def within(key: str, ranges: Sequence[Range]) -> Column:
    """Whether the column ``key`` lies in one of the literal ranges, so that files without any such key are never
    opened."""
    # Nothing but comparisons: of a condition that no optimizer has seen, Delta skips no file if a literal is one side.
    # As text it is one call into the JVM; as columns a dozen for each range.
    ends = [(literal(low), literal(high)) for low, high in ranges]
    if ends and all(low and high for low, high in ends):
        return F.expr(" OR ".join(f"({key} >= {low} AND {key} <= {high})" for low, high in ends))
    parts = [F.col(key).between(F.lit(low), F.lit(high)) for low, high in ranges]
    return reduce(or_, parts) if parts else F.lit(False)


def _raise(message: str) -> Column:
    return F.raise_error(F.concat(F.lit(f"{message}: "), F.col(KEY))).cast("boolean")


def _common_prefix(left: str, right: str) -> str:
    length = next(
        (at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )
    return left[:length]
