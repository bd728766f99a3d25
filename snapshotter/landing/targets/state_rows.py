"""One collection's contents of a batch as rows of its state table: streamed events, and the READs of closing windows.

The rule (docs/PROTOCOL.md, rules 1 to 3; in plain Python: `tests.support.commit_rule`): one row a
key, the latest streamed event that lands something, else the READ of the window that closes. Here it is a Spark plan:

    rows  = latest event of each key, decoded                       (checkpointed: it is asked for more than once)
    reads = READs of closing windows  anti-join  keys streamed after their window's low watermark
    MERGE (rows ∪ reads)

A READ that equals the row which the table has is left out of the MERGE, and counted (`streaming.delta.comparison`),
unless its request asks for every row to be written. READs that lie in files stay there, where the table takes files:
the commit adds these (`snapshotter.landing.targets.read_files`). Where the READs' ranges are proven new, their keys are
held against all that streamed since the windows were registered, and the reads are inserted beside a merge of the rows:
in the same commit, or (where the table takes no deletion vectors) in one behind it. Rows of events, too, are written by
those who decode them, where the table takes files (`snapshotter.landing.targets.event_files`).

Where the batch truncated the collection (`core.values.namespace_changes`), the MERGE deletes every row that its source
has not: still one commit, in which the old documents go and those that follow come. Where a window reconciles, rows
that are missing at source join the MERGE as deletes (`snapshotter.landing.targets.reconcile`).

No key has two rows: events are compacted by key, READs of one commit come from disjoint ranges, and a READ whose key
has an event row in this batch is superseded, or (an event at or before the low watermark) gives way to it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import reduce
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from snapshotter.core.rules.commit_interval import Cost
from snapshotter.core.values.chunks import KeyRange
from snapshotter.core.values.outcome import Outcome
from snapshotter.core.values.window import WindowId
from snapshotter.landing.frames import STREAMED, frame_of, not_superseded
from snapshotter.landing.incomplete import after_truncation
from snapshotter.landing.tables import OpenTable
from snapshotter.landing.targets.decoded_events import Said, decoded
from snapshotter.landing.targets.event_files import Events, files_for_events
from snapshotter.landing.targets.read_files import check_files, files_to_add, offer, withdraw
from snapshotter.landing.targets.reconcile import MissingRows, missing_rows
from snapshotter.landing.targets.side_by_side import naming_lost_buffers
from snapshotter.landing.targets.target import KEYS_SCHEMA, CollectionContents, Identity, LandedCollection
from snapshotter.landing.uncounted import SAID, outcomes, reading_of, said_of
from snapshotter.reading.read_buffer import Trailer, distinct
from streaming.delta.landed import Landed
from streaming.delta.local_checkpoints import free_checkpoint
from streaming.delta.new_files import NewFile
from streaming.delta.row_writer import Known, RowsInFiles
from streaming.delta.table_folder import TableFolder
from streaming.keys.ranges import Range, cover

NONE_DELETED: Mapping[WindowId, int] = {}
_SPANS = 4_096
_FILE_ROWS_MIN, _FILE_ROWS_MAX = 20_000, 250_000


def land_table(
    spark: SparkSession,
    opened: OpenTable,
    batch: CollectionContents,
    identity: Identity,
    *,
    fails: bool = True,
    said: Said | None = None,
    folder: TableFolder | None = None,
) -> LandedCollection:
    """Land one collection's part of a batch in its table: one commit or two, or none if nothing is left to write.

    ``opened`` must be locked for this landing; its table grows by the columns that ``batch`` needs. A batch that the
    table records under ``identity`` already is decoded and counted, not written. Raises ReadBuffersLost before any
    READ is written, and, if it ``fails`` at what cannot be processed, DocumentError before anything is. ``said``: what
    rows of events are to have of these, for further columns of the table. ``folder``: the table's, where workers may
    write files that a landing adds (`Tables.folder`).
    """
    began = time.monotonic()
    with ExitStack() as held_frames, naming_lost_buffers(batch):
        landed = _land(spark, opened, batch, identity, held_frames, folder, fails=fails, said=said)
        landed.write_seconds = time.monotonic() - began - landed.decode_seconds
        return landed


def _land(
    spark: SparkSession,
    opened: OpenTable,
    batch: CollectionContents,
    identity: Identity,
    held_frames: ExitStack,
    folder: TableFolder | None,
    *,
    fails: bool,
    said: Said | None,
) -> LandedCollection:
    """``held_frames`` frees what is checkpointed on the way, once it is written."""
    began = time.monotonic()
    recorded = opened.table.recorded_batch()
    there = recorded is not None and recorded >= identity.batch_id
    into = None if there or said is not None else files_for_events(opened, batch, folder)
    if into is not None:
        held_frames.callback(into.left)
    rows: DataFrame | None = None
    keys, deletes = KEYS_SCHEMA.empty_table(), 0
    events = events_to_land(batch)
    dead: dict[int, str] = {}
    if events is not None:
        rows, keys, deletes = decoded(opened, batch, events, dead, fails=fails, said=said, files=into)
        held_frames.callback(free_checkpoint, rows)
    landed = LandedCollection(
        batch.namespace, keys, events=keys.num_rows, deletes=deletes, size_bytes=batch.size_bytes
    )
    landed.decode_seconds, landed.dead = time.monotonic() - began, dead
    if there:  # windows that close later need the keys all the same
        return landed
    check_files(batch)
    if not keys.num_rows and batch.truncated is None:
        rows = None  # none of them lands, and nothing has to go
    appends = _appends(batch)
    streamed = pa.concat_tables([*batch.streamed, _always_newer(keys)])
    if appends:
        streamed = _always_newer(streamed)
    files = files_to_add(opened, batch, streamed, appends=appends)
    written = None if rows is None else Events.of(rows, landed, into)
    if files is not None and appends:
        return _add(opened, batch, identity, written, files, landed)
    reads = None if files is not None else _reads(spark, opened, batch, streamed)
    if reads is None and files is None and rows is None and batch.truncated is None:
        landed.outcomes = {c.window.id: Outcome(0, c.window.rows) for c in batch.closings}
        return landed
    missing: MissingRows | None = None
    if batch.truncated is None:  # else nothing of before stays
        missing = missing_rows(spark, opened.table, batch.closings, batch.buffers, streamed)
    if missing is not None:
        held_frames.callback(missing.free)
    if reads is not None and appends:
        return _append(opened, batch, identity, written, reads, landed)
    return _commit(opened, batch, identity, written, reads if files is None else files, missing, landed)


def events_to_land(batch: CollectionContents) -> DataFrame | None:
    """The events without those that a drop follows, and without those of keys that a first load has yet to read; None
    without any. Where the collection was truncated, something is to land even so: its rows go."""
    events = batch.events
    if events is None:
        return None
    if batch.truncated is not None:
        events = events.where(after_truncation(batch.truncated))
    if batch.unreached is None:
        return events
    ahead = F.col("_key") <= batch.unreached.upto
    if batch.unreached.after is not None:
        ahead = ahead & (F.col("_key") > batch.unreached.after)
    return events.where(~ahead)


def _always_newer(keys: pa.Table) -> pa.Table:
    """A READ of such a key gives way, whatever the times: it has an event row in this batch (one row a key), or, where
    READs are appended, a row in the table."""
    times = pa.repeat(pa.scalar(2**63 - 1, pa.int64()), keys.num_rows)
    return pa.table([keys["_key"], times], schema=KEYS_SCHEMA)


def _reads(
    spark: SparkSession, opened: OpenTable, batch: CollectionContents, kept: pa.Table
) -> DataFrame | None:
    """READs of the closing windows that no kept event supersedes, as rows of the table, in as many partitions as they
    are to be files."""
    lows = {c.window.id: c.low.to_int() for c in batch.closings if not c.superseded}
    if not lows:
        return None
    buffers = distinct(batch.buffers[w] for w in lows)
    layout, plan = opened.table.layout, opened.known_plan()
    frames = [layout.reshape(b.rows(lows), b.plan, plan) for b in buffers]
    # Joined, not written into the plan: with literals every window would be compiled anew. What a buffer holds of
    # windows that do not close here finds no partner.
    numbers = pa.array([window.number for window in lows], pa.int32())
    times = pa.table({"_window": numbers, "_cluster_time": pa.array(lows.values(), pa.int64())})
    windows = F.broadcast(frame_of(spark, times))
    reads = reduce(DataFrame.unionByName, frames).join(windows, "_window").drop("_window")
    reads = reads.withColumn("_source_ts", F.timestamp_seconds(F.shiftright("_cluster_time", 32)))
    reads = reads.withColumn("_op", F.lit("r"))
    files = _files(sum(c.window.rows for c in batch.closings), spark.sparkContext.defaultParallelism)
    if kept.num_rows == 0:
        return reads.coalesce(files)
    streamed = frame_of(spark, kept.rename_columns(STREAMED))
    return not_superseded(reads, streamed, F.col("_streamed_time") > F.col("_cluster_time")).coalesce(files)


def _commit(
    opened: OpenTable,
    batch: CollectionContents,
    identity: Identity,
    events: Events | None,
    reads: DataFrame | Mapping[WindowId, Sequence[NewFile]] | None,
    missing: MissingRows | None,
    landed: LandedCollection,
) -> LandedCollection:
    """Merge all of it in one commit. READs (rows, or files of each window) that equal their rows are not written,
    unless one of the windows wants all to be; where the batch truncates the collection, no row is left for them to
    equal."""
    files, seen = (None, None) if isinstance(reads, DataFrame) or reads is None else _whole(reads)
    rows = reads if isinstance(reads, DataFrame) else None
    compared = rows if batch.truncated is None else None
    beside_them = [rows] if rows is not None and compared is None else []
    trailers, spans = _trailers(batch), _spans_read(batch)
    added, beside = sum(c.window.rows for c in batch.closings), landed.events
    deleted: Mapping[WindowId, int] = {}
    if missing is not None:
        beside_them.append(missing.rows(opened.table.layout, opened.known_plan()))
        spans += missing.spans
        added += missing.total
        beside += missing.total
        deleted = missing.counts
    known = _known(landed, added, trailers, missing=missing.total if missing is not None else 0)
    said = said_of(batch.closings, deleted, beside, seen)
    offer(batch, files or ())
    read = compared if files is None else files
    done = _merge(opened, batch, identity, events, beside_them, spans, known, landed, said, reads=read)
    if done.wrote:
        withdraw(opened, batch, files or ())
    return _noting(batch, landed, done, beside, deleted, seen)


def _append(
    opened: OpenTable,
    batch: CollectionContents,
    identity: Identity,
    events: Events | None,
    reads: DataFrame | Sequence[NewFile],
    landed: LandedCollection,
    seen: Mapping[WindowId, int] | None = None,
) -> LandedCollection:
    """Insert READs that are proven new beside the events, or append them behind a MERGE of these. Between the two
    commits the table then lacks READs of ranges that a first load has not reached yet, and nothing else. ``reads`` are
    rows, or files of the table; ``seen``: how many of each window did not give way, where that is known."""
    rows, new = (reads, None) if isinstance(reads, DataFrame) else (None, reads)
    known = _known(landed, 0, [])
    if events is not None and opened.table.takes_added(known):
        said = said_of(batch.closings, {}, landed.events, seen)
        done = _merge(opened, batch, identity, events, [], [], known, landed, said, added=rows, new=new)
        return _noting(batch, landed, done, landed.events, seen=seen)
    if events is not None:
        _merge(opened, batch, identity, events, [], [], known, landed, None)
    done = opened.table.land(
        rows,
        batch_id=identity.batch_id,
        metadata=_metadata(batch, identity, said_of(batch.closings, {}, 0, seen)),
        how="append",
        key_ranges=cover(_spans_read(batch)),
        part="batch" if events is None else "reads",
        new=new,
    )
    return _noting(batch, landed, done, 0, seen=seen)


def _add(
    opened: OpenTable,
    batch: CollectionContents,
    identity: Identity,
    events: Events | None,
    files: Mapping[WindowId, Sequence[NewFile]],
    landed: LandedCollection,
) -> LandedCollection:
    """As `_append`, of READs that lie in the table's folder as ``files``. How many of each window are seen is known."""
    whole, seen = _whole(files)
    offer(batch, whole)
    landed = _append(opened, batch, identity, events, whole, landed, seen)
    if landed.wrote:
        withdraw(opened, batch, whole)
    return landed


