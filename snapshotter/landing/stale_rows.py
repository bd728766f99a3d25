"""Rows that a change of a document's shard key leaves behind, in a sharded collection.

MongoDB shows such a change in one of two ways. A document that moves to another shard is deleted there and inserted
here. One that stays is updated or replaced under its new documentKey, and nothing names the old one, whose row would
stay for ever. An update says which fields it changes (`streaming.source.change_events`), a replacement does not: so
where one comes, other keys of its `_id` are looked for, in the table and in the batch. Usually there are none.

The ids that are found are read again, with reconcile (`core.rules.in_flight`): two documents may well share an `_id`,
and only the source knows which of them are there.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from streaming.delta.state_table import StateTable
from streaming.keys.keys import ID_END, whole_id


def stale_rows(moved: Iterable[Row], events: DataFrame, table: StateTable | None) -> list[tuple[str, bytes]]:
    """Key and documentKey of each event of a sharded collection that may have left a row behind. ``moved``: the events
    that are known to have changed a shard key; ``events``: all of the collection; ``table``: None where it has no rows
    that stay."""
    found = [(row["_key"], bytes(row["document_key"])) for row in moved]
    return found + _replaced_beside_others(events, table)


def _replaced_beside_others(events: DataFrame, table: StateTable | None) -> list[tuple[str, bytes]]:
    replaced = events.where(F.col("operation_type") == "replace")
    replaced = replaced.select("_key", "document_key", id_part("_key").alias("_id"))
    least, most = replaced.agg(F.min("_key"), F.max("_key")).collect()[0]
    if least is None:
        return []
    others = events.select("_key")
    if table is not None:
        others = others.union(table.keys([(least.partition(ID_END)[0], whole_id(most))]))
    others = others.select(F.col("_key").alias("_other"), id_part("_key").alias("_id"))
    sharing = others.join(F.broadcast(replaced), "_id").where("_key != _other")
    return [(row[0], bytes(row[1])) for row in sharing.select("_key", "document_key").distinct().collect()]


def id_part(key: str) -> Column:
    """What the keys of one `_id` begin with, and no other's."""
    return F.substring_index(F.col(key), ID_END, 1)
