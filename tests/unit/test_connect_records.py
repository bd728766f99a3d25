"""Names of topics, schemas and JSON of records, as Debezium and Kafka Connect's JsonConverter write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streaming.connect import json_records, schemas
from streaming.connect.topic_names import TopicNames, refused_in, sanitized
from streaming.namespaces import Namespace

NAMES = TopicNames("fulfillment")


def envelope(**more: Any) -> dict[str, Any]:
    """A row of the changelog, as far as records need it."""
    source = {
        "version": "0.1",
        "connector": "mongodb",
        "name": "fulfillment",
        "ts_ms": 1,
        "db": "inventory",
        "collection": "customers",
        "ord": 31,
    }
    return {"op": "c", "ts_ms": 2, "source": source, "after": '{"_id": 1004}', "_key": "k", **more}


def test_topics_are_named_as_documented() -> None:
    """Prefix, database and collection; transactions behind the prefix, heartbeats before it."""
    assert NAMES.of(Namespace("inventory", "customers")) == "fulfillment.inventory.customers"
    assert NAMES.transactions == "fulfillment.transaction"
    assert NAMES.heartbeats == "__debezium-heartbeat.fulfillment"
    other = TopicNames("f", "-", "tx", "beat")
    assert (other.of(Namespace("a", "b.c")), other.transactions, other.heartbeats) == (
        "f-a-b.c",
        "f-tx",
        "beat-f",
    )
    assert TopicNames("f", heartbeat_name="alive").heartbeats == "alive"


def test_what_kafka_does_not_take_becomes_an_underscore() -> None:
    """And a name that is too long is cut; so two collections may share a topic, which is found."""
    assert NAMES.of(Namespace("shop", "düse $1")) == "fulfillment.shop.d_se__1"
    assert (sanitized("."), sanitized(".."), len(sanitized("x" * 300))) == ("_", "__", 249)
    assert (refused_in("a.b_c-d1"), refused_in("a b")) == (None, " ")
    one, two, three = Namespace("shop", "a b"), Namespace("shop", "a$b"), Namespace("shop", "c")
    assert NAMES.shared([one, three]) == {}
    assert NAMES.shared([two, three, one]) == {"fulfillment.shop.a_b": (one, two)}
    odd = Namespace("transaction", "x")
    assert TopicNames("f", ".", "transaction.x").shared([odd]) == {"f.transaction.x": (odd,)}


def test_schemas_have_the_documented_names() -> None:
    """Of keys and envelopes by the topic, of the blocks within by Debezium's own; a field's attributes in the order of
    the converter."""
    key = schemas.key_schema("t")
    assert json.dumps(key, separators=(",", ":")) == (
        '{"type":"struct","fields":[{"type":"string","optional":false,"field":"id"}],"optional":false,"name":"t.Key"}'
    )
    value = schemas.envelope_schema("t")
    fields = {field["field"]: field for field in value["fields"]}
    assert value["name"] == "t.Envelope"
    assert list(fields) == [
        *("before", "after", "updateDescription", "source", "op", "ts_ms", "ts_us", "ts_ns", "transaction")
    ]
    assert list(fields["after"]) == ["type", "optional", "name", "version", "field"]
    assert {
        name: fields[name].get("name") for name in ("before", "source", "transaction", "updateDescription")
    } == {
        "before": "io.debezium.data.Json",
        "source": "io.debezium.connector.mongo.Source",
        "transaction": "event.block",
        "updateDescription": "io.debezium.connector.mongodb.changestream.updatedescription",
    }
    source = {field["field"]: field for field in fields["source"]["fields"]}
    assert source["snapshot"]["parameters"]["allowed"].split(",") == [*schemas.SNAPSHOTS]
    assert source["ord"] == {"type": "int32", "optional": False, "field": "ord"}
    assert json.loads(schemas.opening(key) + "{}}") == {"schema": key, "payload": {}}


def test_a_payload_has_every_field_of_its_schema() -> None:
    """In its order, null where there is nothing; what has a default says that. What is ours stays out."""
    found = json_records.event_payload(envelope(updateDescription={"updatedFields": "{}"}))
    payload = json.loads(found)
    assert list(payload) == [field["field"] for field in schemas.envelope_schema("")["fields"]]
    assert payload["updateDescription"] == {
        "removedFields": None,
        "updatedFields": "{}",
        "truncatedArrays": None,
    }
    assert list(payload["source"]) == [
        *("version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", "ts_us", "ts_ns"),
        *("collection", "ord", "lsid", "txnNumber", "wallTime"),
    ]
    assert (payload["source"]["snapshot"], payload["before"], payload["transaction"]) == ("false", None, None)
    assert b" " not in found.replace(b'{\\"_id\\": 1004}', b"")
    truncated = envelope(
        updateDescription={"truncatedArrays": [{"field": "a", "size": 2}], "removedFields": ["b"]}
    )
    description = json.loads(json_records.event_payload(truncated))["updateDescription"]
    assert description == {
        "removedFields": ["b"],
        "updatedFields": None,
        "truncatedArrays": [{"field": "a", "size": 2}],
    }


def test_a_payload_without_what_is_required_is_an_error() -> None:
    """By the field's name: no consumer that goes by the schema could read it."""
    with pytest.raises(ValueError, match="null where collection is required"):
        json_records.event_payload(envelope(source={**envelope()["source"], "collection": None}))


def test_keys_transactions_and_heartbeats() -> None:
    """An id is the text of its JSON; BEGIN has no counts, END has them; a heartbeat has the moment."""
    assert json_records.key_payload('"1234"') == b'{"id":"\\"1234\\""}'
    begin = {"status": "BEGIN", "id": "x:1", "ts_ms": 5, "_cluster_time": 7}
    assert json_records.transaction_payload(begin) == (
        b'{"status":"BEGIN","id":"x:1","event_count":null,"data_collections":null,"ts_ms":5}'
    )
    counts = [{"data_collection": "shop.orders", "event_count": 2}]
    end = {**begin, "status": "END", "event_count": 2, "data_collections": counts}
    assert json.loads(json_records.transaction_payload(end))["data_collections"] == counts
    assert json_records.transaction_key("x:1") == b'{"id":"x:1"}'
    assert (json_records.heartbeat_key("shop"), json_records.heartbeat_payload(9)) == (
        b'{"serverName":"shop"}',
        b'{"ts_ms":9}',
    )