def _whole(files: Mapping[WindowId, Sequence[NewFile]]) -> tuple[list[NewFile], dict[WindowId, int]]:
    """The files of which rows are seen, and how many rows of each window are."""
    whole = [file for some in files.values() for file in some if file.visible]
    return whole, {window: sum(file.visible for file in some) for window, some in files.items()}


def _files(rows: int, cores: int) -> int:
    """How many files READs are written to: work for every core, but none of a few rows, however small the chunks."""
    return max(1, rows // _FILE_ROWS_MAX, min(cores, rows // _FILE_ROWS_MIN))


def _noting(
    batch: CollectionContents,
    landed: LandedCollection,
    done: Landed,
    beside: int,
    deleted: Mapping[WindowId, int] = NONE_DELETED,
    seen: Mapping[WindowId, int] | None = None,
) -> LandedCollection:
    """``landed``, with what became of each window's READs in the commit that has ``done`` this. So many of its rows are
    ``beside`` READs; ``deleted``: rows that were missing at source, by windows; ``seen``: how many READs did not give
    way, where that is known of each."""
    landed.wrote = done.wrote
    readings = [reading_of(closing, deleted, seen) for closing in batch.closings]
    windows = (closing.window.id for closing in batch.closings)
    landed.outcomes |= zip(windows, outcomes(readings, beside, done), strict=True)
    return landed


def _merge(
    opened: OpenTable,
    batch: CollectionContents,
    identity: Identity,
    events: Events | None,
    others: Sequence[DataFrame],
    spans: Sequence[Range],
    known: Known,
    landed: LandedCollection,
    said: Mapping[str, Any] | None,
    *,
    added: DataFrame | None = None,
    new: Sequence[NewFile] | None = None,
    reads: DataFrame | Sequence[NewFile] | None = None,
) -> Landed:
    """The batch's first part: its events, and ``others``, whose keys, unlike the events', ``spans`` hold. ``reads`` are
    written where they differ from their rows. ``said``: of the READs; None where they follow in a commit of their own,
    which names their windows."""
    truncated, files = batch.truncated, None if events is None else events.files
    source = None if events is None else events.rows
    for other in others:
        source = other if source is None else _together(source, other)
    if files is not None:
        files.asked = True
    done = opened.table.land(
        source,
        batch_id=identity.batch_id,
        metadata=_metadata(batch, identity, said),
        how="replace" if truncated is not None else "merge",
        key_ranges=None if truncated is not None else cover([*_spans_of(landed.keys["_key"]), *spans]),
        known=known,
        added=added,
        new=new,
        reads=reads,
        rewrite=any(c.rewrite for c in batch.closings),
        emptied_at=None if truncated is None else truncated.time.to_int(),
    )
    if files is not None and done.wrote:
        files.settle(opened.table.named)
    landed.cost = Cost(done.changed_bytes, done.copied_bytes)
    return done


def _together(one: DataFrame | RowsInFiles, other: DataFrame) -> DataFrame | RowsInFiles:
    """Rows of both; what only some say, of their events, is null in the others. Beside rows in files there are only
    deletes."""
    if isinstance(one, RowsInFiles):
        return one.and_deletes(other)
    return one.unionByName(other, allowMissingColumns=True)


def _metadata(
    batch: CollectionContents, identity: Identity, said: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Of the commit: that of the batch, which windows' READs are in it, and what is ``said`` of these (None: none of
    them is)."""
    closing = [str(c.window.id) for c in batch.closings] if said is not None else []
    return {**identity.metadata, "windows": closing, **({SAID: said} if closing else {})}


def _known(landed: LandedCollection, reads: int, trailers: Sequence[Trailer], missing: int = 0) -> Known:
    """What is known of the rows to be written. That no key comes twice is checked, not assumed: the events' keys are at
    hand, the trailers of the READs name their first and last, and no READ stands beside an event of its key, nor a row
    that is missing at source beside either. All of it is checkpointed. ``reads``: how many rows there are beside the
    events'; ``missing`` of them are deletes."""
    apart = pc.count_distinct(landed.keys["_key"]).as_py() == landed.events and _disjoint(trailers)
    return Known(
        rows=landed.events + reads,
        distinct=apart,
        held=apart,
        deletes=landed.deletes + missing,
        size_bytes=landed.size_bytes + sum(trailer.size_bytes for trailer in trailers),
    )


def _disjoint(trailers: Sequence[Trailer]) -> bool:
    """Whether the READs of these partitions are of distinct keys: ascending in each, and no two overlap."""
    spans = sorted(
        (p.min_key, p.max_key) for p in trailers if p.min_key is not None and p.max_key is not None
    )
    return all(p.unique for p in trailers) and all(a[1] < b[0] for a, b in pairwise(spans))


def _spans_of(keys: pa.ChunkedArray) -> list[Range]:
    """The lowest and the highest of every few neighbouring keys, in fewer than twice `_SPANS` pairs: `cover` finds the
    wide gaps among these as well as among single keys, and sooner."""
    ordered = keys.take(pc.sort_indices(keys))
    step = max(1, len(ordered) // _SPANS)
    starts = range(0, len(ordered), step)
    lows = ordered.take(pa.array(starts, pa.int64()))
    highs = ordered.take(pa.array([min(at + step, len(ordered)) - 1 for at in starts], pa.int64()))
    return list(zip(lows.to_pylist(), highs.to_pylist(), strict=True))


def _spans_read(batch: CollectionContents) -> list[Range]:
    """First and last key of each partition of the windows that close."""
    return [(t.min_key, t.max_key) for t in _trailers(batch) if t.min_key and t.max_key]


def _trailers(batch: CollectionContents) -> list[Trailer]:
    """Of each partition of the windows that close."""
    return [t for c in batch.closings for t in batch.buffers[c.window.id].trailers_of(c.window.id)]


def _appends(batch: CollectionContents) -> bool:
    """The proof that an append needs: the ranges of all closing windows are new, and no key was read twice. The table
    holds no key of them then but those that have streamed since the windows were registered: a READ of such a key gives
    way, whatever the times, for the row that is there is the newest."""
    if batch.truncated is not None:
        return False
    return all(
        c.proven_new
        and not c.reconcile
        and isinstance(c.window.target, KeyRange)
        and all(t.unique for t in batch.buffers[c.window.id].trailers_of(c.window.id))
        for c in batch.closings
    )
