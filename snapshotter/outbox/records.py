"""Records of the outbox: made of envelopes on the executors, and of transactions and heartbeats on the driver.

A record's place within its time follows the stream: an event's, its tombstone's behind it, and a READ's behind all
events of its time, for it shows its document as of then or later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from snapshotter.outbox.kafka_sink import EVENT, HEARTBEAT, TRANSACTION
from snapshotter.outbox.table import SCHEMA, STRETCH
from snapshotter.outbox.topics_config import TopicsConfig
from streaming.connect import json_records
from streaming.connect.topic_names import TopicNames
from streaming.events.read_envelopes import ReadTeller
from streaming.namespaces import Namespace

ARROW_SCHEMA: pa.Schema = to_arrow_schema(SCHEMA)
FILE_SCHEMA: pa.Schema = pa.schema([field for field in ARROW_SCHEMA if field.name != STRETCH])
"""Of a file in a partition, which says it for all rows."""
DISTINCT = ("key", "value")
"""The columns that have hardly any value twice."""
_OF_READS = 1 << 62
_Row = dict[str, Any]


def of_envelopes(envelopes: DataFrame, config: TopicsConfig, stretch: int) -> DataFrame:
    """The records of these ``envelopes`` (`streaming.events.envelope`), as ``config`` says, in the ``stretch`` of this
    number."""
    return envelopes.mapInArrow(partial(_records, config.names, config.tombstones, stretch), SCHEMA)


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """Makes, in a worker, records for ``topic`` of the READs that ``teller`` tells: those that `of_envelopes` makes of
    their envelopes. ``stretch``: as there; None leaves that column out.

    READs of a window differ in nothing but key and document, so all else of a record is made once for them.
    """

    teller: ReadTeller
    topic: str
    stretch: int | None = None

    def batches(self, reads: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """``reads``, which have the columns of `READS`, as batches of `ARROW_SCHEMA`, or of `FILE_SCHEMA` without a
        stretch."""
        around: dict[tuple[int, str], tuple[bytes, bytes]] = {}
        for batch in reads:
            yield self._told(batch, around)

    def _told(
        self, reads: pa.RecordBatch, around: dict[tuple[int, str], tuple[bytes, bytes]]
    ) -> pa.RecordBatch:
        texts = reads.column("_told_document").to_pylist()
        windows = zip(*(reads.column(name).to_pylist() for name in ("cluster_time", "snapshot")), strict=True)
        values: list[bytes] = []
        for place, (window, text) in enumerate(zip(windows, texts, strict=True)):
            if (found := around.get(window)) is None:
                (envelope,) = next(self.teller.batches([reads.slice(place, 1)])).to_pylist()
                found = around[window] = json_records.around_document(envelope)
            values.append(found[0] + json_records.document_payload(text) + found[1])
        keys = map(json_records.key_payload, reads.column("_told_key").to_pylist())
        own = {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "cluster_time": reads.column("cluster_time"),
        }
        same = {"kind": EVENT, "topic": self.topic, "place": _OF_READS, STRETCH: self.stretch}
        schema = FILE_SCHEMA if self.stretch is None else ARROW_SCHEMA
        repeated = {
            of.name: pa.repeat(pa.scalar(same[of.name], of.type), len(reads))
            for of in schema
            if of.name in same
        }
        return pa.RecordBatch.from_pydict(own | repeated, schema)


def of_transactions(rows: Iterable[Mapping[str, Any]], config: TopicsConfig, stretch: int) -> Iterator[_Row]:
    """BEGIN and END, from the ``rows`` of the table of transactions, as records of a ``stretch``; ``config`` has the
    topic."""
    for place, row in enumerate(rows):
        yield {
            "kind": TRANSACTION,
            "topic": config.names.transactions,
            "key": json_records.transaction_key(row["id"]),
            "value": json_records.transaction_payload(row),
            "cluster_time": row["_cluster_time"],
            "place": place,
            "stretch": stretch,
        }


def heartbeat(config: TopicsConfig, now_ms: int, cluster_time: int, stretch: int) -> _Row:
    """A heartbeat, written at ``now_ms`` with the batch that ends at ``cluster_time``, as a record of ``stretch``;
    ``config`` has the topic and the name of the source."""
    return {
        "kind": HEARTBEAT,
        "topic": config.names.heartbeats,
        "key": json_records.heartbeat_key(config.server_name),
        "value": json_records.heartbeat_payload(now_ms),
        "cluster_time": cluster_time,
        "place": 0,
        "stretch": stretch,
    }


def _records(
    names: TopicNames, tombstones: bool, stretch: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``."""
    topics: dict[tuple[str, str], str] = {}
    for batch in batches:
        rows = [record for row in batch.to_pylist() for record in _of(row, names, topics, tombstones)]
        for record in rows:
            record["stretch"] = stretch
        yield pa.RecordBatch.from_pylist(rows, ARROW_SCHEMA)


def _of(
    row: Mapping[str, Any], names: TopicNames, topics: dict[tuple[str, str], str], tombstones: bool
) -> Iterator[_Row]:
    """The record of an envelope, and a delete's tombstone behind it."""
    source = row["source"]
    where = source["db"], source["collection"]
    if (topic := topics.get(where)) is None:
        topic = topics[where] = names.of(Namespace(*where))
    order = row["_order"]
    record = {
        "kind": EVENT,
        "topic": topic,
        "key": json_records.key_payload(row["key"]),
        "value": json_records.event_payload(row),
        "cluster_time": row["_cluster_time"],
        "place": _OF_READS if order is None else 2 * order,
    }
    yield record
    if tombstones and row["op"] == "d":
        yield {**record, "value": None, "place": record["place"] + 1}
