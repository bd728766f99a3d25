"""Counting the events ahead, for `streaming.source.admission`: a sample of their cluster times, in stream order.

Two ways to the same answer:

- the oplog itself, which the server scans about eight times as fast as it can make change events of it. It is
  read only to count; an entry may hold many events (a transaction, a batch of inserts), and then says how many;
- a change stream that looks nothing up and returns only times: through mongos, which has no oplog, and for
  users who may not read the database ``local``.

Both are estimates: what is read in the end is a range of the change stream, whatever was counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import inf
from typing import Any

import bson
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.timestamp import Timestamp
from pymongo.command_cursor import CommandCursor
from pymongo.errors import OperationFailure

from streaming.mongo.deployment import (
    WIRE_VERSION_5_1,
    RawClient,
    average_document_bytes,
    connect,
    wire_version,
)
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from streaming.source.admission import Counted, stride_for, weight
from streaming.source.change_cursor import ChangeRange, StreamSpec

_REPLY_MAX = 10_000
# Ids of documents are among what is read: dates of any year, and text of any bytes.
_ANY_ID: CodecOptions[dict[str, Any]] = CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_MS, unicode_decode_error_handler="replace"
)
# Unauthorized, and what Atlas says where it keeps ``local`` to itself.
_NOT_FOR_US = (13, 8000)


class Backlog:
    """What lies ahead of a position at ``uri``, of the events that ``stream`` would read.

    Remembers when the oplog may not be read. An event of more than ``bytes_per_event`` counts as several
    (`admission.weight`), where the oplog tells; a change stream counts no bytes.
    """

    def __init__(self, uri: str, stream: StreamSpec, bytes_per_event: float = inf) -> None:
        self._uri = uri
        self._stream = stream
        self._bytes_per_event = bytes_per_event
        self._oplog_readable = True

    def counted(self, start: ClusterTime, end: ClusterTime, limit: int) -> Iterator[Counted]:
        """Times in ``(start, end]`` with the number of events that each stands for; ask for no more than needed.

        ``limit``, the most events of a batch, decides how coarse the sample is; the count does not end there.
        """
        client = connect(self._uri)
        stride = stride_for(limit) if wire_version(client) >= WIRE_VERSION_5_1 else 1
        entries = None if client.is_mongos else self._oplog(start, end, stride, limit)
        if entries is None:
            yield from self._change_stream(start, end, stride, limit)
        else:
            with entries:
                yield from self._weighed(entries, stride)

    def _oplog(
        self, start: ClusterTime, end: ClusterTime, stride: int, limit: int
    ) -> CommandCursor[Any] | None:
        """The entries to count; None if this user may not read them."""
        if not self._oplog_readable:
            return None
        between = {"$gt": Timestamp(start.t, start.i), "$lte": Timestamp(end.t, end.i)}
        pipeline: list[dict[str, Any]] = [{"$match": {"ts": between, "op": {"$in": ["i", "u", "d", "c"]}}}]
        if stride > 1:
            several = {"o.applyOps": {"$exists": True}}  # never left to chance
            pipeline.append({"$match": {"$or": [several, {"$expr": _one_of(stride, "$ts")}]}})
        inside = {"$cond": [{"$isArray": "$o.applyOps"}, {"$size": "$o.applyOps"}, 0]}
        wanted = {"ts": 1, "ns": 1, "inside": inside, "drop": "$o.drop", "rename": "$o.renameCollection"}
        sizes = {"size": {"$bsonSize": "$$ROOT"}, "updated": "$o2._id"}
        pipeline.append({"$project": {"_id": 0, **wanted, **sizes}})
        oplog = connect(self._uri)["local"].get_collection("oplog.rs", codec_options=_ANY_ID)
        try:
            return oplog.aggregate(pipeline, batchSize=_reply_size(limit, stride))
        except OperationFailure as error:
            if error.code not in _NOT_FOR_US:
                raise
            self._oplog_readable = False
            return None

    def _weighed(self, entries: Iterable[Any], stride: int) -> Iterator[Counted]:
        captured: dict[str, bool] = {}
        documents = _Documents(connect(self._uri))
        for entry in entries:
            name = _namespace_of(entry)
            if name not in captured:
                captured[name] = self._captures(name)
            if not (entry["inside"] or captured[name]):
                continue
            size = entry["size"]
            if self._stream.full_document is not None and "updated" in entry:
                size += documents.expected(name, entry["updated"])
            events, size = (entry["inside"], size) if entry["inside"] else (stride, stride * size)
            weighs = weight(events, size, self._bytes_per_event)
            yield ClusterTime(entry["ts"].time, entry["ts"].inc).to_int(), weighs

    def _captures(self, name: str) -> bool:
        database, _, collection = name.partition(".")
        return collection not in ("", "$cmd") and self._stream.scope.captures(Namespace(database, collection))

    def _change_stream(
        self, start: ClusterTime, end: ClusterTime, stride: int, limit: int
    ) -> Iterator[Counted]:
        stages = ({"$match": {"$expr": _one_of(stride, "$clusterTime")}},) if stride > 1 else ()
        counter = replace(self._stream.bare(), stages=stages, batch_size=_reply_size(limit, stride))
        for events in ChangeRange(self._uri, counter, start, end):
            for event in events:
                yield event[1], stride


class _Documents:
    """How many bytes looking up the documents of updates will add: each counts once, however often it was changed."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        self._averages: dict[str, int] = {}
        self._seen: set[bytes] = set()

    def expected(self, name: str, document_id: Any) -> int:
        """How many bytes this update's document is likely to add: the average of its collection, or 0 if counted
        before."""
        document = bson.encode({name: document_id})
        if document in self._seen:
            return 0
        self._seen.add(document)
        if name not in self._averages:
            self._averages[name] = average_document_bytes(self._client, Namespace.parse(name))
        return self._averages[name]


def _namespace_of(entry: dict[str, Any]) -> str:
    """What an entry is about. Commands are written to a namespace of their own, "database.$cmd"."""
    if "drop" in entry:
        return f"{entry['ns'].partition('.')[0]}.{entry['drop']}"
    name: str = entry.get("rename") or entry["ns"]
    return name


def _one_of(stride: int, time: str) -> dict[str, Any]:
    return {"$eq": [{"$mod": [{"$add": [{"$tsSecond": time}, {"$tsIncrement": time}]}, stride]}, 0]}


def _reply_size(limit: int, stride: int) -> int:
    return min(limit // stride * 5 // 4 + 2, _REPLY_MAX)
