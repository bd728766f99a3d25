"""The schemas of Debezium's records as Kafka Connect's JsonConverter writes them: one JSON object for all records of a
topic.

They are made of a few forms, in the order of fields and attributes that the converter writes, so that a text equals the
converter's. A schema depends on nothing but the topic's name: so it is added to a record when it is sent, and lies in
no table (decision 0043).

Pure: standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

SNAPSHOTS = (
    "true",
    "first",
    "first_in_data_collection",
    "last_in_data_collection",
    "last",
    "false",
    "incremental",
)
"""What ``source.snapshot`` may say."""
_COMMON = "io.debezium.connector.common"


def _of(kind: str, *, optional: bool = False) -> Schema:
    return {"type": kind, "optional": optional}


def _struct(
    fields: Mapping[str, Schema], name: str, version: int | None = 1, *, optional: bool = False
) -> Schema:
    listed = [{**schema, "field": field} for field, schema in fields.items()]
    said = {} if version is None else {"version": version}
    return {"type": "struct", "fields": listed, "optional": optional, "name": name, **said}


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items, "optional": True}


_STRING, _LONG, _INT = _of("string"), _of("int64"), _of("int32")
_STRING_OR_NULL, _LONG_OR_NULL = _of("string", optional=True), _of("int64", optional=True)
_JSON: Schema = {**_STRING_OR_NULL, "name": "io.debezium.data.Json", "version": 1}
_SNAPSHOT: Schema = {
    **_STRING_OR_NULL,
    "name": "io.debezium.data.Enum",
    "version": 1,
    "parameters": {"allowed": ",".join(SNAPSHOTS)},
    "default": "false",
}
_SOURCE = _struct(
    {
        "version": _STRING,
        "connector": _STRING,
        "name": _STRING,
        "ts_ms": _LONG,
        "snapshot": _SNAPSHOT,
        "db": _STRING,
        "sequence": _STRING_OR_NULL,
        "ts_us": _LONG_OR_NULL,
        "ts_ns": _LONG_OR_NULL,
        "collection": _STRING,
        "ord": _INT,
        "lsid": _STRING_OR_NULL,
        "txnNumber": _LONG_OR_NULL,
        "wallTime": _LONG_OR_NULL,
    },
    "io.debezium.connector.mongo.Source",
)
_CHANGESTREAM = "io.debezium.connector.mongodb.changestream"
_TRUNCATED = _struct({"field": _STRING, "size": _INT}, f"{_CHANGESTREAM}.truncatedarray")
_UPDATE = _struct(
    {"removedFields": _array(_STRING), "updatedFields": _JSON, "truncatedArrays": _array(_TRUNCATED)},
    f"{_CHANGESTREAM}.updatedescription",
    optional=True,
)
_BLOCK = _struct(
    {"id": _STRING, "total_order": _LONG, "data_collection_order": _LONG}, "event.block", optional=True
)
_COUNT = _struct({"data_collection": _STRING, "event_count": _LONG}, "event.collection", optional=True)

_ENVELOPE_FIELDS = {
    "before": _JSON,
    "after": _JSON,
    "updateDescription": _UPDATE,
    "source": _SOURCE,
    "op": _STRING_OR_NULL,
    "ts_ms": _LONG_OR_NULL,
    "ts_us": _LONG_OR_NULL,
    "ts_ns": _LONG_OR_NULL,
    "transaction": _BLOCK,
}


def key_schema(topic: str) -> Schema:
    """Of the keys of a collection's events."""
    return _struct({"id": _STRING}, f"{topic}.Key", None)


def envelope_schema(topic: str) -> Schema:
    """Of the values of a collection's events."""
    return _struct(_ENVELOPE_FIELDS, f"{topic}.Envelope", None)


TRANSACTION_KEY = _struct({"id": _STRING}, f"{_COMMON}.TransactionMetadataKey")
TRANSACTION_VALUE = _struct(
    {
        "status": _STRING,
        "id": _STRING,
        "event_count": _LONG_OR_NULL,
        "data_collections": _array(_COUNT),
        "ts_ms": _LONG,
    },
    f"{_COMMON}.TransactionMetadataValue",
)
HEARTBEAT_KEY = _struct({"serverName": _STRING}, f"{_COMMON}.ServerNameKey")
HEARTBEAT_VALUE = _struct({"ts_ms": _LONG}, f"{_COMMON}.Heartbeat")


def opening(schema: Schema) -> str:
    """What stands before the payload in a record with its schema; a brace closes it."""
    return f'{{"schema":{json.dumps(schema, separators=(",", ":"), ensure_ascii=False)},"payload":'
