"""The landing of a batch: what it holds for targets, and every target at its turn.

The state tables come first, and what they say is the machine's: which windows have landed, and which tables are not
what they were. Other targets land meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from snapshotter.core.rules.streamed_keys import StreamedKeys
from snapshotter.core.values.effects import LandBatch
from snapshotter.core.values.window import WindowId
from snapshotter.landing.contents import BatchContents
from snapshotter.landing.frames import in_landing_pool
from snapshotter.landing.incomplete import events_of
from snapshotter.landing.targets.dead_letters import DeadLetterTable
from snapshotter.landing.targets.target import CollectionContents, Contents, Identity, Landed, Target
from snapshotter.reading.chunk_reader import Buffer
from streaming.delta.table_identity import TableMark
from streaming.namespaces import Namespace

Marks = Mapping[Namespace, TableMark]
Buffers = Mapping[WindowId, Buffer]


@dataclass(slots=True)
class Lander:
    """Lands the batches of one query: in ``state``, the state tables, and in ``others``; what could not be processed in
    ``dead``. ``keys``: what has streamed into each table, for as long as a window that is still open may need it.
    ``transactions``: how many the others have told of in the newest batch."""

    spark: SparkSession
    state: Target
    others: Sequence[Target] = ()
    dead: DeadLetterTable | None = None
    keys: StreamedKeys[pa.Table] = field(default_factory=StreamedKeys)
    transactions: int = 0

    def land(
        self,
        batch: BatchContents,
        landing: LandBatch,
        landed: Landed,
        marks: Marks,
        buffers: Buffers,
        metadata: Mapping[str, Any],
    ) -> None:
        """Land what is left of the batch in the state tables, as ``landing`` plans it, and note it in ``landed``: a
        call after a failure lands only the collections that are not in there yet. ``marks``: the tables as this engine
        left them. ``buffers``: the READs of the windows that close. ``metadata``: what every commit says of the batch.
        """
        closing = {c.window.namespace for c in landing.closings}
        named = (batch.streamed | closing | landing.truncated.keys()) - landing.left_out
        wanted = named - landed.collections.keys()
        collections = {n: self._collection(n, batch, landing, marks.get(n), buffers) for n in wanted}
        contents = _contents(batch, metadata)
        there = frozenset(landed.collections)
        done = self.state.land(replace(contents, collections=collections, landed=there))
        landed.collections |= done.collections
        landed.lost, landed.faults = done.lost, done.faults

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
        for namespace in landing.keep & landed.collections.keys():
            if landed.collections[namespace].keys.num_rows:
                keys = landed.collections[namespace].keys
                self.keys.keep(namespace, landing.batch_id, landing.end, keys)

    def _collection(
        self,
        namespace: Namespace,
        batch: BatchContents,
        landing: LandBatch,
        mark: TableMark | None,
        buffers: Buffers,
    ) -> CollectionContents:
        closings = tuple(c for c in landing.closings if c.window.namespace == namespace)
        truncated = landing.truncated.get(namespace)
        named = batch.trailer.namespaces.get(namespace, 0) > 0 or truncated is not None
        return CollectionContents(
            namespace=namespace,
            events=batch.events.where(events_of(namespace)) if named else None,
            closings=closings,
            buffers=buffers,
            streamed=tuple(self.keys.of(namespace)) if closings else (),
            truncated=truncated,
            unreached=landing.unreached.get(namespace),
            splits=batch.trailer.splits,
            size_bytes=batch.trailer.sizes.get(namespace, 0),
            mark=mark,
        )


def _contents(batch: BatchContents, metadata: Mapping[str, Any]) -> Contents:
    """What every target is given: signals are not among the events."""
    signals = batch.scope.signals
    captured = batch.events if signals is None else batch.events.where(~events_of(signals))
    return Contents(Identity(batch.batch_id, metadata), captured, batch.trailer.transactional > 0)
