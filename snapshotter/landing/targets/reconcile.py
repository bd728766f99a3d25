"""Rows that are missing at source: a reconciling window found no document for them, so they are deleted.

The rule in plain Python is `tests.support.commit_rule.missing_at_source`. Here it is a Spark plan over the keys of the
table, in the targets of the windows that close:

    missing = keys of the table  anti-join  READs of closing windows  anti-join  keys streamed after the low watermark

A READ that an event superseded proves that the document was there, so all of them count; and so does a document that
cannot be processed. Where not even its key is known, nobody can tell which row is its own, so nothing is missing in its
window: it is read again another time. A key that has an event in this batch is left to it, whatever its time: one row a
key. Under a filter a window has read what matches, and the documents of the rows that the table had when it did; so all
that has streamed since it was registered is left to its events, whatever their times: a row that came later, by an
event of before, was not looked for.

The keys are checkpointed at once. So they are counted before anything is written, the MERGE that deletes them reads no
table while it writes it, and the literal ranges that prune it come from the keys themselves (rule 10). Usually there
are none, and the commit is what it would be without.

Nothing here relies on the order of ids: a window under a collation reads at least its target (whose ends cut the
collection alike in both orders), or the whole collection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from snapshotter.core.values.chunks import KeyList, KeyRange, span_of
from snapshotter.core.values.effects import Closing
from snapshotter.core.values.window import WindowId
from snapshotter.landing.frames import STREAMED, frame_of, not_superseded
from snapshotter.landing.stale_rows import id_part
from snapshotter.reading.read_buffer import Buffer, distinct
from streaming.decode.streamed_rows import table_schema
from streaming.delta.local_checkpoints import free_checkpoint, held
from streaming.delta.state_merge import ranges_of
from streaming.delta.state_table import StateTable
from streaming.keys.keys import ID_ALL, is_sharded, start_of
from streaming.keys.ranges import Range, cover
from streaming.layout import AnyLayout, TablePlan

_WINDOW = [("_window", pa.int32()), ("_low", pa.int64()), ("_rows_too", pa.bool_())]
_LIST = pa.schema([("_key", pa.string()), *_WINDOW])
_RANGE = pa.schema([("_least", pa.string()), ("_closed", pa.bool_()), ("_most", pa.string()), *_WINDOW])


@dataclass(frozen=True, slots=True)
class MissingRows:
    """Their keys, with their windows: held on the executors until they are freed. ``spans`` cover all of the keys."""

    held: DataFrame
    counts: Mapping[WindowId, int]
    spans: Sequence[Range]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def rows(self, layout: AnyLayout, plan: TablePlan) -> DataFrame:
        """Deletes, as rows of the table."""
        ours = {
            "_key": F.col("_key"),
            "_cluster_time": F.col("_low"),
            "_source_ts": F.timestamp_seconds(F.shiftright("_low", 32)),
            "_op": F.lit("d"),
        }
        nulls = {f.name: F.lit(None).cast(f.dataType) for f in table_schema(layout, plan).fields}
        return self.held.select(*[column.alias(name) for name, column in (nulls | ours).items()])

    def free(self) -> None:
        free_checkpoint(self.held)


def missing_rows(
    spark: SparkSession,
    table: StateTable,
    closings: Sequence[Closing],
    buffers: Mapping[WindowId, Buffer],
    streamed: pa.Table,
) -> MissingRows | None:
    """The rows of ``table`` that these closings delete; None if there are none. Whoever gets some must free them.

    ``buffers``: the READs of each window that closes. ``streamed`` (`KEYS_SCHEMA`): what has landed since the windows
    were registered, this batch's events among it; these have the highest time there is, so that they always win.
    """
    standing = [c for c in closings if not c.superseded]
    reconciling = [c for c in standing if c.reconcile and not _has_keyless(c, buffers)]
    if not reconciling:
        return None
    keys = _keys_within(spark, table, reconciling)
    keys = keys.join(_reads(spark, standing, buffers), "_key", "left_anti")
    if streamed.num_rows:
        newer = F.col("_rows_too") | (F.col("_streamed_time") > F.col("_low"))
        keys = not_superseded(keys, frame_of(spark, streamed.rename_columns(STREAMED)), newer)
    missing = held(keys.dropDuplicates(["_key"]))
    numbers = {c.window.id.number: c.window.id for c in reconciling}
    counts = {numbers[row[0]]: row[1] for row in missing.groupBy("_window").count().collect()}
    if not counts:
        free_checkpoint(missing)
        return None
    return MissingRows(missing, counts, ranges_of(missing))


def _keys_within(spark: SparkSession, table: StateTable, closings: Sequence[Closing]) -> DataFrame:
    """Keys of the table in the windows' targets, each with the number and the low watermark of its window."""
    listed: list[dict[str, object]] = []
    shared: list[dict[str, object]] = []
    ranges: list[dict[str, object]] = []
    spans: list[Range] = []
    bounded = True
    for closing in closings:
        target = closing.window.target
        number, rows_too = closing.window.id.number, closing.window.filter is not None
        window = {"_window": number, "_low": closing.low.to_int(), "_rows_too": rows_too}
        if isinstance(target, KeyList):
            for bound in target.ids:
                (shared if is_sharded(bound.key) else listed).append({"_key": bound.key, **window})
                spans.append((start_of(bound.key), bound.key))
            continue
        least, most = span_of(target)
        ranges.append({"_least": least, "_closed": _with_least(target), "_most": most, **window})
        bounded = bounded and most is not None
        spans += [(least, most)] if most is not None else []
    keys = table.keys(cover(spans) if bounded else None)
    parts = []
    if listed:
        parts.append(keys.join(F.broadcast(frame_of(spark, pa.Table.from_pylist(listed, _LIST))), "_key"))
    if shared:  # several documents may share an id: every key that begins with it counts
        ids = frame_of(spark, pa.Table.from_pylist(shared, _LIST)).withColumnRenamed("_key", "_end")
        ends = keys.withColumn("_end", F.concat(id_part("_key"), F.lit(ID_ALL)))
        parts.append(ends.join(F.broadcast(ids), "_end"))
    if ranges:
        inside = (F.col("_key") > F.col("_least")) | (F.col("_closed") & (F.col("_key") == F.col("_least")))
        inside = inside & (F.col("_most").isNull() | (F.col("_key") <= F.col("_most")))
        within = F.broadcast(frame_of(spark, pa.Table.from_pylist(ranges, _RANGE)))
        parts.append(keys.join(within, inside))
    return reduce(
        DataFrame.unionByName, [part.select("_key", "_window", "_low", "_rows_too") for part in parts]
    )


def _with_least(target: KeyRange) -> bool:
    return target.closed or target.after is None


def _has_keyless(closing: Closing, buffers: Mapping[WindowId, Buffer]) -> bool:
    """Whether a document was there of which nobody knows the key."""
    window = closing.window.id
    return any(trailer.keyless for trailer in buffers[window].trailers_of(window))


def _reads(spark: SparkSession, closings: Sequence[Closing], buffers: Mapping[WindowId, Buffer]) -> DataFrame:
    """The keys of all READs of these windows. A buffer may hold those of other windows too."""
    numbers = pa.table({"_window": pa.array([c.window.id.number for c in closings], pa.int32())})
    windows = F.broadcast(frame_of(spark, numbers))
    frames = [
        buffer.keys([c.window.id for c in closings]).join(windows, "_window", "left_semi").select("_key")
        for buffer in distinct(buffers[c.window.id] for c in closings)
    ]
    return reduce(DataFrame.unionByName, frames)
