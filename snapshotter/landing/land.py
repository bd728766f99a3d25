"""The landing of a batch: what it holds for targets, and every target at its turn.

What the state tables say is the machine's: which windows have landed, and which tables are not what they were. Targets
of events land with them, collection by collection: a window has landed once it is in all. Other targets land meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from snapshotter.core.rules.streamed_keys import StreamedKeys
from snapshotter.core.values.effects import LandBatch
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.requests import Origin
from snapshotter.core.values.window import WindowId
from snapshotter.landing.contents import BatchContents
from snapshotter.landing.frames import in_landing_pool
from snapshotter.landing.incomplete import collection_of, events_of
from snapshotter.landing.targets.dead_letters import DeadLetterTable
from snapshotter.landing.targets.replays import Replays
from snapshotter.landing.targets.target import (
    KEYS_SCHEMA,
    CollectionContents,
    Contents,
    EventTarget,
    Identity,
    Landed,
    Target,
)
from snapshotter.reading.read_buffer import Buffer
from streaming.events.envelope import Envelope, keys_told
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

Buffers = Mapping[WindowId, Buffer]


@dataclass(slots=True)
class Lander:
    """Lands the batches of one query: in ``state``, the state tables, in targets of ``events``, and in ``others``; what
    could not be processed in ``dead``, and by ``replays`` what of it is told later. ``envelope``: how events are told.
    ``keys``: what has streamed into each table, for as long as a window that is still open may need it; ``told``: what
    was told besides, updates without their documents; or, where something is skipped, all that was told.
    ``transactions``: how many the others have told of in the newest batch."""

    spark: SparkSession
    state: Target
    others: Sequence[Target] = ()
    events: Sequence[EventTarget] = ()
    envelope: Envelope | None = None
    dead: DeadLetterTable | None = None
    replays: Replays | None = None
    keys: StreamedKeys[pa.Table] = field(default_factory=StreamedKeys)
    told: StreamedKeys[pa.Table] = field(default_factory=StreamedKeys)
    transactions: int = 0

    def land(
        self,
        batch: BatchContents,
        landing: LandBatch,
        landed: Landed,
        progress: Progress,
        buffers: Buffers,
        metadata: Mapping[str, Any],
    ) -> None:
        """Land what is left of the batch in the state tables and in targets of events, as ``landing`` plans it, and
        note it in ``landed``: a call after a failure lands only the collections that are not in there yet.
        ``progress``: as of this landing, with the tables as this engine left them. ``buffers``: the READs of the
        windows that close. ``metadata``: what every commit says of the batch.
        """
        closing = {c.window.namespace for c in landing.closings}
        named = (batch.streamed | closing | landing.truncated.keys()) - landing.left_out
        whole = {n: self._collection(n, batch, landing, progress, buffers) for n in named}
        contents = _contents(batch, metadata)

        def left(there: Collection[Namespace]) -> Contents:
            collections = {n: one for n, one in whole.items() if n not in there}
            return replace(contents, collections=collections, landed=frozenset(there))

        with ThreadPoolExecutor(max(1, len(self.events)), "events") as pool:
            beside = {
                target.name: pool.submit(target.land, left(landed.beside.get(target.name, frozenset())))
                for target in self.events
            }
            done = self.state.land(left(landed.collections.keys()))
        landed.collections |= done.collections
        told = {name: landing.result() for name, landing in beside.items()}
        for name, one in told.items():
            landed.beside[name] = landed.beside.get(name, frozenset()) | one.collections.keys()
        landed.lost = done.lost.union(*(one.lost for one in told.values()))
        faults = [fault for one in (done, *told.values()) for fault in one.faults]
        landed.faults = tuple({fault.namespace: fault for fault in reversed(faults)}.values())

    @contextmanager
    def landing_others(self, batch: BatchContents, metadata: Mapping[str, Any]) -> Iterator[None]:
        """The other targets land while the state tables do; joined at the end."""
        if not self.others:
            yield
            return
        contents = _contents(batch, metadata)
        with ThreadPoolExecutor(
            len(self.others), "other-targets", partial(in_landing_pool, self.spark)
        ) as pool:
            landing = [pool.submit(target.land, contents) for target in self.others]
            yield
        self.transactions = sum(landed.result().transactions for landed in landing)

    def finish(
        self,
        batch: BatchContents,
        landing: LandBatch,
        landed: Landed,
        buffers: Buffers,
        metadata: Mapping[str, Any],
    ) -> None:
        """All of the ``batch`` has ``landed``, as ``landing`` planned it: write what could not be processed, of READs
        in ``buffers`` too, with a commit that says ``metadata``; and remember the keys that windows may ask for."""
        if self.dead is not None:
            self.dead.land(batch, landing, landed, buffers, metadata)
        if self.replays is not None:
            self.replays.land(Identity(batch.batch_id, metadata), landing.left_out)
        self.keys.truncated(landing.truncated)
        for namespace in landing.keep & landed.collections.keys():
            if landed.collections[namespace].keys.num_rows:
                keys = landed.collections[namespace].keys
                self.keys.keep(namespace, landing.batch_id, landing.end, keys)
        if self.envelope is None:
            return
        told = _bare_keys(batch)
        if not self.envelope.tells_all:
            told = {n: _keys_told(batch, n, self.envelope) for n in landing.keep & batch.streamed}
        for namespace in landing.keep & told.keys():
            self.told.keep(namespace, landing.batch_id, landing.end, told[namespace])

    def forget(self, needed: Mapping[Namespace, ClusterTime]) -> None:
        """Drop the keys that no open window can ask for, as `StreamedKeys.forget`."""
        self.keys.forget(needed)
        self.told.forget(needed)

    def _collection(
        self,
        namespace: Namespace,
        batch: BatchContents,
        landing: LandBatch,
        progress: Progress,
        buffers: Buffers,
    ) -> CollectionContents:
        closings = tuple(c for c in landing.closings if c.window.namespace == namespace)
        initial = {r.id for r in progress.requests if r.origin is Origin.INITIAL or r.blocking}
        told = self.keys.of(namespace) if self.envelope is not None and self.envelope.tells_all else ()
        truncated = landing.truncated.get(namespace)
        named = batch.trailer.namespaces.get(namespace, 0) > 0 or truncated is not None
        return CollectionContents(
            namespace=namespace,
            events=batch.events.where(events_of(namespace)) if named else None,
            closings=closings,
            buffers=buffers,
            streamed=tuple(self.keys.of(namespace)) if closings else (),
            told=(*told, *self.told.of(namespace)) if closings else (),
            initial=frozenset(c.window.id for c in closings if c.window.request_id in initial),
            truncated=truncated,
            unreached=landing.unreached.get(namespace),
            splits=batch.trailer.splits,
            size_bytes=batch.trailer.sizes.get(namespace, 0),
            mark=progress.tables.get(namespace),
        )


def _contents(batch: BatchContents, metadata: Mapping[str, Any]) -> Contents:
    """What every target is given: signals are not among the events."""
    signals = batch.scope.signals
    captured = batch.events if signals is None else batch.events.where(~events_of(signals))
    return Contents(Identity(batch.batch_id, metadata), captured, batch.trailer.transactional > 0)


def _keys_told(batch: BatchContents, namespace: Namespace, envelope: Envelope) -> pa.Table:
    """Key and newest time of each event of this collection that is told."""
    keys = keys_told(batch.events.where(events_of(namespace)), envelope)
    newest = keys.groupBy("_key").agg(F.max("cluster_time")).toArrow()
    return newest.rename_columns(KEYS_SCHEMA.names).cast(KEYS_SCHEMA)


def _bare_keys(batch: BatchContents) -> dict[Namespace, pa.Table]:
    """Keys and times of the updates that came without their documents, by collection."""
    found: dict[Namespace, list[tuple[str, int]]] = {}
    for row in batch.rows:
        if row["op"] == "u" and collection_of(row) != batch.scope.signals:
            found.setdefault(collection_of(row), []).append((row["_key"], row["cluster_time"]))
    return {n: pa.table([*zip(*rows, strict=True)], schema=KEYS_SCHEMA) for n, rows in found.items()}
