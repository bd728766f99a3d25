"""Landing one collection's share of a micro-batch: its streamed events and the READs of closing windows, one commit.

The rule (docs/ARCHITECTURE.md, rules 1 to 3; in plain Python: `snapshotter.core.collisions.commit_rows`): one row a
key, the latest streamed event that lands something, else the READ of the window that closes. Here it is a Spark plan:

    rows  = latest event of each key, decoded                       (checkpointed: it is asked for more than once)
    reads = READs of closing windows  anti-join  keys streamed after their window's low watermark
    MERGE (rows ∪ reads), or append reads where every key is proven new

Where the batch emptied the collection (`core.namespace_changes`), the MERGE deletes every row that its source has not:
still one commit, in which the old documents go and those that follow come.

No key has two rows: events are compacted by key, READs of one commit come from disjoint ranges, and a READ whose key
has an event row in this batch is superseded, or (an event at or before the low watermark) gives way to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from snapshotter.chunk_reader import Buffer, Trailer, free_checkpoint
from snapshotter.core.chunks import KeyRange
from snapshotter.core.effects import Closing, LandBatch
from snapshotter.core.inputs import Outcome
from snapshotter.core.window import WindowId
from snapshotter.tables import OpenTable
from streaming.columns import TablePlan
from streaming.key_ranges import Range, cover
from streaming.namespaces import Namespace
from streaming.reshape import reshape
from streaming.state_merge import Known
from streaming.streamed_rows import EVENT_COLUMNS, decode_latest, row_schema

KEYS_SCHEMA = pa.schema([pa.field("_key", pa.string()), pa.field("_cluster_time", pa.int64())])
_SPANS = 4_096
_LOST_BLOCK = ("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "Checkpoint block")


class BuffersGone(Exception):
    """Blocks of a READ buffer died with their executor: the windows that held it must be read again."""

    def __init__(self, windows: frozenset[WindowId]) -> None:
        super().__init__(
            f"READ buffers of {', '.join(map(str, sorted(windows)))} are gone with their executor"
        )
        self.windows = windows


@dataclass(frozen=True, slots=True)
class TableBatch:
    """What lands in one table: ``events`` are raw rows of the source (None: there are none), which came in so many
    ``shares``. Where the batch emptied the collection they are those that follow, and nothing else stays in the table.
    """

    namespace: Namespace
    landing: LandBatch
    events: DataFrame | None
    closings: tuple[Closing, ...]
    buffers: Mapping[WindowId, Buffer]
    kept: Sequence[pa.Table]
    metadata: Mapping[str, Any]
    shares: int = 1

    @property
    def emptied(self) -> bool:
        return self.namespace in self.landing.emptied


@dataclass(slots=True)
class LandedTable:
    """``keys``: key and cluster time of every event of the batch that landed, for windows that close later."""

    namespace: Namespace
    keys: pa.Table
    outcomes: dict[WindowId, Outcome] = field(default_factory=dict)
    events: int = 0
    wrote: bool = False


def land_table(spark: SparkSession, opened: OpenTable, batch: TableBatch) -> LandedTable:
    """One commit, or none if nothing is left to write. Raises ``BuffersGone`` before anything is written."""
    rows: DataFrame | None = None
    keys = KEYS_SCHEMA.empty_table()
    try:
        if batch.events is not None:
            rows = _decoded(opened, batch)
            keys = _keys_of(rows)
        landed = LandedTable(batch.namespace, keys, events=keys.num_rows)
        recorded = opened.table.recorded_batch()
        if recorded is not None and recorded >= batch.landing.batch_id:
            return landed
        kept = pa.concat_tables([*batch.kept, keys])
        reads = _reads(
            spark, opened.grow(TablePlan()), batch, pa.concat_tables([*batch.kept, _always_newer(keys)])
        )
        if reads is None and keys.num_rows == 0 and not batch.emptied:
            landed.outcomes = {c.window.id: Outcome(0, c.window.rows) for c in batch.closings}
            return landed
        written = rows if keys.num_rows or batch.emptied else None
        return _commit(opened, batch, written, reads, kept, landed)
    except Exception as error:
        if batch.closings and any(mark in str(error) for mark in _LOST_BLOCK):
            raise BuffersGone(frozenset(c.window.id for c in batch.closings)) from error
        raise
    finally:
        if rows is not None:
            free_checkpoint(rows)


def _decoded(opened: OpenTable, batch: TableBatch) -> DataFrame:
    """The batch's rows under a plan that knows all of their fields: the table grows first if it must."""
    assert batch.events is not None
    plan = opened.grow(TablePlan())
    events = batch.events.select(*EVENT_COLUMNS)
    if batch.shares > 1:
        events = events.repartition(batch.shares, "_key")  # the events of a key may lie in several shares
    while True:
        frame = events.mapInArrow(decode_latest(plan), row_schema(plan))
        frame = frame.localCheckpoint(True, StorageLevel.MEMORY_AND_DISK)
        grown = plan
        for (text,) in frame.where("_trailer is not null").select("_trailer").collect():
            grown = grown.merge(TablePlan.from_json(text))
        if grown == plan:
            return frame
        free_checkpoint(frame)
        plan = opened.grow(grown)


def _table_rows(rows: DataFrame) -> DataFrame:
    return rows.where("_trailer is null").drop("_trailer")


def _keys_of(rows: DataFrame) -> pa.Table:
    table = _table_rows(rows).select("_key", "_cluster_time").toArrow()
    return table.cast(KEYS_SCHEMA)


def _always_newer(keys: pa.Table) -> pa.Table:
    """A key with an event row in this batch takes no READ beside it, whatever the times: one row a key."""
    times = pa.repeat(pa.scalar(2**63 - 1, pa.int64()), keys.num_rows)
    return pa.table([keys["_key"], times], schema=KEYS_SCHEMA)


