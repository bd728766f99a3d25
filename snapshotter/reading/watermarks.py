"""Writing watermarks: the one thing that windows need from the source besides reads.

Three strategies, one contract (tests/conformance runs the same tests over all of them):
- ``low(windows)`` returns a cluster time at or after that of every event that came before this call;
- ``high(windows, not_before)`` returns a cluster time at or after ``not_before`` and every reader that ended;
- both are majority-committed when they return, so no failover can take them back.

``insert_insert`` inserts an open and a close document, ``insert_delete`` deletes the open one; their events in the
change stream *are* the watermarks. ``cluster_time`` writes nothing: the two are majority operation times.

The signal collection is left clean: documents of finished windows are removed, and at a start those of earlier runs,
whatever strategy they had. With ``keep``, those of ``insert_insert`` stay for whoever wants to see them;
``insert_delete`` has to remove its own.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import structlog
from bson.timestamp import Timestamp
from pymongo import MongoClient, WriteConcern
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from snapshotter.core.values.watermark_ids import Strategy, close_id, open_id
from snapshotter.core.values.window import WindowId
from snapshotter.errors import cause_of
from streaming.mongo.deployment import majority_time
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

_MAJORITY_TIMEOUT_MS = 30_000
_log = structlog.get_logger("snapshotter.watermarks")


class WatermarkLost(Exception):
    """An open document was gone before its window closed: a TTL index, or somebody, deleted it."""


class CausalClock:
    """The latest time that any session of this engine was told of, with the server's signature.

    A node that has not heard of a time refuses it (code 72); handing on the signed ``$clusterTime`` document lets any
    node catch up with what another has shown to a reader.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._signed: Mapping[str, Any] | None = None

    def observe(self, signed: Mapping[str, Any] | None) -> None:
        if signed is None:
            return
        with self._lock:
            if self._signed is None or signed["clusterTime"] > self._signed["clusterTime"]:
                self._signed = signed

    @property
    def signed(self) -> Mapping[str, Any] | None:
        return self._signed


class WatermarkWriter(Protocol):
    """See the module's text for the contract. Several windows may share one write."""

    strategy: Strategy

    def low(self, windows: Sequence[WindowId]) -> ClusterTime: ...

    def high(self, windows: Sequence[WindowId], not_before: ClusterTime) -> ClusterTime: ...

    def discard(self, windows: Sequence[WindowId]) -> None:
        """Remove what the windows left in the signal collection."""

    def clean_up(self, run: str) -> int:
        """Remove what runs of this engine other than ``run`` left; returns how many documents."""


def watermark_writer(
    strategy: Strategy,
    client: MongoClient[Any],
    engine: str,
    signals: Namespace | None,
    clock: CausalClock,
    *,
    keep: bool = False,
) -> WatermarkWriter:
    """The writer of ``strategy``. ``engine`` is the engine's name, with which all its documents begin; ``clock`` learns
    the times of its writes; with ``keep``, documents of ``insert_insert`` stay. Raises ValueError for a strategy in the
    stream without ``signals``, the signal collection."""
    if not strategy.in_stream:
        return ClusterTimeWatermarks(client, engine, signals)
    if signals is None:
        raise ValueError(f"{strategy} needs signal.data.collection")
    return InsertedWatermarks(strategy, client, engine, signals, clock, keep=keep)


