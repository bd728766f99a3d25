"""Ids that a batch leaves to be read again, in windows of their own (`core.rules.in_flight`).

- The last event of a document is an update that came without its full document (`capture.mode=change_streams`, a
  post-image that the server does not have, a lookup that found nothing), and no full one follows, nor a drop.
- In a sharded collection: an event has changed a document's shard key, or may have (`landing.stale_rows`).

In a sharded collection all documents that share an id are read: their keys tell them apart, but reads ask for an id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from snapshotter.core.values.chunks import Bound
from snapshotter.core.values.namespace_changes import Truncation
from snapshotter.landing.frames import frame_of
from streaming.bson.raw_fields import document_of
from streaming.keys.keys import id_of, is_sharded, whole_id
from streaming.namespaces import Namespace

Incomplete = dict[Namespace, dict[str, Bound]]
"""By collection, the bounds of its ids by their keys."""


def incomplete(events: DataFrame, rows: Iterable[Row], stays: Callable[[Row], bool]) -> Incomplete:
    """The ids of documents whose last event in the batch is a bare update. ``events`` are all of the batch, ``rows``
    those that the driver looks at; ``stays`` is true for an event of a table that no drop follows."""
    missing = [row for row in rows if row["op"] == "u" and not row["moves"] and stays(row)]
    if not missing:
        return {}
    keys = pa.table({"_missed": pa.array(list({row["_key"] for row in missing}), pa.string())})
    missed = F.broadcast(frame_of(events.sparkSession, keys))
    full = events.where(~bare()).join(missed, F.col("_key") == F.col("_missed"), "left_semi")
    last = {
        tuple(row)[:3]: row[3] for row in full.groupBy("db", "collection", "_key").agg(F.max("ord")).collect()
    }
    found: Incomplete = {}
    for row in missing:
        if last.get((row["db"], row["collection"], row["_key"]), -1) < row["ord"]:
            add(found, collection_of(row), row["_key"], bytes(row["document_key"]))
    return found


def add(found: Incomplete, namespace: Namespace, key: str, document_key: bytes) -> None:
    """Add to ``found`` the document that an event is about. ``key`` is its ``_key``, ``document_key`` the BSON of its
    documentKey. In a sharded collection all documents that share its id are added."""
    bound = Bound(document_key, key)
    if is_sharded(key):
        bound = Bound(document_of([id_of(document_key)]), whole_id(key))
    found.setdefault(namespace, {})[bound.key] = bound


def bare() -> Column:
    """An update that came without its full document."""
    return F.expr("op = 'u' AND document IS NULL")


def moves() -> Column:
    """An update of a document's shard key."""
    return F.expr("coalesce(moves, false)")


def collection_of(row: Row) -> Namespace:
    """Where an event happened."""
    return Namespace(row["db"], row["collection"])


def after_truncation(truncated: Truncation) -> Column:
    """Events that the drop, or the rename, does not take along."""
    return F.col("ord") > truncated.ord


def events_of(namespace: Namespace) -> Column:
    """Events of this collection."""
    return (F.col("db") == namespace.database) & (F.col("collection") == namespace.collection)
