"""Streamed events of one collection, as the rows of its table: one row a key, its latest event that lands something.

All rows of a key must be in one partition. "The latest event of a key" is its row with the greatest ``ord``; they are
picked before anything is decoded, as the rows come: what is held at a time is about twice what the latest events of a
partition's keys take. An update without its full document lands nothing and hides nothing: it is left out here, and its
key is read again in a window of its own.

Rows whose ``_trailer`` is not null are none of the table's. The last row of each partition is its trailer: fields that
the plan does not know. A document that cannot be decoded is a row with its key and why; its event lands nothing, so
whoever asked leaves it out (``without``), and asks again: an event before it may be the latest then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from streaming.decode import change_details
from streaming.decode.change_details import Details
from streaming.decode.dead_letters import DEAD, reason, sort_out
from streaming.decode.parts import parts_of
from streaming.json_text import from_text, to_text
from streaming.layout import AnyLayout, Decoded, Decoder, TablePlan

EVENT_COLUMNS = ("_key", "op", "document", "cluster_time", "wall_time", "ord")
_ROWS_MAX = 20_000
_BYTES_MAX = 4 << 20
_COMPACTED_FROM = 16 << 20
_UTC = pa.timestamp("us", "UTC")


def row_schema(layout: AnyLayout, plan: TablePlan, *, detailed: bool = False) -> StructType:
    """The columns of a table with this ``layout`` and ``plan``, and the trailer; of rows that are ``detailed`` what
    their events say, too."""
    more = [StructField(change_details.NAME, change_details.TYPE)] if detailed else []
    return StructType([*table_schema(layout, plan).fields, StructField("_trailer", StringType()), *more])


def table_schema(layout: AnyLayout, plan: TablePlan) -> StructType:
    """``_key``, the plan's columns, ``_rescued_data``, ``_cluster_time``, ``_source_ts``, ``_op``."""
    extra = [
        StructField("_cluster_time", LongType()),
        StructField("_source_ts", TimestampType()),
        StructField("_op", StringType()),
    ]
    return StructType([*layout.spark_schema(plan).fields, *extra])


@dataclass(frozen=True, slots=True)
class Failed:
    """Why the event at the place ``ord`` lands nothing."""

    ord: int
    error: str

    def to_text(self) -> str:
        """It begins with `DEAD`."""
        return f"{DEAD}{to_text({'ord': self.ord, 'error': self.error})}}}"

    @classmethod
    def from_text(cls, text: str) -> Failed:
        """What `to_text` wrote."""
        return cls(**from_text(text)["dead"])


