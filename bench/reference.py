"""Reference figures: how fast the parts can go by themselves, each a plain program of a few lines.

They say what is left to win: nobody reads faster than a raw cursor, and no stream drains faster than a
client that throws everything away. None of our own code is in here, so that a change of ours cannot move
them.

Every function checks what it has read (all the bytes, all the events), outside the measured time where that
costs.
"""

import struct
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Literal, cast, get_args

import pyarrow as pa
import pymongoarrow.api as arrow_api
from bson import ObjectId, Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.collection import Collection
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from bench.arrow import BSON_SCHEMA, to_spark
from bench.clock import ticking
from bench.measurement import ROUNDS, Measurement, measurement, timed, warm
from bench.orders import ORDER_DDL

Landing = Literal["merge", "merge insert-only", "append"]
LANDINGS: tuple[Landing, ...] = get_args(Landing)
READ_BATCH_DOCUMENTS = 20_000
COMMIT_ROWS = 200_000


def raw_cursor(uri: str, db: str, coll: str) -> Measurement:
    """All documents in `_id` order as raw batches, thrown away. Raises RuntimeError when bytes are
    missing."""
    with MongoClient[dict[str, Any]](uri) as client:
        collection = client[db][coll]
        stats = client[db].command("collStats", coll)

        def drain() -> int:
            batches = (
                collection.find_raw_batches({}, batch_size=READ_BATCH_DOCUMENTS).sort("_id", 1).hint("_id_")
            )
            return sum(len(batch) for batch in batches)

        size, seconds = timed(drain)
    if size != stats["size"]:
        raise RuntimeError(f"{db}.{coll}: read {size} bytes of {stats['size']}: something else writes to it")
    return measurement("raw cursor by _id", "read", stats["count"], seconds, megabytes=round(size / 1e6))


def change_stream(
    uri: str, db: str, coll: str, start: Timestamp, events: int, *, lookup: bool = False
) -> Measurement:
    """Drain the `events` that follow `start` as raw batches, thrown away, with full documents looked up or
    not."""
    options = {"startAtOperationTime": start, **({"fullDocument": "updateLookup"} if lookup else {})}
    with ticking(uri), MongoClient[dict[str, Any]](uri) as client:
        collection = client[db][coll]

        def drain() -> None:
            seen = 0
            with collection.aggregate_raw_batches([{"$changeStream": options}], batchSize=10_000) as batches:
                for batch in batches:  # bytes, whatever the stubs say
                    seen += _documents_in(cast(bytes, batch))
                    if seen >= events:
                        break
            if seen != events:
                raise RuntimeError(f"{db}.{coll}: {seen} events since {start}, expected {events}")

        _, seconds = timed(drain)
    return measurement(f"change stream, {'with lookup' if lookup else 'raw'}", "drain", events, seconds)


def spark_read(
    spark: SparkSession, uri: str, db: str, coll: str, *, partitions: int = 8, rounds: int = ROUNDS
) -> Measurement:
    """All documents by pymongoarrow in `mapInArrow` into a cached DataFrame of typed columns, so many
    ``rounds``. The partitions' bounds are looked up before the clock starts."""
    seconds = []
    rows = 0
    for _ in range(rounds):
        frame = cached_orders(spark, uri, db, coll, bounds(uri, db, coll, partitions))
        rows, took = timed(frame.count)
        frame.unpersist(blocking=True)
        seconds.append(took)
    _check_rows(uri, db, coll, rows)
    return measurement(
        "mapInArrow into a cached DataFrame",
        "read",
        rows,
        warm(seconds, float),
        cold_seconds=round(seconds[0], 3),
    )


