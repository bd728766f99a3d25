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
_DOCUMENT = "after"


def key_payload(id_text: str) -> bytes:
    """The key of a document: its ``_id`` as JSON text, in the one field ``id``."""
    return orjson.dumps({"id": id_text})


def event_payload(envelope: Mapping[str, Any]) -> bytes:
    """The value of an event, from a row that has the fields of the envelope under their names."""
    return orjson.dumps(shaped(envelope, _ENVELOPE))


def around_document(envelope: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """What the values of events that differ in nothing but their document (``after``) have before and behind it: it
    stands between them as `document_payload`. ``envelope`` as in `event_payload`."""
    fields = list(shaped(envelope, _ENVELOPE).items())
    at = next(place for place, (name, _) in enumerate(fields) if name == _DOCUMENT)
    before, behind = (orjson.dumps(dict(part)) for part in (fields[:at], fields[at + 1 :]))
    return before[:-1] + b"," + orjson.dumps(_DOCUMENT) + b":", b"," + behind[1:]


def document_payload(text: str) -> bytes:
    """A document, as its event's value has it."""
    return orjson.dumps(text)


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
