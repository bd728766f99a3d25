"""A collection's side of ``verify``: the contents of its documents by key, from raw BSON.

It runs where it is asked to: beside Spark's executors, a range of ids each, or in this process.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from struct import Struct as Packed
from typing import Any

import pyarrow as pa
from bson.timestamp import Timestamp
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from snapshotter.core.values.chunks import KeyRange
from snapshotter.reading.ranges import IdProber, range_find
from snapshotter.verification.comparison import CONTENTS
from streaming.canonical.documents import canonical_document, content_hash
from streaming.canonical.flattened import flattened
from streaming.canonical.selected import Rule, selected_document
from streaming.decode.keys import MissingId, key_at
from streaming.keys.shard_keys import ShardKey
from streaming.mongo.deployment import RawClient, connect
from streaming.mongo.errors import DefiniteError, as_source_error
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

EVERYTHING = KeyRange(None, None)

_LENGTH = Packed("<i").unpack_from
_FETCH_DOCS = 10_000
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


def size(source: Source) -> int:
    """How many documents it has, by its metadata."""
    name = source.namespace
    try:
        return connect(source.uri)[name.database][name.collection].estimated_document_count()
    except PyMongoError as error:
        raise as_source_error(error, f"cannot read {name}") from error


def split(source: Source, parts: int) -> tuple[KeyRange, ...]:
    """Ranges that cover every id there is or may be; one range where the order of ids is not that of keys."""
    prober = IdProber(connect(source.uri))
    try:
        last = prober.max_bound(source.namespace)
        if last is None:
            return (EVERYTHING,)
        docs = size(source)
        parts = min(parts, docs // _FETCH_DOCS + 1)  # a task costs more than reading a few documents
        ranges = prober.sub_bounds(source.namespace, KeyRange(None, last), parts, docs=max(docs, 1))
    except PyMongoError as error:
        raise as_source_error(error, f"cannot read {source.namespace}") from error
    if len(ranges) < 2:
        return (EVERYTHING,)
    return (*ranges[:-1], KeyRange(ranges[-1].after, None))


def contents(
    source: Source, part: KeyRange, keys: frozenset[str] | None, whole: bool
) -> Iterator[pa.RecordBatch]:
    """`CONTENTS` of each document of this ``part`` of ``source``, or of those with these ``keys``; all of it is read
    either way. ``whole``: contents are canonical bytes, not hashes."""
    with closing(_raw_batches(source, part)) as batches:  # a document that fails would keep its cursor open
        for raw in batches:
            yield _contents(raw, source, keys, whole)


def _contents(raw: bytes, source: Source, keys: frozenset[str] | None, whole: bool) -> pa.RecordBatch:
    found: list[str] = []
    forms: list[bytes] = []
    at = 0
    while at < len(raw):
        key = _key_at(raw, at, source.shard_key)
        if keys is None or key in keys:
            canonical = source.canonical(raw, at)
            found.append(key)
            forms.append(canonical if whole else content_hash(canonical))
        at += _LENGTH(raw, at)[0]
    arrays = [pa.array(found, pa.string()), pa.array(forms, pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, schema=CONTENTS)


def _key_at(raw: bytes, at: int, shard_key: ShardKey) -> str:
    try:
        return key_at(raw, at, shard_key)
    except MissingId as error:
        raise DefiniteError(str(error)) from error


def _raw_batches(source: Source, part: KeyRange) -> Generator[bytes, None, None]:
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
