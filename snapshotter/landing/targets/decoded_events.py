"""Events of one collection as rows of its table, decoded on the executors and held there, and what cannot be decoded.

Decoding finds out which fields there are, and which documents fail; either makes it be done once more: under a plan
that knows the fields, or without the events that failed, for what cannot be processed hides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from snapshotter.landing.tables import OpenTable
from snapshotter.landing.targets.event_files import KEPT, KEPT_SCHEMA, EventFiles
from snapshotter.landing.targets.target import KEYS_SCHEMA, CollectionContents
from snapshotter.reading.document_errors import DocumentError, Met
from streaming.decode.change_details import OF_SOURCE, OF_TRANSACTIONS, Details
from streaming.decode.dead_letters import DEAD, Where
from streaming.decode.streamed_rows import EVENT_COLUMNS, Failed, decode_latest, row_schema
from streaming.delta.local_checkpoints import free_checkpoint, held
from streaming.layout import AnyLayout, TablePlan
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

PARTITION_BYTES = 16 << 20
"""How much of a batch one task decodes: the batch is divided by key accordingly. What lands does not depend on it, so a
batch that is tried again may be divided otherwise."""
MEMORY_BYTES = 256 << 20
_ROUNDS = 8
"""How often events that cannot be decoded are left out, and those before them tried."""


@dataclass(frozen=True, slots=True)
class Said:
    """What rows are to have of what their events say of themselves: ``details`` makes it, and ``orders`` is the place
    of each event in its transaction (`streaming.events.envelope.transaction_orders`; None: there are none)."""

    details: Details
    orders: DataFrame | None = None

    def given(self, events: DataFrame) -> DataFrame:
        """These events with all that it is made of."""
        if self.orders is not None:
            events = events.join(F.broadcast(self.orders), "ord", "left")
        else:
            events = events.withColumns({name: F.lit(None).cast("long") for name in OF_TRANSACTIONS})
        return events.select(*EVENT_COLUMNS, *OF_SOURCE, *OF_TRANSACTIONS)


def decoded(
    opened: OpenTable,
    batch: CollectionContents,
    events: DataFrame,
    dead: dict[int, str],
    *,
    fails: bool,
    said: Said | None = None,
    files: EventFiles | None = None,
) -> tuple[DataFrame, pa.Table, int]:
    """The rows of the ``batch`` in the table ``opened``, of its ``events``, under a plan that knows all their fields;
    key and cluster time of each; and how many of them are deletes. What cannot be decoded goes to ``dead``, by its
    place; raises DocumentError for it where it ``fails``. ``said``: the rows are to tell of their events, too.
    ``files``: the rows lie there, and only the columns `KEPT` come."""
    layout, plan = opened.table.layout, opened.known_plan()
    events = events.select(*EVENT_COLUMNS) if said is None else said.given(events)
    details, detailed = None if said is None else said.details, said is not None
    partitions = max(batch.splits, -(-batch.size_bytes // PARTITION_BYTES))
    if partitions > 1:
        # The events of a key may lie in several splits; and a worker holds the newest event of each key of a partition.
        events = events.repartition(partitions, "_key")
    for tried in count():
        # The job that brings the keys holds the rows, too: on disk where there are many bytes of them.
        decode = decode_latest(layout, plan, frozenset(dead), details)
        if files is None:
            rows = events.mapInArrow(decode, row_schema(layout, plan, detailed=detailed))
        else:
            rows = events.mapInArrow(files.writing(decode, layout, plan), KEPT_SCHEMA)
        frame = held(rows, at_once=False, on_disk=batch.size_bytes > MEMORY_BYTES)
        try:
            found = frame.select(*KEPT).toArrow()
        except BaseException:
            free_checkpoint(frame)
            if files is not None:
                files.failed()
            raise
        texts = found["_trailer"].drop_null().to_pylist()
        grown, failed = _told(layout, plan, texts if files is None else files.taken(texts))
        if failed and fails:
            free_checkpoint(frame)
            raise _failure(batch.namespace, events, failed)
        dead |= {one.ord: one.error for one in failed}
        if grown == plan and (not failed or tried >= _ROUNDS):
            rows_found = found.filter(pc.is_null(found["_trailer"]))
            if files is not None:
                files.told = rows_found
            return frame, *_keys_of(rows_found)
        free_checkpoint(frame)
        if files is not None:
            files.settle()  # it is decoded anew
        plan = opened.grow(grown)
    raise AssertionError("it counts without end")


def _told(layout: AnyLayout, plan: TablePlan, texts: Sequence[str]) -> tuple[TablePlan, list[Failed]]:
    """The plan with the fields that it lacks, and what cannot be decoded."""
    seen, failed = layout.least_plan(), []
    for text in texts:
        if text.startswith(DEAD):
            failed.append(Failed.from_text(text))
        else:
            seen = seen.joined(layout.plan_from_json(text))
    return plan.merge(seen), failed


def _failure(namespace: Namespace, events: DataFrame, failed: Sequence[Failed]) -> DocumentError:
    """The error of the first of them in the stream."""
    first = min(failed, key=lambda one: one.ord)
    row = events.where(F.col("ord") == first.ord).select("document", "cluster_time").head()
    assert row is not None, "it was decoded from there"
    met = Met(Where.STREAM, str(namespace), bytes(row[0]), ClusterTime.from_int(row[1]))
    return DocumentError(first.error, met, others=len(failed) - 1)


def _keys_of(rows: pa.Table) -> tuple[pa.Table, int]:
    """Key and cluster time of each row, and how many of them are deletes."""
    deletes = pc.sum(pc.equal(rows["_op"], "d")).as_py() or 0
    return rows.select(KEYS_SCHEMA.names).cast(KEYS_SCHEMA), deletes
