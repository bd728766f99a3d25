"""The landing of a batch: every table that has something, side by side, with the batch's transactions beside them.

What is wrong with one table alone, and READs that were lost, come back as values (`Landed`): the machine decides, and
the rest is landed by another call. A table that is committed already is not landed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from snapshotter.core.rules.streamed_keys import StreamedKeys
from snapshotter.core.values.effects import LandBatch
from snapshotter.core.values.inputs import Outcome
from snapshotter.core.values.suspension import TableUnusable
from snapshotter.core.values.window import WindowId
from snapshotter.landing.commit import KEYS_SCHEMA, BuffersGone, LandedTable, TableBatch, land_table
from snapshotter.landing.contents import BatchContents
from snapshotter.landing.incomplete import events_of
from snapshotter.landing.table_faults import Blame
from snapshotter.landing.tables import Tables
from snapshotter.landing.transactions import TransactionTable
from snapshotter.reading.chunk_reader import Buffer
from streaming.delta.table_identity import TableMark
from streaming.namespaces import Namespace

Marks = Mapping[Namespace, TableMark]


@dataclass(slots=True)
class Landed:
    """What has landed of a batch so far: ``tables``; and what the last call could not land: windows whose READs are
    ``lost``, and ``faults`` of single tables."""

    tables: dict[Namespace, LandedTable] = field(default_factory=dict)
    lost: frozenset[WindowId] = frozenset()
    faults: tuple[TableUnusable, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.lost and not self.faults

    def outcomes(self, landing: LandBatch) -> dict[WindowId, Outcome]:
        """Of the windows that closed."""
        found = {w: o for table in self.tables.values() for w, o in table.outcomes.items()}
        return {c.window.id: found[c.window.id] for c in landing.closings}

    def marks(self, landing: LandBatch) -> dict[Namespace, TableMark]:
        """Which versions of which tables they are now."""
        landed = self.tables.items()
        return {n: table.mark for n, table in landed if table.mark and n not in landing.left_out}


@dataclass(slots=True)
class Lander:
    """Lands the batches of one query. ``threads``: so many tables at a time. ``keys``: what has streamed into each
    table, as long as a window that closes later may ask."""

    spark: SparkSession
    tables: Tables
    blame: Blame
    threads: int = 4
    transactions: TransactionTable | None = None
    keys: StreamedKeys[pa.Table] = field(default_factory=StreamedKeys)

    def land(
        self,
        batch: BatchContents,
        landing: LandBatch,
        landed: Landed,
        marks: Marks,
        buffers: Mapping[WindowId, Buffer],
        metadata: Mapping[str, Any],
    ) -> None:
        """Land what is left of the batch, and note it in ``landed``. ``marks``: the tables as they are known.
        ``metadata``: what every commit says of the batch. All threads are joined before this returns or raises."""
        landed.lost, landed.faults = frozenset(), ()
        closing = {c.window.namespace for c in landing.closings}
        wanted = (batch.streamed | closing | landing.emptied.keys()) - landing.left_out
        work = [n for n in sorted(wanted) if n not in landed.tables]
        if not work:
            return
        with ThreadPoolExecutor(min(self.threads, len(work)), "land") as pool:
            batches = {n: self._table_batch(n, batch, landing, buffers, metadata) for n in work}
            futures = {n: pool.submit(self._land_one, batches[n], marks.get(n)) for n in work}
        lost: set[WindowId] = set()
        faults: list[TableUnusable] = []
        failed: dict[Namespace, BaseException] = {}
        for namespace, future in futures.items():
            error = future.exception()
            if error is None:
                landed.tables[namespace] = future.result()
            elif isinstance(error, BuffersGone):
                lost |= error.windows
            elif fault := self.blame.fault_of(namespace, error):
                faults.append(fault)
            else:
                failed[namespace] = error
        for namespace, error in failed.items():
            self.blame.note(namespace, error, others=bool(landed.tables) and len(failed) == 1)
            raise error
        landed.lost, landed.faults = frozenset(lost), tuple(faults)

    @contextmanager
    def transactions_of(self, batch: BatchContents, metadata: Mapping[str, Any]) -> Iterator[None]:
        """The batch's transactions land while the tables do; joined at the end."""
        if self.transactions is None or not batch.trailer.transactional:
            yield
            return
        signals = batch.scope.signals
        captured = batch.events if signals is None else batch.events.where(~events_of(signals))
        with ThreadPoolExecutor(1, "transactions", self._in_landing_pool) as pool:
            landed = pool.submit(self.transactions.land, captured, batch.batch_id, metadata)
            yield
        landed.result()

    def keep(self, landing: LandBatch, landed: Landed) -> None:
        """Remember the keys that windows may ask for."""
        for namespace in landing.keep & landed.tables.keys():
            if landed.tables[namespace].keys.num_rows:
                self.keys.keep(namespace, landing.batch_id, landing.end, landed.tables[namespace].keys)

    def _in_landing_pool(self) -> None:
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", "landing")

    def _land_one(self, batch: TableBatch, mark: TableMark | None) -> LandedTable:
        self._in_landing_pool()
        if self._came_and_went(batch):
            return LandedTable(batch.namespace, KEYS_SCHEMA.empty_table())
        before = self.tables.look(batch.namespace, mark)
        with self.tables.landing(batch.namespace) as opened:
            landed = land_table(self.spark, opened, batch)
        # Behind what was seen before lies this landing, and perhaps what somebody else has committed: found here.
        landed.mark = self.tables.look(batch.namespace, before)
        return landed

    def _came_and_went(self, batch: TableBatch) -> bool:
        """Nothing was there, and after the drop nothing is: no table is made for it."""
        if not batch.emptied or batch.events is None or self.tables.of(batch.namespace).plan is not None:
            return False
        return batch.events.where(F.col("op").isNotNull()).isEmpty()

    def _table_batch(
        self,
        namespace: Namespace,
        batch: BatchContents,
        landing: LandBatch,
        buffers: Mapping[WindowId, Buffer],
        metadata: Mapping[str, Any],
    ) -> TableBatch:
        closings = tuple(c for c in landing.closings if c.window.namespace == namespace)
        return TableBatch(
            namespace=namespace,
            landing=landing,
            events=_events(namespace, batch, landing),
            shares=batch.trailer.parts,
            size_bytes=batch.trailer.sizes.get(namespace, 0),
            closings=closings,
            buffers=buffers,
            kept=tuple(self.keys.asked(namespace)) if closings else (),
            metadata={**metadata, "windows": [str(c.window.id) for c in closings]},
        )


def _events(namespace: Namespace, batch: BatchContents, landing: LandBatch) -> DataFrame | None:
    """The events that are to land: not those that a drop follows, nor those that a first load reads anyway."""
    if not batch.trailer.namespaces.get(namespace) and namespace not in landing.emptied:
        return None
    mine, unreached = batch.events_of(namespace), landing.unreached.get(namespace)
    if unreached is None:
        return mine
    ahead = F.col("_key") <= unreached.upto
    if unreached.after is not None:
        ahead = ahead & (F.col("_key") > unreached.after)
    return mine.where(~ahead)
