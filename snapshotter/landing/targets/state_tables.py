"""The state tables as a target: each collection's current documents, one table a collection, all side by side.

What is wrong with one table alone, and READs that were lost, come back as values (`Landed`): the machine decides, and
the rest is landed by another call. A table that records the batch is not landed again.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from snapshotter.landing.frames import in_landing_pool
from snapshotter.landing.table_faults import Blame
from snapshotter.landing.tables import Tables
from snapshotter.landing.targets.decoded_events import Said
from snapshotter.landing.targets.side_by_side import land_each
from snapshotter.landing.targets.state_rows import events_to_land, land_table
from snapshotter.landing.targets.target import (
    KEYS_SCHEMA,
    CollectionContents,
    Contents,
    Identity,
    Landed,
    LandedCollection,
    Need,
    Promise,
)
from streaming.delta.further_columns import TRANSACTION
from streaming.delta.local_checkpoints import free_checkpoint, held
from streaming.events.details import details_of
from streaming.events.envelope import JsonSerialization, transaction_orders


@dataclass(slots=True)
class StateTables:
    """Lands the batches of one query. ``threads``: so many tables at a time. ``fails``: a document that cannot be
    processed is an error. ``serialization``: how columns that say what an update has changed are written."""

    spark: SparkSession
    tables: Tables
    blame: Blame
    threads: int = 4
    fails: bool = True
    serialization: JsonSerialization = JsonSerialization.LEGACY

    @property
    def name(self) -> str:
        return "state tables"

    @property
    def promises(self) -> Promise:
        return Promise.EXACTLY_ONCE

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.DOCUMENTS})

    def land(self, contents: Contents) -> Landed:
        """As `Target.land`. An error that is no single table's own is raised, once all tables are done."""
        further, said = self.tables.further, None
        with ExitStack() as frees:
            if further.of_events:
                orders = None
                if contents.transactional and TRANSACTION in further.details:
                    orders = held(transaction_orders(contents.events))
                    frees.callback(free_checkpoint, orders)
                said = Said(details_of(self.serialization), orders)
            land_one = partial(self._land_one, contents.identity, said)
            return land_each(contents, land_one, self.blame, self.threads)

    def _land_one(self, identity: Identity, said: Said | None, batch: CollectionContents) -> LandedCollection:
        in_landing_pool(self.spark)
        if self._needs_no_table(batch):
            return LandedCollection(batch.namespace, KEYS_SCHEMA.empty_table())
        before = self.tables.look(batch.namespace, batch.mark)
        folder = self.tables.folder(batch.namespace)
        with self.tables.landing(batch.namespace) as opened:
            landed = land_table(
                self.spark, opened, batch, identity, fails=self.fails, said=said, folder=folder
            )
        # Looked at from ``before`` on, not from this landing on: a commit of somebody else may lie between the two.
        landed.mark = self.tables.look(batch.namespace, before)
        return landed

    def _needs_no_table(self, batch: CollectionContents) -> bool:
        """Whether there was no table, and the drop leaves nothing to put into one: none is made then."""
        if batch.truncated is None or self.tables.of(batch.namespace).plan is not None:
            return False
        events = events_to_land(batch)
        return events is not None and events.where(F.col("op").isNotNull()).isEmpty()
