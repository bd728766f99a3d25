"""Reading a range of the change stream: every event with ``start < cluster time <= end``, and proof of it.

    (start, end]  ->  startAtOperationTime = start.next(), read concern majority, afterClusterTime = end

The last makes the node wait until its majority-committed state has reached ``end``. From then on an *empty
reply* of that node means that everything up to ``end`` has been seen; so does an event past ``end``. Through
mongos an empty reply proves nothing, because the shards answer one by one: there the reader waits for an
event, or a post-batch resume token, strictly past ``end`` (the only place where a token is looked into;
stored ones stay opaque). It asks for ``afterClusterTime = end.next()``, at which idle shards write a no-op,
so this does not take ten seconds.

A cursor may die on the way. The range goes on behind the last event that was handed out, so none is seen
twice:

- after an ``invalidate`` (the watched collection was dropped or renamed, or the watched database dropped),
  and after any other cursor that the server closed: ``startAfter`` that token;
- after an error that may pass (an election, a network, an operation that was killed, a code nobody knows): the
  same, a few times, unless events come.

The next reply is fetched on a thread while the caller works on this one: two replies at most are in memory.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp
from pymongo.errors import OperationFailure, PyMongoError

from streaming.mongo.deployment import count_within
from streaming.mongo.errors import TransientError, as_source_error, classify
from streaming.mongo.server_codes import Kind
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from streaming.scope.scope import CaptureScope, Level
from streaming.source.event_block import EventBlock, block_of
from streaming.source.raw_events import (
    OVERSIZED,
    Event,
    fields_of,
    parse_event,
    string_of,
    too_large,
)
from streaming.source.server_cursor import Reply, ServerCursor, token_time
from streaming.source.split_events import STAGE, Fragments
from streaming.source.user_stages import UserStages

RESUMES_MAX = 6
RESUME_WAIT_S = 0.1
SMALLEST_AWAIT_MS = 1

POSITION_LOST = (
    "the oplog no longer holds the changes after position {start}. Either this reader stood still for longer"
    " than the oplog reaches back, or its position was a stored resume token that did not move while the"
    " captured collections were quiet. A query of one's own needs a new checkpoint; an engine does what"
    " engine.position.lost says."
    " To prevent it, let the oplog reach further back (replSetResizeOplog, storage.oplogMinRetentionHours)"
)
ALL_COLUMNS = (
    "An event with all of its columns (the document, its pre-image, what an update changed) is larger than the 16 MB"
    " that the server sends. What to do: leave out those that are not needed, with columns=state, or a capture.mode"
    " without pre-images; or let cursor.oversize.handling.mode be skip, or split from MongoDB 6.0.9 on"
)
OVERSIZE = (
    "What to do: let cursor.oversize.handling.mode be skip, so that the document is read by its key, or split from"
    " MongoDB 6.0.9 on"
)
REPLY_BYTES = 4 << 20
"""What a reply aims at: one of the server's full 16 MB is held three times over while the driver takes it apart."""
KEY_FIELDS = ("operationType", "clusterTime", "wallTime", "ns", "to", "documentKey", "lsid", "txnNumber")
"""What there is of an event that is too large."""
_OVERSIZED = OVERSIZED.decode()


