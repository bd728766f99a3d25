"""An engine with topics: its changes come to a real broker as Debezium's documents say, beside its tables."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from snapshotter.reporting.status import TopicsReport
from snapshotter.testing.kafka import KafkaBroker, start_kafka
from streaming.keys.decoded import key_of
from tests.support.debezium_consumer import State, by_key, changes
from tests.support.engines import SECONDS, Lab, lab
from tests.support.kafka_records import consumed, records_of
from tests.support.tables import rows

__all__ = ["lab"]

# For a broker that is away. On a busy machine a broker that is there may not answer so soon.
QUICK = {
    "producer.override.max.block.ms": "1000",
    "producer.override.request.timeout.ms": "1000",
    "producer.override.delivery.timeout.ms": "2000",
}


def with_topics(lab: Lab, kafka: KafkaBroker, *collections: str, **options: object) -> list[str]:
    """The engine's settings, and its topics at the broker."""
    given = {
        "engine__topics__bootstrap__servers": kafka.bootstrap,
        "engine__topics__enabled": "true",
        **options,
    }
    lab.with_options("cluster_time", topic__prefix="shop", **given)
    topics = [f"shop.{lab.database}.{name}" for name in collections]
    for topic in topics:
        kafka.create_topic(topic)
    return topics


@pytest.mark.parametrize("schemas", ["true", "false"])
def test_a_consumer_of_debezium_reads_it(lab: Lab, kafka: KafkaBroker, schemas: str) -> None:
    """Inserts, updates, a replacement, deletes with tombstones: what it makes of them is the collection; with schemas
    and without (`key.converter.schemas.enable`, `value.converter.schemas.enable`), at the brokers of
    `engine.topics.bootstrap.servers`, where `engine.topics.enabled` asks for it."""
    options = {f"{side}__converter__schemas__enable": schemas for side in ("key", "value")}
    (topic,) = with_topics(lab, kafka, "orders", snapshot__mode="no_data", **options)
    orders = lab.collection("orders")
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        orders.insert_many([{"_id": n, "n": n} for n in range(5)])
        orders.update_one({"_id": 1}, {"$set": {"n": 10}, "$unset": {"gone": ""}})
        orders.replace_one({"_id": 2}, {"other": [1, 2]})
        orders.delete_one({"_id": 3})
        engine.catch_up(SECONDS)
        found = changes(consumed(kafka, topic, 9))
    assert [change.op for change in found] == ["c"] * 5 + ["u", "u", "d", None]
    state = State.of(found)
    assert state.documents == {
        "0": {"_id": 0, "n": 0},
        "1": {"_id": 1, "n": 10},
        "2": {"_id": 2, "other": [1, 2]},
        "4": {"_id": 4, "n": 4},
    }
    update, replacement, delete, tombstone = found[5:]
    assert json.loads(update.value["updateDescription"]["updatedFields"]) == {"n": 10}
    assert (replacement.value["updateDescription"], delete.value["after"]) == (None, None)
    assert (tombstone.value, tombstone.key) == (None, delete.key)
    lab.assert_equal("orders")


def test_a_broker_that_is_away_delays_topics_alone(lab: Lab) -> None:
    """Tables go on, and what waits is in the status, with its reason. Once the broker is back topics catch up: nothing
    is missing, and each document's changes are in their order."""
    with start_kafka() as own:
        (topic,) = with_topics(lab, own, "orders", snapshot__mode="no_data")
        lab.options.update(QUICK)
        orders = lab.collection("orders")
        with lab.running() as engine:
            engine.catch_up(SECONDS)
            orders.insert_many([{"_id": n, "n": 0} for n in range(3)])
            consumed(own, topic, 3)
            own.kill()
            for n in range(1, 4):
                orders.update_many({}, {"$set": {"n": n}})
                engine.catch_up(SECONDS)
            lab.assert_equal("orders")
            engine.until("the status to say so", lambda: reported(lab).trouble is not None, SECONDS)
            report = reported(lab)
            assert report.records_waiting >= 3
            assert report.condition == "kafka-unreachable"
            assert report.bytes_waiting > 0
            assert any("topics wait" in warning for warning in lab.status().warnings)
            own.start()
            engine.until("topics to catch up", lambda: reported(lab).records_waiting == 0, SECONDS)
            assert reported(lab).trouble is None
        found = by_key(changes(consumed(own, topic, records_of(own, topic))))
    for these in found.values():
        numbers = [json.loads(change.value["after"])["n"] for change in these]
        assert in_order(numbers, [0, 1, 2, 3])


def test_a_full_outbox_holds_the_stream(lab: Lab) -> None:
    """Above its bound nothing more is read, which the status says; when the broker is back the stream goes on, and
    nothing is missing."""
    with start_kafka() as own:
        (topic,) = with_topics(lab, own, "orders", snapshot__mode="no_data")
        lab.options.update(QUICK)
        lab.tune = lambda config: replace(config, topics=replace(config.topics, max_bytes=1))
        orders = lab.collection("orders")
        with lab.running() as engine:
            engine.catch_up(SECONDS)
            own.kill()
            orders.insert_one({"_id": 1})
            engine.until("the outbox to be full", lambda: reported(lab).full, SECONDS)
            held = lab.status().batch
            orders.insert_one({"_id": 2})
            assert any("engine.outbox.max.bytes" in warning for warning in lab.status().warnings)
            engine.until("the lag to grow", lambda: (lab.status().lag_seconds or 0) > 2, SECONDS)
            assert [row["_key"] for row in lab.rows("orders")] == [key_of(1)]
            assert held is not None
            own.start()
            engine.until("the stream to go on", lambda: len(lab.rows("orders")) == 2, SECONDS)
            engine.until("topics to catch up", lambda: reported(lab).records_waiting == 0, SECONDS)
        ids = {change.key["id"] for change in changes(consumed(own, topic, records_of(own, topic)))}
    assert ids == {"1", "2"}


