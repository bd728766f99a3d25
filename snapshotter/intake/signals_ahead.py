"""Signals that the stream would show too late, read from the signal collection itself.

A signal comes with the stream. A stream that lags (a long backlog, a slow landing), or that waits for a blocking
request, would keep an operator's stop or pause waiting. So meanwhile a change stream of the signal collection alone,
opened at the engine's position, gives signals as they come: all of them, in their order, for a stop may name a request
that was made a moment before.

Taking them is idempotent, so the stream may show them again. A document that was taken here is left out there once its
outcome is durable, so that what it leaves in logs and statuses (a refusal, for example) is said once.

It has a thread of its own: where the backlog is long, the server goes through all of it before it answers. So it is not
asked while the collection holds no signal, not even one of long ago.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import structlog
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp
from pymongo import MongoClient
from pymongo.change_stream import CollectionChangeStream
from pymongo.errors import OperationFailure, PyMongoError

from signals.channels.source_channel import id_of
from snapshotter.core.values.watermark_ids import is_watermark
from snapshotter.log import warn_of
from streaming.bson.raw_fields import text_id
from streaming.mongo.errors import classify
from streaming.namespaces import Namespace
from streaming.positions import ORIGIN, ClusterTime

_log = structlog.get_logger("snapshotter.signals")

BEHIND_SECONDS = 5
"""A stream that lags by more is not waited for."""
_AT_ONCE = 1_000
_TAKEN_MAX = 20_000
_RESUMED_BEHIND_A_DROP = 260
"""InvalidResumeToken: what the driver gets where the drop was in the first reply."""
# Anybody may write there, also strings that are no UTF-8 and dates that Python has not. What is taken are the bytes.
_RAW: CodecOptions[RawBSONDocument] = CodecOptions(
    RawBSONDocument,
    unicode_decode_error_handler="replace",
    datetime_conversion=DatetimeConversion.DATETIME_MS,
)

Changes = CollectionChangeStream[RawBSONDocument]


class Stream(Protocol):
    """How far the stream has come, how far there is to go, and whether it waits, for whatever."""

    @property
    def known_head(self) -> ClusterTime: ...

    @property
    def position(self) -> ClusterTime: ...

    @property
    def holding(self) -> bool: ...


class SignalsAhead:
    """Looks at the collection ``signals`` from ``start`` to ``close``, ``every`` so many seconds, once ``stream`` has
    been late. ``take`` gets documents as BSON, on a thread of its own; their outcome must be durable when it returns:
    the stream leaves them out then. ``asked`` is told before that when each signal was sent."""

    def __init__(
        self,
        client: MongoClient[Any],
        signals: Namespace,
        stream: Stream,
        take: Callable[[Sequence[bytes]], None],
        *,
        every: float,
        asked: Callable[[str, float], object] = lambda _id, _seconds: None,
    ) -> None:
        self._asked = asked
        self._collection = client[signals.database].get_collection(signals.collection, codec_options=_RAW)
        self._stream, self._take, self._every = stream, take, every
        self._changes: Changes | None = None
        self._from = self._over = ORIGIN
        self._taken: dict[bytes, None] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="signals-ahead", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Take nothing from here on, except what is being taken now."""
        self._stopped.set()
        self._thread.join(self._every)

    def not_yet(self, documents: Sequence[bytes]) -> list[bytes]:
        """Those of the documents that the stream shows which have not been taken ahead of it."""
        known = {document for document in documents if document in self._taken}
        for document in known:
            del self._taken[document]
        return [document for document in documents if document not in known]

    def _work(self) -> None:
        try:
            while not self._stopped.wait(self._every):
                self._look()
        finally:
            self._end()

    def _look(self) -> None:
        """Whatever fails here, nothing is lost: the stream shows it again."""
        try:
            documents = self._new()
            if documents and not self._stopped.is_set():
                self._take(documents)
                self._taken |= dict.fromkeys(documents)
        except Exception as error:  # noqa: BLE001 - see above
            self._end()
            if isinstance(error, PyMongoError) and classify(error).kind.definite:
                # The stream reads the same collection, and says what is wrong with it, or with its position.
                self._stopped.set()
            warn_of(_log, "signals cannot be looked for ahead of the stream", error)

    def _new(self) -> list[bytes]:
        if self._changes is None:
            position = self._stream.position
            late = self._stream.holding or self._stream.known_head.t - position.t > BEHIND_SECONDS
            if position in (ORIGIN, self._over) or not late or not self._holds_any():
                return []
            self._from = position
            self._changes = self._collection.watch(
                [{"$match": {"operationType": "insert"}}],
                start_at_operation_time=Timestamp(position.t, position.i + 1),
                max_await_time_ms=1,
            )
        found: list[bytes] = []
        while len(found) < _AT_ONCE and len(self._taken) < _TAKEN_MAX:
            change = self._next(self._changes)
            if change is None:
                break
            raw = bytes(change["fullDocument"].raw)
            if not is_watermark(text_id(raw)) and raw not in self._taken:
                found.append(raw)
                at: Timestamp = change["clusterTime"]
                self._asked(id_of(raw), ClusterTime(at.time, at.inc).seconds)
        return found

    def _holds_any(self) -> bool:
        """Whether the collection holds a document that is no watermark, or too many to tell."""
        there = [text_id(one.raw) for one in self._collection.find({}, {"_id": True}).limit(_AT_ONCE)]
        return len(there) == _AT_ONCE or not all(map(is_watermark, there))

    def _next(self, changes: Changes) -> RawBSONDocument | None:
        """The next insert; None if there is none now, or the collection was dropped: that ends a change stream, and
        the next one begins where the engine's stream is then."""
        try:
            change = changes.try_next()
            over = change is None and not changes.alive
        except OperationFailure as error:
            if error.code != _RESUMED_BEHIND_A_DROP:
                raise
            change, over = None, True
        if over:
            self._over = self._from  # opened here again, it would meet the same drop
            self._end()
        return change

    def _end(self) -> None:
        changes, self._changes = self._changes, None
        if changes is not None:
            changes.close()