@dataclass(frozen=True)
class StreamSpec:
    """What to watch, and how.

    ``full_document`` is None, "updateLookup" or "whenAvailable"; ``stages`` end the pipeline, and before them come
    those ``without`` fields that are left out (`streaming.fields.server`). Events leave the server
    with the fields of ``fields`` (and their ``_id``, the resume token), or, where it is None, with all they have: it is
    what leaves that must not exceed 16 MB. ``oversize`` says what becomes of one that does: ``fail``, ``skip`` (it
    comes without its documents, see `ChangeRange`) or ``split``; with ``skip``, documents of more than ``threshold``
    bytes stay at the server as well (0: none do). ``user`` are stages of the user's own. ``known``: collections that
    are likely to have events, which spares the server work and changes nothing else.
    """

    scope: CaptureScope
    full_document: str | None = None
    before_change: bool = False
    fields: tuple[str, ...] | None = None
    without: tuple[Mapping[str, Any], ...] = ()
    stages: tuple[Mapping[str, Any], ...] = ()
    batch_size: int = 4_000
    await_ms: int = 1_000
    prefetch: bool = True
    oversize: str = "fail"
    threshold: int = 0
    user: UserStages = field(default_factory=UserStages)
    known: tuple[Namespace, ...] = ()

    def bare(self) -> StreamSpec:
        """The same events, with only their operation and time; those too that the user's stages would leave out, for
        these may look at documents."""
        fields = ("operationType", "clusterTime")
        bare = replace(self, full_document=None, before_change=False, fields=fields, prefetch=False)
        return replace(bare, without=(), oversize="fail", threshold=0, user=UserStages())

    def keys(self) -> StreamSpec:
        """The same events one by one, without their documents and what an update says of itself."""
        keys = replace(self.bare(), fields=KEY_FIELDS, batch_size=1)
        if not self.user:
            return keys
        return replace(
            keys, full_document=self.full_document, before_change=self.before_change, user=self.user
        )

    def one_by_one(self) -> StreamSpec:
        """The same events, one in each reply."""
        return replace(self, batch_size=1, prefetch=False)

    def pipeline(self, resume: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        stream = dict(resume)
        if self.scope.level is Level.DEPLOYMENT:
            stream["allChangesForCluster"] = True
        if self.full_document is not None:
            stream["fullDocument"] = self.full_document
        if self.before_change:
            stream["fullDocumentBeforeChange"] = "whenAvailable"
        bounded = self.oversize == "skip" and self.threshold > 0
        small = [_without_large(self.threshold)] if bounded else []
        named = () if self.fields is None else (*self.fields, *((_OVERSIZED,) if bounded else ()))
        kept = [{"$project": dict.fromkeys(named, 1)}] if named else []
        split = [STAGE] if self.oversize == "split" else []
        match = self.user.around(self.scope.match_stage(self.known), self.scope.signals)
        begin = [{"$changeStream": stream}, *match, *small]
        return [*begin, *kept, *self.without, *self.stages, *split]


def _without_large(threshold: int) -> dict[str, Any]:
    """A stage that leaves out the documents of events that have more than so many bytes, and says so of those whose
    operation has one (`OVERSIZED`): others may lack theirs because a stage of the user's took it away."""

    def large(name: str) -> dict[str, Any]:
        return {"$gt": [{"$bsonSize": f"${name}"}, threshold]}

    documents = ("fullDocument", "fullDocumentBeforeChange")
    small = {name: {"$cond": [large(name), "$$REMOVE", f"${name}"]} for name in documents}
    said = {"$and": [{"$in": ["$operationType", ["insert", "replace"]]}, large("fullDocument")]}
    return {"$set": {**small, _OVERSIZED: {"$cond": [said, True, "$$REMOVE"]}}}


class ChangeRange:
    """Iterate once: lists of events, in stream order, each list from one reply.

    An event that is larger than the server can send is found by asking for one event at a time, and then, behind the
    last one that came, for the next one's key alone. With ``oversize=skip`` it comes as that, and says that it was too
    large (`raw_events.too_large`). Else the error names it.

    ``token``, afterwards: the raw resume token behind everything seen so far, with no event between ``end`` and it;
    None if there is none. Raises SourceError (PositionLostError with what to do about it).
    """

    def __init__(
        self, uri: str, spec: StreamSpec, start: ClusterTime, end: ClusterTime, after: bytes | None = None
    ) -> None:
        """The changes in ``(start, end]`` of what ``spec`` watches at ``uri``; none where ``end`` is not after
        ``start``. ``after``: begin behind this raw resume token instead of ``start``."""
        self.token = after
        self._uri = uri
        self._spec = spec
        self._start = start
        self._end = end

    def __iter__(self) -> Iterator[list[Event]]:
        with closing(self.replies()) as replies:
            for events in replies:
                yield events.events() if isinstance(events, EventBlock) else events

    def replies(self, *, blocks: bool = False) -> Generator[list[Event] | EventBlock, None, None]:
        """The same; with ``blocks``, the events of a reply as a block where they are one."""
        if self._end <= self._start:
            return
        failures, spec = 0, self._spec
        with ThreadPoolExecutor(1, thread_name_prefix="change-stream") as pool:
            while True:
                reached = self.token
                try:
                    with closing(_Run(self._uri, spec, self._end, pool, blocks=blocks)) as run:
                        for reply, events in run.replies(self._resume()):
                            if events:
                                yield events
                            self._keep_token(reply, events, run)
                        if run.complete:
                            return
                    error: PyMongoError | None = None  # the server closed the cursor
                except PyMongoError as caught:
                    if classify(caught).kind is Kind.EVENT_TOO_LARGE:
                        if spec.batch_size > 1:
                            spec = spec.one_by_one()  # up to the one that is too large
                            continue
                        if (yield from self._large(pool, caught)):
                            return
                        spec = self._spec
                        continue
                    if classify(caught).kind.definite:
                        raise self._explained(caught) from caught
                    error = caught
                # Only a cursor that got nowhere counts as a failure: a long range may well outlive several.
                failures = 0 if self.token != reached else failures + 1
                if failures > RESUMES_MAX:
                    raise self._gave_up(error) from error
                if failures:
                    time.sleep(RESUME_WAIT_S * 2 ** (failures - 1))

    def _resume(self) -> dict[str, Any]:
        if self.token is not None:
            return {"startAfter": RawBSONDocument(self.token)}
        first = self._start.next()
        return {"startAtOperationTime": Timestamp(first.t, first.i)}

    def _keep_token(self, reply: Reply, events: list[Event] | EventBlock, run: _Run) -> None:
        if run.invalidated is not None:
            self.token = run.invalidated
        elif run.ended_inside or run.within_event:
            # The reply's own token lies behind an event that is not ours, or one that is to be read again from its
            # first fragment: the last one of ours counts.
            if events:
                last = events.last() if isinstance(events, EventBlock) else events[-1]
                self.token = last[3][b"_id"]
        elif reply.token is not None:
            self.token = reply.token

    def _large(
        self, pool: ThreadPoolExecutor, error: PyMongoError
    ) -> Generator[list[Event] | EventBlock, None, bool]:
        """The next event, which is too large, by its key alone; or, where it lies past the end, nothing: returns
        whether that is so. Raises EventTooLargeError where such an event is not asked for."""
        try:
            with closing(_Run(self._uri, self._spec.keys(), self._end, pool)) as run:
                for _, events in run.replies(self._resume()):
                    if isinstance(events, list) and events:
                        if self._spec.oversize != "skip":
                            raise as_source_error(error, self._too_large(events[0]))
                        self.token = events[0][3][b"_id"]
                        yield [too_large(event) for event in events]
                        return False
                if run.complete:
                    return True
        except PyMongoError as caught:
            raise self._explained(caught) from error
        raise self._explained(error) from error

    def _too_large(self, event: Event) -> str:
        """What to say of an event, and what to do about it."""
        operation, time, _, fields = event
        named = fields_of(fields[b"ns"]) if b"ns" in fields else {}
        where = ".".join(string_of(named[part]) for part in (b"db", b"coll") if part in named)
        key = fields.get(b"documentKey", b"")
        what = (
            f"{self._broke_off()}: the {operation.decode()} in {where} at {ClusterTime.from_int(time)}, whose"
        )
        text = (
            f"{what} documentKey has {len(key)} bytes ({key[:40].hex()}…), is larger than the server sends. "
        )
        return text + (ALL_COLUMNS if self._spec.fields is None else OVERSIZE)

    def _explained(self, error: PyMongoError) -> Exception:
        if classify(error).kind is Kind.EVENT_TOO_LARGE and self._spec.fields is None:
            return as_source_error(error, f"{self._broke_off()}. {ALL_COLUMNS}")
        if classify(error).kind is Kind.POSITION_LOST:
            where = "behind the resume token" if self.token is not None else self._start
            return as_source_error(error, POSITION_LOST.format(start=where))
        return as_source_error(error, self._broke_off())

    def _gave_up(self, error: PyMongoError | None) -> Exception:
        if error is not None:
            return as_source_error(error, self._broke_off())
        return TransientError(f"{self._broke_off()}: the server closed it {RESUMES_MAX + 1} times in a row")

    def _broke_off(self) -> str:
        theirs = ", with the stages of cursor.pipeline," if self._spec.user else ""
        return f"the change stream{theirs} broke off in ({self._start}, {self._end}]"


class _Run:
    """The life of one server-side cursor within a range."""

    def __init__(
        self, uri: str, spec: StreamSpec, end: ClusterTime, pool: ThreadPoolExecutor, *, blocks: bool = False
    ) -> None:
        self.complete = False
        """All up to the end has been seen."""
        self.ended_inside = False
        """An event past the end was in the last reply."""
        self.invalidated: bytes | None = None
        """The token of the invalidate that ended this cursor."""
        self._spec = spec
        self._end = end
        self._end_int = end.to_int()
        self._blocks = blocks
        self._pool = pool
        self._ahead: Future[Reply] | None = None
        self._batch_size = spec.batch_size
        self._fragments = Fragments() if spec.oversize == "split" else None
        scope = spec.scope
        self._cursor = ServerCursor(uri, scope.database, scope.collection)
        self._sharded = self._cursor.is_sharded

    def replies(self, resume: Mapping[str, Any]) -> Iterator[tuple[Reply, list[Event] | EventBlock]]:
        """Each reply, with those of its events that belong to the range."""
        reached = self._end.next() if self._sharded else self._end
        concern = {"level": "majority", "afterClusterTime": Timestamp(reached.t, reached.i)}
        reply = self._cursor.open(self._spec.pipeline(resume), concern, self._spec.batch_size)
        while True:
            if self._may_continue(reply):
                self._ahead = self._pool.submit(self._more, reply)
            yield reply, self._within(reply)
            if self.complete or self.invalidated is not None or not reply.alive:
                return
            ahead, self._ahead = self._ahead, None
            reply = ahead.result() if ahead is not None else self._more(reply)

    @property
    def within_event(self) -> bool:
        """Whether an event has begun whose last fragment has not come yet."""
        return self._fragments is not None and self._fragments.pending

    def close(self) -> None:
        if self._ahead is not None:
            with suppress(PyMongoError):
                self._ahead.result()  # a cursor is not killed under a running getMore
        self._cursor.close()

    def _more(self, last: Reply) -> Reply:
        """The next reply, of about `REPLY_BYTES` where its events are as large as those of the ``last`` one."""
        if last.events:
            average = sum(map(len, last.events)) // len(last.events)
            self._batch_size = count_within(self._spec.batch_size, REPLY_BYTES, average)
        # Without mongos everything up to the end is there already, and nothing is ever waited for.
        wait = self._spec.await_ms if self._sharded else SMALLEST_AWAIT_MS
        return self._cursor.more(self._batch_size, wait)

    def _may_continue(self, reply: Reply) -> bool:
        """Whether to fetch ahead: not past the end, where the server would look up documents in vain."""
        if not (self._spec.prefetch and reply.alive and reply.events) or self._fragments is not None:
            return False
        return parse_event(reply.events[-1])[1] <= self._end_int

    def _within(self, reply: Reply) -> list[Event] | EventBlock:
        block = block_of(reply.events) if self._blocks and self._fragments is None else None
        if block is not None and not block.are(b"invalidate").any():
            within = block.until(self._end_int)
            self.complete = self.ended_inside = len(within) < len(block)
            return within
        events: list[Event] = []
        for part in reply.events:
            raw = part if self._fragments is None else self._fragments.add(part)
            if raw is None:
                continue
            event = parse_event(raw)
            if event[1] > self._end_int:
                self.complete = self.ended_inside = True
                return events
            if event[0] == b"invalidate":
                self.invalidated = event[3][b"_id"]
                return events
            events.append(event)
        if not reply.events and not self.within_event:
            self.complete = proves_the_end(reply, self._end, self._sharded)
        return events


def holds(uri: str, spec: StreamSpec, start: ClusterTime) -> bool:
    """Whether the oplog at ``uri`` still holds what came after ``start``, for a stream of this ``spec``. Raises the
    driver's other errors."""
    first = start.next()
    cursor = ServerCursor(uri, spec.scope.database, spec.scope.collection)
    pipeline = spec.pipeline({"startAtOperationTime": Timestamp(first.t, first.i)})
    with closing(cursor):
        try:
            cursor.open(pipeline, {"level": "majority"}, batch_size=1)
        except OperationFailure as error:
            if classify(error).kind is Kind.POSITION_LOST:
                return False
            raise
    return True


def proves_the_end(empty: Reply, end: ClusterTime, sharded: bool) -> bool:
    """Whether the reply ``empty``, which holds no event, means that nothing is left up to ``end``.

    Without mongos the node must have reached ``end`` before it answered (``afterClusterTime``). ``sharded``: through
    mongos, where only the time in the reply's token tells.
    """
    if not sharded:
        return empty.alive
    return empty.token is not None and token_time(empty.token) > end
