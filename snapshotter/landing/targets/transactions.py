"""Transactions as a target: a Delta table beside the engine's state (``provide.transaction.metadata``).

Each transaction that changed captured collections has two rows, as it has two records in Debezium's transaction topic:
BEGIN, and END with the number of its events, in all and by collection. Every event of a transaction has one cluster
time, and a batch never splits one, so both rows come with the batch that lands the events; there END waits for an event
from outside. The rows of state tables name their transaction by ``_cluster_time``.

Rows are only appended, once for each batch: Delta skips a batch that is sent again. On a sharded cluster each shard's
part of a transaction has a cluster time, and so a BEGIN and an END, of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from snapshotter.landing.targets.appended import AppendedTable
from snapshotter.landing.targets.target import Contents, Landed
from streaming.events.envelope import transaction_id
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

FOLDER = "transactions"
SCHEMA = pa.schema(
    [
        ("status", pa.string()),
        ("id", pa.string()),
        ("event_count", pa.int64()),
        (
            "data_collections",
            pa.list_(pa.struct([("data_collection", pa.string()), ("event_count", pa.int64())])),
        ),
        ("ts_ms", pa.int64()),
        ("_cluster_time", pa.int64()),
    ]
)
"""``ts_ms``: when the server applied it; whole seconds before MongoDB 6.0. BEGIN has no counts."""


@dataclass(frozen=True, slots=True)
class CollectionEvents:
    """The events of one transaction in one collection. ``lsid``: BSON of the session's id."""

    cluster_time: int
    lsid: bytes
    txn_number: int
    namespace: Namespace
    events: int
    wall_ms: int | None


def rows_of(changes: Iterable[CollectionEvents]) -> Iterator[dict[str, Any]]:
    """BEGIN and END of each transaction, by cluster time."""
    whole = attrgetter("cluster_time", "lsid", "txn_number")
    ordered = sorted(changes, key=lambda change: (*whole(change), change.namespace))
    for (time, lsid, number), parts in groupby(ordered, whole):
        changed = list(parts)
        walls = [part.wall_ms for part in changed if part.wall_ms is not None]
        common = {
            "id": transaction_id(lsid, number),
            "ts_ms": min(walls, default=ClusterTime.from_int(time).t * 1000),
            "_cluster_time": time,
        }
        yield {"status": "BEGIN", **common}
        counts = [{"data_collection": str(p.namespace), "event_count": p.events} for p in changed]
        yield {
            "status": "END",
            "event_count": sum(p.events for p in changed),
            "data_collections": counts,
            **common,
        }


def told_in(contents: Contents) -> Iterator[dict[str, Any]]:
    """BEGIN and END of each transaction of a batch, by cluster time."""
    if contents.transactional:
        yield from rows_of(_collection_events(contents.events))


class TransactionTable(AppendedTable):
    """The table at its path, made by the first transaction."""

    folder, schema = FOLDER, SCHEMA

    def land(self, contents: Contents) -> Landed:
        """Append the transactions of the batch's events: all of them, whatever becomes of single collections."""
        rows = list(told_in(contents))
        if rows:
            self.append(rows, contents.identity)
        return Landed(transactions=len(rows) // 2)


def _collection_events(events: DataFrame) -> Iterator[CollectionEvents]:
    within = events.where(F.col("txn_number").isNotNull())
    parts = within.groupBy("cluster_time", "lsid", "txn_number", "db", "collection")
    for row in parts.agg(F.count("*"), F.min(F.unix_millis("wall_time"))).toArrow().to_pylist():
        time, lsid, number, database, collection, count, wall = row.values()
        yield CollectionEvents(time, lsid, number, Namespace(database, collection), count, wall)