def landing(
    spark: SparkSession, uri: str, db: str, coll: str, table: str, how: Landing, *, rows: int = COMMIT_ROWS
) -> Measurement:
    """Commit after commit of `rows` new keys from cached DataFrames into one growing Delta table at the path
    `table`; only the commits are timed. The figure is that of all commits but the first, which warms up (of
    all, when there is only one)."""
    with MongoClient[dict[str, Any]](uri) as client:
        documents = client[db][coll].estimated_document_count()
    commits = max(1, documents // rows)
    spark.sql(f"CREATE TABLE delta.`{table}` ({ORDER_DDL}) USING delta")
    limits, seconds, counts = bounds(uri, db, coll, 2 * commits), [], []
    for commit in range(commits):
        frame = cached_orders(spark, uri, db, coll, limits[2 * commit : 2 * commit + 3])
        counts.append(frame.count())
        _, took = timed(partial(_land, frame, table, how))
        seconds.append(took)
        frame.unpersist(blocking=True)
    found = spark.read.format("delta").load(table).count()
    if found != sum(counts):
        raise RuntimeError(f"{how}: the table has {found} rows of {sum(counts)}")
    warm = slice(1 if commits > 1 else 0, None)
    return measurement(
        how, "commit", sum(counts[warm]), sum(seconds[warm]), cold_seconds=round(seconds[0], 3)
    )


def bounds(uri: str, db: str, coll: str, parts: int) -> list[ObjectId | None]:
    """`parts + 1` ids that cut the collection into even ranges (after, upto]; None at both ends:
    unbounded."""
    with MongoClient[dict[str, Any]](uri) as client:
        ids = [document["_id"] for document in client[db][coll].find({}, {"_id": 1}).sort("_id", 1)]
    return [None, *(ids[len(ids) * part // parts - 1] for part in range(1, parts)), None]


def cached_orders(
    spark: SparkSession, uri: str, db: str, coll: str, limits: Sequence[ObjectId | None]
) -> DataFrame:
    """The orders between consecutive `limits`, one partition a range; cached once an action runs over it."""
    ranges = [(after and after.binary, upto and upto.binary) for after, upto in pairwise(limits)]
    # Not repartition(): going round robin, it may put two ranges into one partition.
    slices = spark.sparkContext.parallelize(ranges, len(ranges))
    frame = spark.createDataFrame(slices, "after BINARY, upto BINARY")

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with MongoClient[dict[str, Any]](uri) as client:
            for batch in batches:
                for row in batch.to_pylist():
                    yield from _read_range(client[db][coll], row["after"], row["upto"])

    return frame.mapInArrow(read, ORDER_DDL).persist(StorageLevel.MEMORY_AND_DISK)


def _read_range(
    collection: Collection[dict[str, Any]], after: bytes | None, upto: bytes | None
) -> Iterator[pa.RecordBatch]:
    bracket = {"$gt": ObjectId(after)} if after else {}
    if upto:
        bracket["$lte"] = ObjectId(upto)
    query = {"_id": bracket} if bracket else {}
    table = arrow_api.find_arrow_all(
        collection, query, schema=BSON_SCHEMA, sort=[("_id", 1)], batch_size=READ_BATCH_DOCUMENTS
    )
    yield from to_spark(table).to_batches(max_chunksize=READ_BATCH_DOCUMENTS)


def _land(frame: DataFrame, table: str, how: Landing) -> None:
    if how == "append":
        frame.write.format("delta").mode("append").save(table)
        return
    frame.createOrReplaceTempView("orders_to_land")
    matched = "WHEN MATCHED THEN UPDATE SET * " if how == "merge" else ""
    frame.sparkSession.sql(
        f"MERGE INTO delta.`{table}` t USING orders_to_land s ON t._id = s._id "
        f"{matched}WHEN NOT MATCHED THEN INSERT *"
    )


def _documents_in(batch: bytes) -> int:
    """How many documents lie end to end in `batch`."""
    count = position = 0
    while position < len(batch):
        position += struct.unpack_from("<i", batch, position)[0]
        count += 1
    return count


def _check_rows(uri: str, db: str, coll: str, rows: int) -> None:
    with MongoClient[RawBSONDocument](uri) as client:
        documents = client[db][coll].count_documents({})
    if rows != documents:
        raise RuntimeError(f"{db}.{coll}: read {rows} of {documents} documents")
