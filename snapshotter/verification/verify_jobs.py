"""The two halves of ``verify`` that run on executors: a collection's contents, and a table's, by key.

A *content* is the hash of a document's canonical bytes, so that only hashes cross the network; or the bytes
themselves, asked for by key, for the few documents that are to be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from struct import Struct as Packed
from typing import Any

import pyarrow as pa
from bson.timestamp import Timestamp
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from snapshotter.core.values.chunks import KeyRange
from snapshotter.landing.frames import frame_of
from snapshotter.reading.ranges import IdProber, range_find
from streaming.canonical.documents import canonical_document, content_hash
from streaming.canonical.flattened import flattened
from streaming.canonical.selected import Rule, selected_document
from streaming.column_names import KEY, RESCUED_DATA, quoted
from streaming.decode.keys import MissingId, key_at
from streaming.delta.further_values import live
from streaming.keys.shard_keys import ShardKey
from streaming.layout import AnyLayout, TablePlan
from streaming.mongo.deployment import RawClient, connect
from streaming.mongo.errors import DefiniteError, as_source_error
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

Mapped = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What ``mapInArrow`` takes."""

_LENGTH = Packed("<i").unpack_from
_FETCH_DOCS = 10_000
_OUTPUT_SCHEMA = "`_key` STRING, content BINARY"
_ARROW_SCHEMA = pa.schema([pa.field(KEY, pa.string()), pa.field("content", pa.binary())])
_SNAPSHOT_ERRORS = (239, 246)
"""SnapshotTooOld, SnapshotUnavailable."""

_SNAPSHOT_TIME = "_snapshot_time"


@dataclass(frozen=True, slots=True)
class Source:
    """A collection, the moment to read it at (None: whatever a majority has when it is read), the fields that
    identify a document besides `_id`, the rules about its fields, which hashes are made by the salt of, and how it is
    ``reshaped``: by which delimiter names are joined, and whether arrays become documents."""

    uri: str = field(repr=False)
    namespace: Namespace
    at: ClusterTime | None
    shard_key: ShardKey = ()
    rules: tuple[Rule, ...] = ()
    salt: bytes = field(default=b"", repr=False)
    reshaped: tuple[bytes | None, bool] | None = None

    def canonical(self, raw: bytes, at: int) -> bytes:
        """What a row of the document at byte ``at`` of ``raw`` is to show."""
        if not self.rules:
            content = canonical_document(raw, at)
        else:
            content = selected_document(raw, at, self.rules, self.salt)
        if self.reshaped is None:
            return content
        delimiter, arrays = self.reshaped
        return flattened(content, delimiter, arrays=arrays)


def source_contents(
    spark: SparkSession, source: Source, keys: frozenset[str] | None = None, whole: bool = False
) -> DataFrame:
    """``_key`` and ``content`` of each document of ``source``, or of those with these ``keys``; all of it is read
    either way. ``whole``: contents are canonical bytes, not hashes."""
    ranges = split(source, 4 * spark.sparkContext.defaultParallelism)
    read = _source_reader(source, ranges, keys, whole)
    return spark.range(0, len(ranges), 1, len(ranges)).mapInArrow(read, _OUTPUT_SCHEMA)


def table_contents(
    table: DataFrame,
    layout: AnyLayout,
    plan: TablePlan,
    keys: frozenset[str] | None = None,
    whole: bool = False,
) -> DataFrame:
    """``_key`` and ``content`` of each row of a state ``table``, or of those with these ``keys``; rows marked as
    deleted do not count. ``layout`` makes documents of the rows by ``plan``, which has to be the table's own.
    ``whole``: contents are canonical bytes, not hashes."""
    table = live(table)
    if keys is not None:
        asked = frame_of(table.sparkSession, pa.table({KEY: pa.array(sorted(keys), pa.string())}))
        table = table.join(F.broadcast(asked), KEY, "left_semi")
    # By other names: `mapInArrow` takes a column called "*" for all of them.
    columns = [F.col(quoted(name)).alias(f"c{number}") for number, name in enumerate(_columns_of(plan))]
    return table.select(*columns).mapInArrow(_table_reader(layout, plan, whole), _OUTPUT_SCHEMA)