def _reads(spark: SparkSession, plan: TablePlan, batch: TableBatch, kept: pa.Table) -> DataFrame | None:
    """READs of the closing windows that no kept event supersedes, as rows of the table."""
    lows = {c.window.id: c.low for c in batch.closings if not c.superseded}
    frames = []
    for buffer in {id(b): b for b in (batch.buffers[w] for w in lows)}.values():
        numbers = {w.number: low for w, low in lows.items() if batch.buffers[w] is buffer}
        frame = buffer.frame.where(F.col("_trailer").isNull() & F.col("_window").isin(list(numbers)))
        low = F.element_at(
            F.create_map(*[F.lit(x) for n, t in numbers.items() for x in (n, t.to_int())]), F.col("_window")
        )
        frame = frame.withColumn("_cluster_time", low).drop("_window", "_trailer")
        frame = frame.withColumn("_source_ts", F.timestamp_seconds(F.shiftright("_cluster_time", 32)))
        frames.append(reshape(frame.withColumn("_op", F.lit("r")), buffer.plan, plan))
    if not frames:
        return None
    reads = frames[0]
    for frame in frames[1:]:
        reads = reads.unionByName(frame)
    if kept.num_rows == 0:
        return reads
    # In one chunk: PySpark's createDataFrame drops every row behind an empty chunk of an Arrow table, without a word.
    streamed = spark.createDataFrame(
        kept.rename_columns(["_streamed_key", "_streamed_time"]).combine_chunks()
    )
    newer = (F.col("_key") == F.col("_streamed_key")) & (F.col("_streamed_time") > F.col("_cluster_time"))
    return reads.join(F.broadcast(streamed), newer, "left_anti")


def _commit(
    opened: OpenTable,
    batch: TableBatch,
    rows: DataFrame | None,
    reads: DataFrame | None,
    kept: pa.Table,
    landed: LandedTable,
) -> LandedTable:
    trailers = _trailers(batch)
    events = None if rows is None else _table_rows(rows)
    parts = [frame for frame in (events, reads) if frame is not None]
    source = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
    append = rows is None and all(_range_is_new(c, trailers[c.window.id], kept) for c in batch.closings)
    spans = [(t.min_key, t.max_key) for parts in trailers.values() for t in parts if t.min_key and t.max_key]
    ranges = cover([*_spans_of(landed.keys["_key"]), *spans])
    done = opened.table.land(
        source,
        batch_id=batch.landing.batch_id,
        metadata=dict(batch.metadata),
        how="replace" if batch.emptied else "append" if append else "merge",
        key_ranges=None if batch.emptied else ranges,
        known=_known(landed, batch, [t for parts in trailers.values() for t in parts]),
    )
    landed.wrote = done.wrote
    kept_rows = done.source_rows - landed.events
    # Disjoint windows share one commit: what it kept is told of their sum, so the earliest ones take the rows.
    for closing in batch.closings:
        read = closing.window.rows
        share = 0 if closing.superseded else min(read, max(0, kept_rows))
        kept_rows -= share
        landed.outcomes[closing.window.id] = Outcome(kept=share, dropped=read - share)
    return landed


def _known(landed: LandedTable, batch: TableBatch, parts: Sequence[Trailer]) -> Known:
    """That no key comes twice is looked at, not believed: the events' keys lie here, the READs' parts told their first
    and last, and no READ stands beside an event of its key. All of it is checkpointed."""
    rows = landed.events + sum(c.window.rows for c in batch.closings)
    apart = pc.count_distinct(landed.keys["_key"]).as_py() == landed.events and _disjoint(parts)
    return Known(rows=rows, distinct=apart, held=apart)


def _disjoint(parts: Sequence[Trailer]) -> bool:
    """Whether the READs of these parts are of distinct keys: ascending in each, and no two parts overlap."""
    spans = sorted((p.min_key, p.max_key) for p in parts if p.min_key is not None and p.max_key is not None)
    return all(p.unique for p in parts) and all(a[1] < b[0] for a, b in pairwise(spans))


def _spans_of(keys: pa.ChunkedArray) -> list[Range]:
    """Lowest and highest of each few neighbouring keys: ranges find the wide gaps among them as well, and sooner."""
    ordered = keys.take(pc.sort_indices(keys))
    step = max(1, len(ordered) // _SPANS)
    starts = range(0, len(ordered), step)
    lows = ordered.take(pa.array(starts, pa.int64()))
    highs = ordered.take(pa.array([min(at + step, len(ordered)) - 1 for at in starts], pa.int64()))
    return list(zip(lows.to_pylist(), highs.to_pylist(), strict=True))


def _trailers(batch: TableBatch) -> dict[WindowId, list[Trailer]]:
    return {
        c.window.id: [t for t in batch.buffers[c.window.id].trailers if t.number == c.window.id.number]
        for c in batch.closings
    }


def _range_is_new(closing: Closing, parts: Sequence[Trailer], kept: pa.Table) -> bool:
    """The proof that an append needs: nothing landed in the range ahead of the window, and no key was read twice."""
    target = closing.window.target
    if not closing.proven_new or not isinstance(target, KeyRange) or not all(t.unique for t in parts):
        return False
    ahead = pc.less_equal(kept["_cluster_time"], closing.low.to_int())
    if target.after is not None:
        ahead = pc.and_(ahead, pc.greater(kept["_key"], target.after.key))
    if target.upto is not None:
        ahead = pc.and_(ahead, pc.less_equal(kept["_key"], target.upto.key))
    return not pc.any(ahead, min_count=0).as_py()
