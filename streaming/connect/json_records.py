"""Payloads of Debezium's records as JSON: what Kafka Connect's JsonConverter writes without schemas.

A payload has every field of its schema, in the schema's order, also those that are null; a field that has a default
says that instead of null, as the converter does (``source.snapshot``: "false").

Pure but for the JSON writer, which is orjson: texts of documents may be large.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from streaming.connect.schemas import TRANSACTION_VALUE, Schema, envelope_schema

_ENVELOPE = envelope_schema("")


def key_payload(id_text: str) -> bytes:
    """The key of a document: its ``_id`` as JSON text, in the one field ``id``."""
    return orjson.dumps({"id": id_text})


def event_payload(envelope: Mapping[str, Any]) -> bytes:
    """The value of an event, from a row that has the fields of the envelope under their names."""
    return orjson.dumps(shaped(envelope, _ENVELOPE))


def transaction_key(transaction: str) -> bytes:
    """The key of a transaction's BEGIN and END."""
    return orjson.dumps({"id": transaction})


def transaction_payload(row: Mapping[str, Any]) -> bytes:
    """BEGIN or END of a transaction, from a row of the table of transactions."""
    return orjson.dumps(shaped(row, TRANSACTION_VALUE))


def heartbeat_key(server_name: str) -> bytes:
    """The key of all heartbeats of a source."""
    return orjson.dumps({"serverName": server_name})


def heartbeat_payload(now_ms: int) -> bytes:
    """A heartbeat of this moment."""
    return orjson.dumps({"ts_ms": now_ms})


def shaped(value: Any, schema: Schema) -> Any:
    """``value`` with exactly the fields of ``schema``. Raises ValueError where one is null that must not be."""
    if value is None:
        if "default" in schema:
            return schema["default"]
        if schema["optional"]:
            return None
        raise ValueError(f"null where {schema.get('field', schema['type'])} is required")
    if schema["type"] == "struct":
        return {field["field"]: shaped(value.get(field["field"]), field) for field in schema["fields"]}
    if schema["type"] == "array":
        return [shaped(item, schema["items"]) for item in value]
    return value