def split(source: Source, parts: int) -> tuple[KeyRange, ...]:
    """Ranges that cover every id there is or may be; one range where the order of ids is not that of keys."""
    client = connect(source.uri)
    prober = IdProber(client)
    everything = KeyRange(None, None)
    try:
        last = prober.max_bound(source.namespace)
        if last is None:
            return (everything,)
        docs = client[source.namespace.database][source.namespace.collection].estimated_document_count()
        parts = min(parts, docs // _FETCH_DOCS + 1)  # a task costs more than reading a few documents
        ranges = prober.sub_bounds(source.namespace, KeyRange(None, last), parts, docs=max(docs, 1))
    except PyMongoError as error:
        raise as_source_error(error, f"cannot read {source.namespace}") from error
    if len(ranges) < 2:
        return (everything,)
    return (*ranges[:-1], KeyRange(ranges[-1].after, None))


def _source_reader(
    source: Source, ranges: tuple[KeyRange, ...], keys: frozenset[str] | None, whole: bool
) -> Mapped:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                for raw in _raw_batches(source, ranges[index]):
                    yield _contents(raw, source, keys, whole)

    return read


def _contents(raw: bytes, source: Source, keys: frozenset[str] | None, whole: bool) -> pa.RecordBatch:
    found: list[str] = []
    contents: list[bytes] = []
    at = 0
    while at < len(raw):
        key = _key_at(raw, at, source.shard_key)
        if keys is None or key in keys:
            canonical = source.canonical(raw, at)
            found.append(key)
            contents.append(canonical if whole else content_hash(canonical))
        at += _LENGTH(raw, at)[0]
    return _batch(found, contents)


def _key_at(raw: bytes, at: int, shard_key: ShardKey) -> str:
    try:
        return key_at(raw, at, shard_key)
    except MissingId as error:
        raise DefiniteError(str(error)) from error


def _batch(keys: list[str], contents: list[bytes]) -> pa.RecordBatch:
    arrays = [pa.array(keys, pa.string()), pa.array(contents, pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW_SCHEMA)


def _raw_batches(source: Source, part: KeyRange) -> Iterator[bytes]:
    client, name = connect(source.uri), source.namespace
    try:
        with _session(client, source.at) as session:
            concern = None if source.at is not None else ReadConcern("majority")
            collection = client[name.database].get_collection(name.collection, read_concern=concern)
            asked: dict[str, Any] = range_find(part).to_find()
            with collection.find_raw_batches(**asked, batch_size=_FETCH_DOCS, session=session) as cursor:
                yield from cursor
    except OperationFailure as error:
        if error.code in _SNAPSHOT_ERRORS and source.at is not None:
            raise DefiniteError(
                f"{name} cannot be read as of {source.at} any more: the server keeps "
                "minSnapshotHistoryWindowInSeconds (300) of history. Compare at a later moment, or without one"
            ) from error
        raise as_source_error(error, f"cannot read {name}") from error
    except PyMongoError as error:
        raise as_source_error(error, f"cannot read {name}") from error


def _session(client: RawClient, at: ClusterTime | None) -> ClientSession:
    if at is None:
        return client.start_session(causal_consistency=True)
    session = client.start_session(snapshot=True)
    if _SNAPSHOT_TIME not in session.__dict__:
        raise RuntimeError(
            "this pymongo keeps the time of a snapshot session elsewhere; 4.20 is known to work"
        )
    # The driver takes this time from the first reply. Here it is known beforehand, and the same for all
    # readers.
    session.__dict__[_SNAPSHOT_TIME] = Timestamp(at.t, at.i)
    return session


def _columns_of(plan: TablePlan) -> list[str]:
    return [KEY, *plan.names, RESCUED_DATA]


def _table_reader(
    layout: AnyLayout, plan: TablePlan, whole: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            batch = batch.rename_columns(_columns_of(plan))
            contents = layout.documents(plan, batch)
            if not whole:
                contents = [content_hash(content) for content in contents]
            yield pa.RecordBatch.from_arrays(
                [batch.column(KEY), pa.array(contents, pa.binary())], schema=_ARROW_SCHEMA
            )

    return read
