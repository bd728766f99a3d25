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
from dataclasses import dataclass, replace
from itertools import chain
from math import inf
from typing import Any, cast

from bson.timestamp import Timestamp
from pymongo.cursor import RawBatchCursor
from pymongo.errors import OperationFailure

from streaming.bson.elements import STRING, documents_of, elements
from streaming.bson.raw_fields import string_bytes
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
_NONE = (0, 0, 0)
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

    @property
    def by_oplog(self) -> bool:
        """Whether it is counted by the oplog, as far as is known."""
        return self._oplog_readable and not connect(self._uri).is_mongos

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
                documents = chain.from_iterable(map(documents_of, cast("Iterable[bytes]", entries)))
                yield from self._weighed(map(_Entry.of, documents), stride)

    def _oplog(
        self, start: ClusterTime, end: ClusterTime, stride: int, limit: int
    ) -> RawBatchCursor[dict[str, Any]] | None:
        """The entries to count, undecoded: the ids of documents are among them, and a server takes ids that no driver
        reads. None if this user may not read them."""
        if not self._oplog_readable:
            return None
        between = {"$gt": Timestamp(start.t, start.i), "$lte": Timestamp(end.t, end.i)}
        pipeline: list[dict[str, Any]] = [{"$match": {"ts": between, "op": {"$in": ["i", "u", "d", "c"]}}}]
        if stride > 1:
            several = {"op": "c", "o.applyOps": {"$exists": True}}  # never left to chance
            pipeline.append({"$match": {"$or": [several, {"$expr": _one_of(stride, "$ts")}]}})
        # Documents may have fields of these names; commands alone mean them.
        command = {"$eq": ["$op", "c"]}
        several_inside = {"$and": [command, {"$isArray": "$o.applyOps"}]}
        inside = {"$cond": [several_inside, {"$size": "$o.applyOps"}, 0]}
        drop, rename = (
            {"$cond": [command, f"$o.{name}", "$$REMOVE"]} for name in ("drop", "renameCollection")
        )
        wanted = {"ts": 1, "ns": 1, "inside": inside, "drop": drop, "rename": rename}
        sizes = {"size": {"$bsonSize": "$$ROOT"}, "updated": "$o2._id"}
        pipeline.append({"$project": {"_id": 0, **wanted, **sizes}})
        oplog = connect(self._uri)["local"]["oplog.rs"]
        try:
            return oplog.aggregate_raw_batches(pipeline, batchSize=_reply_size(limit, stride))
        except OperationFailure as error:
            if error.code not in _NOT_FOR_US:
                raise
            self._oplog_readable = False
            return None

    def _weighed(self, entries: Iterable[_Entry], stride: int) -> Iterator[Counted]:
        captured: dict[str, bool] = {}
        documents = _Documents(connect(self._uri))
        for entry in entries:
            name = entry.namespace
            if name not in captured:
                captured[name] = self._captures(name)
            if not (entry.inside or captured[name]):
                continue
            size = entry.size
            if self._stream.full_document is not None and entry.updated is not None:
                size += documents.expected(name, entry.updated)
            events, size = (entry.inside, size) if entry.inside else (stride, stride * size)
            yield entry.time, weight(events, size, self._bytes_per_event)

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


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of the oplog: what it is about, when it was (`ClusterTime.to_int`), how many events it holds within (0:
    it is one itself), and its size in bytes. ``updated``: the type and the bytes of the id of the document that it
    changes, if it changes one."""

    namespace: str
    time: int
    inside: int
    size: int
    updated: bytes | None

    @classmethod
    def of(cls, raw: bytes) -> _Entry:
        """As `Backlog._oplog` asks for it."""
        found = {name: (tag, start, end) for tag, name, start, end in elements(raw, 0)}

        def number(name: bytes) -> int:
            _, start, end = found[name]
            return int.from_bytes(raw[start:end], "little")

        def text(name: bytes) -> str:
            return string_bytes(raw, found[name][1]).decode(errors="replace")

        namespace = text(b"rename") if found.get(b"rename", _NONE)[0] == STRING else text(b"ns")
        if (
            found.get(b"drop", _NONE)[0] == STRING
        ):  # commands are written to a namespace of their own, "database.$cmd"
            namespace = f"{text(b'ns').partition('.')[0]}.{text(b'drop')}"
        updated = None
        if b"updated" in found:
            tag, start, end = found[b"updated"]
            updated = bytes((tag,)) + raw[start:end]
        return cls(namespace, number(b"ts"), number(b"inside"), number(b"size"), updated)


class _Documents:
    """How many bytes looking up the documents of updates will add: each counts once, however often it was changed."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        self._averages: dict[str, int] = {}
        self._seen: set[tuple[str, bytes]] = set()

    def expected(self, name: str, document_id: bytes) -> int:
        """How many bytes this update's document is likely to add: the average of its collection, or 0 if counted
        before. ``document_id``: its BSON type and bytes."""
        document = name, document_id
        if document in self._seen:
            return 0
        self._seen.add(document)
        if name not in self._averages:
            self._averages[name] = average_document_bytes(self._client, Namespace.parse(name))
        return self._averages[name]


def _one_of(stride: int, time: str) -> dict[str, Any]:
    return {"$eq": [{"$mod": [{"$add": [{"$tsSecond": time}, {"$tsIncrement": time}]}, stride]}, 0]}


def _reply_size(limit: int, stride: int) -> int:
    return min(limit // stride * 5 // 4 + 2, _REPLY_MAX)
