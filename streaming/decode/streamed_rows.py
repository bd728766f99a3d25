"""Streamed events of one collection, as the rows of its table: one row a key, its latest event that lands something.

All rows of a key must be in one partition. "The latest event of a key" is its row with the greatest ``ord``; they are
picked before anything is decoded, as the rows come: what is held at a time is about twice what the latest events of a
partition's keys take. An update without its full document lands nothing and hides nothing: it is left out here, and its
key is read again in a window of its own.

The last row of each partition is a trailer (``_trailer`` is not null): fields that the plan does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from streaming.layout import AnyLayout, TablePlan

EVENT_COLUMNS = ("_key", "op", "document", "cluster_time", "wall_time", "ord")
_ROWS_MAX = 20_000
_BYTES_MAX = 4 << 20
_COMPACTED_FROM = 16 << 20
_UTC = pa.timestamp("us", "UTC")


def row_schema(layout: AnyLayout, plan: TablePlan) -> StructType:
    """The table's columns, and the trailer."""
    return StructType([*table_schema(layout, plan).fields, StructField("_trailer", StringType())])


def table_schema(layout: AnyLayout, plan: TablePlan) -> StructType:
    """``_key``, the plan's columns, ``_rescued_data``, ``_cluster_time``, ``_source_ts``, ``_op``."""
    extra = [
        StructField("_cluster_time", LongType()),
        StructField("_source_ts", TimestampType()),
        StructField("_op", StringType()),
    ]
    return StructType([*layout.spark_schema(plan).fields, *extra])


def decode_latest(
    layout: AnyLayout, plan: TablePlan
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For ``mapInArrow`` over rows of ``EVENT_COLUMNS``: rows of ``row_schema(layout, plan)``."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        latest = _latest(batches)
        if latest is None:
            return
        decoder = layout.decoder(plan)
        unknown = layout.least_plan()
        for batch in _parts(latest):
            decoded = decoder.decode_documents(batch.column("_key"), batch.column("document").to_pylist())
            unknown = unknown.merge(decoded.unknown)
            yield _rows(decoded.batch, batch)
        yield _trailer(layout.arrow_schema(plan), unknown)

    return run


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
        sizes = pc.fill_null(pc.binary_length(batch.column("document")), 0).to_pylist()
        begun = size = 0
        for at, length in enumerate(sizes):
            if size and size + length > _BYTES_MAX:
                yield batch.slice(begun, at - begun)
                begun, size = at, 0
            size += length
        yield batch.slice(begun)


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


def _rows(decoded: pa.RecordBatch, events: pa.RecordBatch) -> pa.RecordBatch:
    times = events.column("wall_time").cast(_UTC)
    seconds = pc.shift_right(events.column("cluster_time"), 32)
    clock = pc.multiply(seconds, 1_000_000).cast(_UTC)
    columns = {
        "_cluster_time": events.column("cluster_time"),
        "_source_ts": pc.coalesce(times, clock),
        "_op": events.column("op").cast(pa.string()),
        "_trailer": pa.nulls(events.num_rows, pa.string()),
    }
    fields = [*decoded.schema, *(pa.field(name, array.type) for name, array in columns.items())]
    return pa.RecordBatch.from_arrays([*decoded.columns, *columns.values()], schema=pa.schema(fields))


def _trailer(columns: pa.Schema, unknown: TablePlan) -> pa.RecordBatch:
    extra = [
        pa.field("_cluster_time", pa.int64()),
        pa.field("_source_ts", _UTC),
        pa.field("_op", pa.string()),
        pa.field("_trailer", pa.string()),
    ]
    schema = pa.schema([*columns, *extra])
    arrays = [pa.nulls(1, f.type) for f in schema][:-1]
    arrays.append(pa.array([unknown.to_json()], pa.string()))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
