"""Streamed events of one collection, as the rows of its table: one row a key, its latest event that lands something.

All rows of a key must be in one partition. "The latest event of a key" is its row with the greatest ``ord``; they are
picked before anything is decoded. An update without its full document lands nothing and hides nothing: it is
left out here, and its key is read again in a window of its own.

The last row of each partition is a trailer (``_trailer`` is not null): fields that the plan does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from streaming.columns import TablePlan
from streaming.decode import Decoder
from streaming.decode_schema import arrow_schema, spark_schema

EVENT_COLUMNS = ("_key", "op", "document", "cluster_time", "wall_time", "ord")
_UTC = pa.timestamp("us", "UTC")


def row_schema(plan: TablePlan) -> StructType:
    """The table's columns, and the trailer."""
    return StructType([*table_schema(plan).fields, StructField("_trailer", StringType())])


def table_schema(plan: TablePlan) -> StructType:
    extra = [
        StructField("_cluster_time", LongType()),
        StructField("_source_ts", TimestampType()),
        StructField("_op", StringType()),
    ]
    return StructType([*spark_schema(plan).fields, *extra])


def decode_latest(plan: TablePlan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For ``mapInArrow`` over rows of ``EVENT_COLUMNS``: rows of ``row_schema(plan)``."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = [batch for batch in batches if batch.num_rows]
        if not held:
            return
        latest = latest_of_each_key(pa.Table.from_batches(held))
        decoder = Decoder(plan)
        unknown = TablePlan()
        for batch in latest.to_batches(max_chunksize=20_000):
            decoded = decoder.decode_documents(batch.column("_key"), batch.column("document").to_pylist())
            unknown = unknown.merge(decoded.unknown)
            yield _rows(decoded.batch, batch)
        yield _trailer(plan, unknown)

    return run


def latest_of_each_key(table: pa.Table) -> pa.Table:
    """Of each ``_key`` the row with the greatest ``ord`` that lands something, in stream order."""
    lands = pc.or_(pc.equal(table["op"], "d"), pc.is_valid(table["document"]))
    table = table.filter(lands)
    last = table.select(["_key", "ord"]).group_by("_key", use_threads=False).aggregate([("ord", "max")])
    if last.num_rows == table.num_rows:
        return table
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


def _trailer(plan: TablePlan, unknown: TablePlan) -> pa.RecordBatch:
    extra = [
        pa.field("_cluster_time", pa.int64()),
        pa.field("_source_ts", _UTC),
        pa.field("_op", pa.string()),
        pa.field("_trailer", pa.string()),
    ]
    schema = pa.schema([*arrow_schema(plan), *extra])
    arrays = [pa.nulls(1, f.type) for f in schema][:-1]
    arrays.append(pa.array([unknown.to_json()], pa.string()))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
