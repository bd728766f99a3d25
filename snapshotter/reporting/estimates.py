"""What a request would read, without reading it: ids at both ends, documents, bytes, and seconds.

The whole of a collection is estimated from its metadata, a part is counted by its index or its filter. Counting can
take as long as reading does, so all questions of one request share a time limit; a note names what it leaves unknown.

No document is read into this process, only the two ids at the ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from bson.raw_bson import DEFAULT_RAW_BSON_OPTIONS
from pymongo import MongoClient
from pymongo.errors import ExecutionTimeout, OperationFailure

from snapshotter.core.values.chunks import KeyList, KeyRange
from snapshotter.core.values.requests import SnapshotRequest, Wanted
from snapshotter.reading.range_find import range_find
from snapshotter.reading.request_lane import query_of
from snapshotter.reporting.answers import CollectionEstimate, DryRun
from streaming.events.extended_json import id_text
from streaming.mongo.errors import classify
from streaming.mongo.server_codes import Kind

T = TypeVar("T")
LIMIT_SECONDS = 10.0
_STEP_MS_MIN = 50
_NAMESPACE_NOT_FOUND = 26
_DAMAGED = "(its bytes are damaged)"


@dataclass(slots=True)
class ReadingSpeed:
    """``newest``: documents a second, of the last collection that was large enough to measure it; None before one."""

    newest: float | None = None


@dataclass(frozen=True, slots=True)
class _Limit:
    """When to stop asking."""

    deadline: float

    def milliseconds(self) -> int:
        """What is left, for one more question. Raises ExecutionTimeout."""
        left = int((self.deadline - time.monotonic()) * 1000)
        if left < _STEP_MS_MIN:
            raise ExecutionTimeout("no time is left")
        return left


def estimate(
    request: SnapshotRequest,
    client: MongoClient[Any],
    rows_per_second: float | None,
    limit_seconds: float = LIMIT_SECONDS,
) -> DryRun:
    """What the request would read, as far as ``limit_seconds`` suffice to find it out. ``rows_per_second``: the newest
    speed that was measured; None leaves the seconds unknown. Raises the driver's errors; nothing has been changed."""
    limit = _Limit(time.monotonic() + limit_seconds)
    parts = tuple(_collection(client, want, rows_per_second, limit) for want in request.wanted)
    return DryRun(
        id=request.id,
        answered_at=datetime.now(UTC),
        collections=parts,
        documents=_sum([part.documents for part in parts]),
        bytes=_sum([part.bytes for part in parts]),
        seconds=_sum([part.seconds for part in parts]),
        rows_per_second=rows_per_second,
    )


def _collection(
    client: MongoClient[Any], want: Wanted, speed: float | None, limit: _Limit
) -> CollectionEstimate:
    notes: list[str] = []
    query, by_id = _query(want)
    ends = _tried("the ids at its ends", notes, lambda: _ends(client, want, query, limit))
    documents = _tried("the documents", notes, lambda: _documents(client, want, query, by_id, limit))
    size = _tried("the bytes", notes, lambda: _average_size(client, want, limit))
    first, last = ends or (None, None)
    return CollectionEstimate(
        name=str(want.namespace),
        first=first,
        last=last,
        documents=documents,
        counted=documents is not None and bool(query),
        bytes=round(documents * size) if documents is not None and size is not None else None,
        seconds=round(documents / speed, 1) if documents is not None and speed else None,
        notes=tuple(notes),
    )


def _query(want: Wanted) -> tuple[Mapping[str, Any], bool]:
    """What the request reads of a collection, and whether it names ids."""
    target = KeyList(want.keys) if want.keys else want.range or KeyRange(None, None)
    by_id = bool(want.keys) or want.range is not None
    return range_find(target, filter=query_of(want.filter)).filter, by_id


def _tried(what: str, notes: list[str], ask: Callable[[], T | None]) -> T | None:
    """The answer; None, with a note, where there was no time, no right to ask, or no collection any more."""
    try:
        return ask()
    except ExecutionTimeout:
        notes.append(f"{what}: not known, finding out takes too long")
    except OperationFailure as error:
        kind = classify(error).kind
        if kind is Kind.INTERRUPTED:  # so the server says of JavaScript that its time limit ends
            notes.append(f"{what}: not known, it was interrupted or takes too long")
        elif error.code == _NAMESPACE_NOT_FOUND or kind is Kind.PERMISSION:
            notes.append(f"{what}: not known, {error}")
        else:
            raise
    return None


def _ends(
    client: MongoClient[Any], want: Wanted, query: Mapping[str, Any], limit: _Limit
) -> tuple[str | None, str | None]:
    database = client[want.namespace.database]
    collection = database.get_collection(want.namespace.collection, DEFAULT_RAW_BSON_OPTIONS)

    def end(direction: int) -> str | None:
        found = collection.find_one(
            dict(query),
            {"_id": 1},
            sort=[("_id", direction)],
            hint=[("_id", 1)],
            max_time_ms=limit.milliseconds(),
        )
        return None if found is None else id_text(found.raw) or _DAMAGED

    return end(1), end(-1)


def _documents(
    client: MongoClient[Any], want: Wanted, query: Mapping[str, Any], by_id: bool, limit: _Limit
) -> int:
    collection = client[want.namespace.database][want.namespace.collection]
    if not query:
        return int(collection.estimated_document_count(maxTimeMS=limit.milliseconds()))
    hint: dict[str, Any] = {"hint": [("_id", 1)]} if by_id else {}
    return int(collection.count_documents(dict(query), maxTimeMS=limit.milliseconds(), **hint))


def _average_size(client: MongoClient[Any], want: Wanted, limit: _Limit) -> float | None:
    """Bytes of a document, over all shards; None for an empty collection."""
    collection = client[want.namespace.database][want.namespace.collection]
    stages: list[dict[str, Any]] = [{"$collStats": {"storageStats": {}}}]
    shards = [found["storageStats"] for found in collection.aggregate(stages, maxTimeMS=limit.milliseconds())]
    count = sum(int(shard.get("count", 0)) for shard in shards)
    return sum(int(shard.get("size", 0)) for shard in shards) / count if count else 0.0


def _sum(parts: list[Any]) -> Any:
    """None where a part is not known: a sum of the others would be too small."""
    known = [part for part in parts if part is not None]
    return sum(known) if parts and len(known) == len(parts) else None