def decode_latest(
    layout: AnyLayout,
    plan: TablePlan,
    without: Collection[int] = frozenset(),
    details: Details | None = None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For ``mapInArrow`` over rows of ``EVENT_COLUMNS``: rows of ``row_schema(layout, plan)``. ``without`` the events
    at these places. ``details``: the rows are to be detailed, by this, from rows that have its columns besides."""
    left_out = pa.array(sorted(without), pa.int64())

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if without:
            batches = (batch.filter(pc.invert(pc.is_in(batch["ord"], left_out))) for batch in batches)
        latest = _latest(batches)
        if latest is None:
            return
        decoder, columns = layout.decoder(plan), layout.arrow_schema(plan)
        unknown = layout.least_plan()
        for batch in _parts(latest):
            parts, failed = sort_out(batch.num_rows, partial(_decoded, decoder, batch))
            for decoded, rows in parts:
                unknown = unknown.joined(decoded.unknown)
                yield _rows(decoded.batch, rows, details)
            if failed:
                yield _dead_rows(columns, batch, failed, detailed=details is not None)
        yield _extra_rows(columns, [unknown.to_json()], detailed=details is not None)

    return run


def _decoded(
    decoder: Decoder[TablePlan], batch: pa.RecordBatch, begin: int, end: int
) -> tuple[Decoded[TablePlan], pa.RecordBatch]:
    rows = batch.slice(begin, end - begin)
    return decoder.decode_documents(rows.column("_key"), rows.column("document").to_pylist()), rows


def _dead_rows(
    columns: pa.Schema, batch: pa.RecordBatch, failed: Sequence[tuple[int, Exception]], *, detailed: bool
) -> pa.RecordBatch:
    places = pa.array([place for place, _ in failed], pa.int64())
    rows = batch.take(places)
    texts = [
        Failed(ord_, reason(error)).to_text()
        for ord_, (_, error) in zip(rows.column("ord").to_pylist(), failed, strict=True)
    ]
    return _extra_rows(columns, texts, rows, detailed=detailed)


def _latest(batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
    """The latest of all of a partition's rows; None if it has none."""
    held: list[pa.Table] = []
    size, most = 0, _COMPACTED_FROM
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(pa.Table.from_batches([batch]))
        size += batch.nbytes
        if size > most:
            held = [latest_of_each_key(pa.concat_tables(held))]
            size = held[0].nbytes  # not again before it has doubled, so that few rows are copied often
            most = 2 * size + _COMPACTED_FROM
    return latest_of_each_key(pa.concat_tables(held)) if held else None


def _parts(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows, so many at a time as are decoded well together: not too many, nor of too many bytes."""
    for batch in table.to_batches(max_chunksize=_ROWS_MAX):
        sizes = pc.fill_null(pc.binary_length(batch.column("document")), 0).to_numpy().astype(np.int64)
        for begin, end in parts_of(sizes, _BYTES_MAX):
            yield batch.slice(begin, end - begin)


def latest_of_each_key(table: pa.Table) -> pa.Table:
    """The row of each ``_key`` with the greatest ``ord``, among rows that land something; the rows stay in their
    order."""
    lands = pc.or_(pc.equal(table["op"], "d"), pc.is_valid(table["document"]))
    table = table.filter(lands)
    last = table.select(["_key", "ord"]).group_by("_key", use_threads=False).aggregate([("ord", "max")])
    if last.num_rows == table.num_rows:
        return table
    # No two events of a batch have one ``ord``, so it names a row.
    return table.filter(pc.is_in(table["ord"], value_set=last["ord_max"].combine_chunks()))


def _rows(decoded: pa.RecordBatch, events: pa.RecordBatch, details: Details | None) -> pa.RecordBatch:
    times = events.column("wall_time").cast(_UTC)
    seconds = pc.shift_right(events.column("cluster_time"), 32)
    clock = pc.multiply(seconds, 1_000_000).cast(_UTC)
    columns = {
        "_cluster_time": events.column("cluster_time"),
        "_source_ts": pc.coalesce(times, clock),
        "_op": events.column("op").cast(pa.string()),
        "_trailer": pa.nulls(events.num_rows, pa.string()),
    }
    if details is not None:
        columns[change_details.NAME] = details(events)
    fields = [*decoded.schema, *(pa.field(name, array.type) for name, array in columns.items())]
    return pa.RecordBatch.from_arrays([*decoded.columns, *columns.values()], schema=pa.schema(fields))


def _extra_rows(
    columns: pa.Schema, texts: Sequence[str], events: pa.RecordBatch | None = None, *, detailed: bool
) -> pa.RecordBatch:
    """Rows of ``columns``, the table's, that are none of the table's: they have ``texts``, and the key and the time of
    these ``events``. ``detailed``: as the others are."""
    extra = [
        pa.field("_cluster_time", pa.int64()),
        pa.field("_source_ts", _UTC),
        pa.field("_op", pa.string()),
        pa.field("_trailer", pa.string()),
        *([pa.field(change_details.NAME, change_details.ARROW_TYPE)] if detailed else []),
    ]
    schema = pa.schema([*columns, *extra])
    known = {"_trailer": pa.array(texts, pa.string())}
    if events is not None:
        known |= {name: events.column(name) for name in ("_key", "cluster_time")}
        known["_cluster_time"] = known.pop("cluster_time")
    arrays = [known.get(f.name, pa.nulls(len(texts), f.type)).cast(f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