def reported(lab: Lab) -> TopicsReport:
    report = lab.status().topics
    assert report is not None
    return report


def in_order(found: list[int], wanted: list[int]) -> bool:
    """Whether ``found`` is ``wanted``, with some stretches of it repeated: each number is the next one, or one that
    came before, and the end is reached."""
    reached = -1
    for number in found:
        if number > reached + 1:
            return False
        reached = max(reached, number)
    return reached == wanted[-1] and set(found) == set(wanted)


@pytest.mark.parametrize("files_from", ["0", "10000"])
def test_documents_that_snapshots_read_come_as_reads(lab: Lab, kafka: KafkaBroker, files_from: str) -> None:
    """Those of the first load and those of a backfill, each told as what it is; before any change that follows them.
    Both where READs lie in files, and where they are rows."""
    (topic,) = with_topics(lab, kafka, "orders", engine__read__files__min__documents=files_from)
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "n": n} for n in range(5)])
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        first = changes(consumed(kafka, topic, 5))
        orders.update_one({"_id": 1}, {"$set": {"n": 10}})
        engine.catch_up(SECONDS)
        engine.wait(engine.execute_snapshot(lab.name("orders")), SECONDS)
        found = changes(consumed(kafka, topic, 11))
    assert {change.op for change in first} == {"r"}
    assert {change.value["source"]["snapshot"] for change in first} == {"true"}
    assert State.of(first).documents == {str(n): {"_id": n, "n": n} for n in range(5)}
    update, *again = found[5:]
    assert (update.op, update.value["source"]["snapshot"]) == ("u", "false")
    assert [(change.op, change.value["source"]["snapshot"]) for change in again] == [("r", "incremental")] * 5
    assert State.of(found).documents == {str(n): {"_id": n, "n": 10 if n == 1 else n} for n in range(5)}


def test_transactions_and_heartbeats_have_topics(lab: Lab, kafka: KafkaBroker) -> None:
    """BEGIN and END with the counts, which the events of the transaction name with their place in it; heartbeats also
    while nothing changes."""
    prefix = f"t{lab.database}"
    topics = [f"{prefix}.{lab.database}.{name}" for name in ("orders", "stock")]
    for topic in (*topics, f"{prefix}.transaction", f"beats.{prefix}"):
        kafka.create_topic(topic)
    options = {"topic__heartbeat__prefix": "beats", "heartbeat__interval__ms": 1}
    with_topics(lab, kafka, snapshot__mode="no_data", provide__transaction__metadata="true", **options)
    lab.options["topic.prefix"] = prefix
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        with lab.client.start_session() as session, session.start_transaction():
            for n in range(2):
                lab.collection("orders").insert_one({"_id": n}, session=session)
            lab.collection("stock").insert_one({"_id": 9}, session=session)
        engine.catch_up(SECONDS)
        begin, end = changes(consumed(kafka, f"{prefix}.transaction", 2))
        orders, stock = (
            changes(consumed(kafka, topic, count)) for topic, count in zip(topics, (2, 1), strict=True)
        )
        beats = changes(consumed(kafka, f"beats.{prefix}", 2))
    assert (begin.value["status"], end.value["status"]) == ("BEGIN", "END")
    assert begin.key == end.key == {"id": begin.value["id"]}
    counts = {one["data_collection"]: one["event_count"] for one in end.value["data_collections"]}
    assert (counts, end.value["event_count"]) == ({lab.name("orders"): 2, lab.name("stock"): 1}, 3)
    blocks = [change.value["transaction"] for change in (*orders, *stock)]
    assert {block["id"] for block in blocks} == {begin.value["id"]}
    assert [block["total_order"] for block in blocks] == [1, 2, 3]
    assert [block["data_collection_order"] for block in blocks] == [1, 2, 1]
    assert all(beat.key == {"serverName": prefix} and beat.value.keys() == {"ts_ms"} for beat in beats)


def test_once_ends_when_topics_have_all_of_it(lab: Lab, kafka: KafkaBroker) -> None:
    """Then nothing waits, and nothing is left of it in the table or on the disk; collections that share a topic are
    named in the status."""
    with_topics(lab, kafka)
    topic = f"shop.{lab.database}.a_b"
    kafka.create_topic(topic)
    for name in ("a b", "a+b"):
        lab.collection(name).insert_one({"_id": name})
    lab.engine().engine.run(once=True)
    found = changes(consumed(kafka, topic, 2))
    assert {change.value["source"]["collection"] for change in found} == {"a b", "a+b"}
    assert [*(lab.state / "outbox").glob("stretch=*")] == []
    assert rows(lab.state / "outbox") == []
    assert any(f"all go to topic {topic}" in warning for warning in lab.status().warnings)