class InsertedWatermarks:
    """``insert_insert`` and ``insert_delete``, by documents in the collection ``signals``. Their ids begin with
    ``engine``, since engines may share it. ``clock`` gives and takes signed times; ``keep`` as in the module's text,
    and without effect for the other ``strategy``."""

    def __init__(
        self,
        strategy: Strategy,
        client: MongoClient[Any],
        engine: str,
        signals: Namespace,
        clock: CausalClock,
        *,
        keep: bool = False,
    ) -> None:
        self.strategy = strategy
        self._keeps = keep and strategy is Strategy.INSERT_INSERT
        self._client = client
        self._engine = engine
        self._clock = clock
        concern = WriteConcern("majority", wtimeout=_MAJORITY_TIMEOUT_MS)
        self._signals: Collection[dict[str, Any]] = client[signals.database].get_collection(
            signals.collection, write_concern=concern
        )

    def low(self, windows: Sequence[WindowId]) -> ClusterTime:
        with self._session() as session:
            documents = [self._document(open_id(self._engine, w), "snapshot-window-open") for w in windows]
            self._signals.insert_many(documents, session=session)
            return self._time(session)

    def high(self, windows: Sequence[WindowId], not_before: ClusterTime) -> ClusterTime:
        with self._session() as session:
            session.advance_operation_time(Timestamp(not_before.t, not_before.i))
            if self.strategy is Strategy.INSERT_INSERT:
                documents = [
                    self._document(close_id(self._engine, w), "snapshot-window-close") for w in windows
                ]
                self._signals.insert_many(documents, session=session)
            else:
                ids = [open_id(self._engine, w) for w in windows]
                deleted = self._signals.delete_many({"_id": {"$in": ids}}, session=session).deleted_count
                if deleted != len(ids):
                    raise WatermarkLost(
                        f"{len(ids) - deleted} of {len(ids)} open documents ({', '.join(ids)}) were gone from "
                        f"{self._signals.full_name} before their windows closed: does a TTL index delete them?"
                    )
            return self._time(session)

    def discard(self, windows: Sequence[WindowId]) -> None:
        if self._keeps:
            return
        ids = [name(self._engine, w) for w in windows for name in (open_id, close_id)]
        self._signals.delete_many({"_id": {"$in": ids}})

    def clean_up(self, run: str) -> int:
        if self._keeps:
            return 0
        return self._signals.delete_many(_of_other_runs(self._engine, run)).deleted_count

    def _session(self) -> ClientSession:
        session = self._client.start_session(causal_consistency=True)
        if self._clock.signed is not None:
            session.advance_cluster_time(self._clock.signed)
        return session

    def _time(self, session: ClientSession) -> ClusterTime:
        self._clock.observe(session.cluster_time)
        time = session.operation_time
        assert time is not None, "a write in a causally consistent session has an operation time"
        return ClusterTime(time.time, time.inc)

    @staticmethod
    def _document(name: str, kind: str) -> dict[str, Any]:
        return {"_id": name, "type": kind, "data": ""}


def _of_other_runs(engine: str, run: str) -> dict[str, Any]:
    """The query for what an ``engine``'s runs but this ``run`` have left."""
    mine, this_run = re.escape(f"{engine}/"), re.escape(f"{run}/")
    return {"_id": {"$regex": f"^{mine}(?!{this_run})[0-9a-f]+/[0-9]+-(open|close)$"}}


class ClusterTimeWatermarks:
    """``cluster_time``: for users who may only read. ``signals``: the signal collection, where there may be documents
    of this ``engine``'s, from when it had another strategy."""

    strategy = Strategy.CLUSTER_TIME

    def __init__(self, client: MongoClient[Any], engine: str = "", signals: Namespace | None = None) -> None:
        self._client, self._engine, self._signals = client, engine, signals

    def low(self, windows: Sequence[WindowId]) -> ClusterTime:  # noqa: ARG002 - the port's signature
        return majority_time(self._client)

    def high(
        self,
        windows: Sequence[WindowId],  # noqa: ARG002 - the port's signature
        not_before: ClusterTime,
    ) -> ClusterTime:
        # Readers reported majority times, so whatever they saw lies at or before the later of the two.
        return max(majority_time(self._client), not_before)

    def discard(self, windows: Sequence[WindowId]) -> None:
        """Nothing was written."""

    def clean_up(self, run: str) -> int:
        """Nothing is written where nothing was left; who may do no more than read leaves it."""
        if self._signals is None:
            return 0
        left, found = _of_other_runs(self._engine, run), self._client[self._signals.database]
        try:
            if found[self._signals.collection].find_one(left, {"_id": 1}) is None:
                return 0
            return found[self._signals.collection].delete_many(left).deleted_count
        except OperationFailure as error:
            _log.info("watermark documents of earlier runs may be left", error=cause_of(error))
            return 0
