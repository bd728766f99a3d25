"""Records of the outbox: made of envelopes on the executors, and of transactions and heartbeats on the driver.

A record's place within its time follows the stream: an event's, its tombstone's behind it, and a READ's behind all
events of its time, for it shows its document as of then or later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from snapshotter.outbox.kafka_sink import EVENT, HEARTBEAT, TRANSACTION
from snapshotter.outbox.table import SCHEMA
from snapshotter.outbox.topics_config import TopicsConfig
from streaming.connect import json_records
from streaming.connect.topic_names import TopicNames
from streaming.namespaces import Namespace

ARROW_SCHEMA: pa.Schema = to_arrow_schema(SCHEMA)
_OF_READS = 1 << 62
_Row = dict[str, Any]


def of_envelopes(envelopes: DataFrame, config: TopicsConfig, stretch: int) -> DataFrame:
    """The records of these ``envelopes`` (`streaming.events.envelope`), as ``config`` says, in the ``stretch`` of this
    number."""
    return envelopes.mapInArrow(partial(_records, config.names, config.tombstones, stretch), SCHEMA)


def of_reads(
    tell: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], config: TopicsConfig, stretch: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What makes records of READs, in one step in a worker: by way of the envelopes that ``tell`` makes of them.
    ``config`` and ``stretch`` as in `of_envelopes`."""
    records = partial(_records, config.names, config.tombstones, stretch)
    return lambda reads: records(tell(reads))


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
