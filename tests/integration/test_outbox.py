"""The outbox on real Delta, and its delivery to a real broker by Spark's Kafka sink: whole stretches, in their order,
at least once; what was delivered goes."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from snapshotter.outbox.delivery import Delivery, at_once
from snapshotter.outbox.kafka_sink import EVENT, HEARTBEAT, KafkaSink
from snapshotter.outbox.records import ARROW_SCHEMA
from snapshotter.outbox.table import FILE, Outbox, Place, Records, Stretch
from snapshotter.outbox.topics_config import TopicsConfig
from snapshotter.state.storage import MemoryStorage, Storage, StorageError
from snapshotter.testing.kafka import PASSWORD, USER
from snapshotter.testing.processes import wait_until
from streaming.connect import schemas
from streaming.connect.topic_names import TopicNames
from tests.support.kafka_records import consumed, records_of

APP = "snapshotter:test:1"
QUICK = {"max.block.ms": "1000", "request.timeout.ms": "1000", "delivery.timeout.ms": "2000"}
MUCH = 1 << 40


def rows(topic: str, stretch: int, keys: Sequence[str], kind: str = EVENT) -> list[dict[str, Any]]:
    """A record a key, in this order; a key that begins with a minus has no value."""
    return [
        {
            "kind": kind,
            "topic": topic,
            "key": json.dumps({"id": key.removeprefix("-")}).encode(),
            "value": None if key.startswith("-") else json.dumps({"n": [stretch, place]}).encode(),
            "cluster_time": 100,
            "place": place,
            "stretch": stretch,
        }
        for place, key in enumerate(keys)
    ]


@dataclass(slots=True)
class Rig:
    """An outbox, opened anew as often as one likes over the same table and storage, as starts of an engine do."""

    spark: SparkSession
    folder: Path
    config: TopicsConfig
    storage: Storage

    def outbox(self, max_bytes: int = MUCH) -> Outbox:
        return Outbox(lambda: self.spark, str(self.folder / "outbox"), self.storage, max_bytes)

    def append(self, outbox: Outbox, batch: int, topic: str, *keys: str) -> None:
        """In two files, and there in another order than they have to be sent in."""

        def records(place: Place) -> Records:
            every = rows(topic, place.number, keys)
            made = [pa.Table.from_pylist(every[at::2], ARROW_SCHEMA) for at in (1, 0)]
            parts = [self.spark.createDataFrame(table).coalesce(1) for table in made if table.num_rows]
            return Records(parts[0].union(parts[1]) if len(parts) > 1 else parts[0])

        outbox.append(records, APP, batch, {"batch": batch})

    @contextmanager
    def delivering(self, outbox: Outbox, **config: Any) -> Iterator[Delivery]:
        with Delivery(outbox, KafkaSink(replace(self.config, **config)), flush_seconds=60) as delivery:
            yield delivery

    @property
    def delivered(self) -> int:
        return int(json.loads(self.storage.read_text(FILE) or '{"delivered": 0}')["delivered"])

    @property
    def stretches_on_disk(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "outbox").glob("stretch=*"))


@pytest.fixture
def rig(spark: SparkSession, tmp_path: Path, kafka: Any) -> Rig:
    config = TopicsConfig(TopicNames("shop"), kafka.bootstrap, key_schemas=False, value_schemas=False)
    return Rig(spark, tmp_path, config, MemoryStorage())


def values(messages: Sequence[Any]) -> list[list[int] | None]:
    return [None if m.value() is None else json.loads(m.value())["n"] for m in messages]


def test_what_batches_append_is_sent_in_order_and_goes(rig: Rig, kafka: Any, topic: str) -> None:
    """Of each topic all in the order of the stream, tombstones as nulls; then the position is durable, and neither the
    table nor the disk has any of it. A batch that comes again appends nothing."""
    outbox = rig.outbox()
    outbox.open()
    assert outbox.waiting == ()
    rig.append(outbox, 1, topic, "a", "b", "-a", "c")
    rig.append(outbox, 2, topic, "b", "d")
    rig.append(outbox, 2, topic, "e")
    assert [(one.number, one.records) for one in outbox.waiting] == [(1, 4), (2, 2)]
    assert outbox.size_bytes > 0
    with rig.delivering(outbox) as delivery:
        found = consumed(kafka, topic, 6)
        wait_until(lambda: rig.delivered == 2, "the position to be durable")
        assert delivery.state.sent == 6
    assert values(found) == [[1, 0], [1, 1], None, [1, 3], [2, 0], [2, 1]]
    assert [json.loads(m.key())["id"] for m in found] == ["a", "b", "a", "c", "b", "d"]
    assert rig.stretches_on_disk == []
    again = rig.outbox()
    again.open()
    assert again.waiting == ()
    rig.append(again, 2, topic, "e")
    rig.append(again, 3, topic, "f")
    assert [(one.number, one.records) for one in again.waiting] == [(3, 1)]


def test_schemas_come_with_the_records_where_they_are_asked_for(rig: Rig, kafka: Any, topic: str) -> None:
    """Of the key, of the value, each by its own option; a tombstone has none. A topic's name stands in its schemas."""
    outbox = rig.outbox()
    with rig.delivering(outbox, key_schemas=True, value_schemas=True):
        rig.append(outbox, 1, topic, "a", "-a")
        first, tombstone = consumed(kafka, topic, 2)
    key, value = json.loads(first.key()), json.loads(first.value())
    assert key == {"schema": schemas.key_schema(topic), "payload": {"id": "a"}}
    assert value == {"schema": schemas.envelope_schema(topic), "payload": {"n": [1, 0]}}
    assert (tombstone.value(), json.loads(tombstone.key())) == (None, key)
    with rig.delivering(outbox, key_schemas=True):
        outbox.append(
            lambda place: Records(
                rig.spark.createDataFrame(
                    pa.Table.from_pylist(rows(topic, place.number, ["h"], HEARTBEAT), ARROW_SCHEMA)
                )
            ),
            APP,
            2,
            {},
        )
        beat = consumed(kafka, topic, 3)[2]
    assert json.loads(beat.key())["schema"] == schemas.HEARTBEAT_KEY
    assert json.loads(beat.value()) == {"n": [2, 0]}


def test_a_broker_that_is_away_is_waited_for(rig: Rig, topic: str) -> None:
    """What keeps topics from being fed is said; batches go on appending; once it is back everything is sent, in order,
    though part of it may come twice."""
    from snapshotter.testing.kafka import start_kafka

    with start_kafka() as own:
        own.create_topic(topic)
        outbox = rig.outbox()
        with rig.delivering(outbox, bootstrap_servers=own.bootstrap, producer=QUICK) as delivery:
            rig.append(outbox, 1, topic, "a", "b")
            assert values(consumed(own, topic, 2)) == [[1, 0], [1, 1]]
            own.kill()
            rig.append(outbox, 2, topic, "a")
            wait_until(lambda: delivery.state.trouble is not None, "the trouble to be said")
            assert "kafka" in str(delivery.state.trouble).lower()
            rig.append(outbox, 3, topic, "b")
            assert [one.number for one in outbox.waiting] == [2, 3]
            own.start()
            wait_until(lambda: not outbox.waiting, "topics to catch up")
            assert delivery.state.trouble is None
        found = values(consumed(own, topic, 4))
        assert found[:2] == [[1, 0], [1, 1]]
        assert found[2:4] in ([[2, 0], [3, 0]], [[2, 0], [2, 0]])


class Crash(StorageError):
    """Where a process would have ended."""


class StorageThatFails(MemoryStorage):
    """Takes nothing while ``fails``."""

    fails = threading.Event()

    def write_text(self, name: str, text: str) -> None:
        if self.fails.is_set():
            raise Crash(name)
        super().write_text(name, text)


def test_a_crash_before_the_position_is_durable_repeats_the_stretch_whole(
    rig: Rig, kafka: Any, topic: str
) -> None:
    """The next start sends it from its beginning, in the same order, and what follows behind it."""
    rig.storage = StorageThatFails()
    rig.storage.fails.set()
    first = rig.outbox()
    rig.append(first, 1, topic, "a", "b", "c")
    with rig.delivering(first) as delivery:
        consumed(kafka, topic, 3)
        wait_until(lambda: delivery.state.trouble is not None, "the failure")
    rig.storage.fails.clear()
    before = len(first.waiting)
    second = rig.outbox()
    with rig.delivering(second):
        rig.append(second, 2, topic, "a")
        wait_until(lambda: rig.delivered == 2, "all to be sent")
    found = values(consumed(kafka, topic, records_of(kafka, topic)))
    assert before == 1
    counted = Counter(map(str, found))
    assert counted["[2, 0]"] == 1
    assert found[-1] == [2, 0]
    for start in range(0, len(found) - 1, 3):
        assert found[start : start + 3] == [[1, 0], [1, 1], [1, 2]]


def test_it_is_full_above_its_bound(rig: Rig, topic: str) -> None:
    """By the bytes of what waits, also at the next start; what has been delivered does not count."""
    outbox = rig.outbox(1)
    assert not outbox.full
    rig.append(outbox, 1, topic, "a")
    assert outbox.full
    again = rig.outbox(1)
    again.open()
    assert again.full
    assert again.waiting[0].size_bytes == outbox.waiting[0].size_bytes
    again.delivered(1)
    assert not again.full


def test_an_attempt_that_fails_behind_its_commit_is_not_forgotten(
    rig: Rig, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there waits, whether the batch comes again or not, and appends nothing then; the next one has a number of
    its own."""
    outbox = rig.outbox()
    outbox.open()
    with monkeypatch.context() as patch:
        patch.setattr(outbox, "_commit_of", lambda number: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            rig.append(outbox, 1, topic, "a", "b")
        assert outbox.recorded(APP) == 1
        assert [(one.number, one.records) for one in outbox.waiting] == [(1, 2)]
        with pytest.raises(ZeroDivisionError):
            rig.append(outbox, 2, topic, "c", "d", "e")
    rig.append(outbox, 3, topic, "f")
    rig.append(outbox, 2, topic, "c", "d", "e")
    assert [(one.number, one.records) for one in outbox.waiting] == [(1, 2), (2, 3), (3, 1)]


def test_what_an_earlier_pruning_has_left_goes(rig: Rig, topic: str) -> None:
    """It was killed between its commit and the last folder; or files lie there that no commit has added. A start
    removes them, and so does a later pruning; what waits stays."""
    outbox = rig.outbox()
    rig.append(outbox, 1, topic, "a")
    left = rig.folder / "outbox" / "stretch=0"
    for look in (rig.outbox, lambda: outbox):
        left.mkdir()
        (left / "told-1-0-x.parquet").write_bytes(b"left")
        opened = look()
        opened.open()
        if opened is outbox:
            opened.prune()
        assert rig.stretches_on_disk == ["stretch=1"]
        assert [one.number for one in opened.waiting] == [1]


def test_what_is_sent_together_is_bounded() -> None:
    """By records and by bytes; the oldest always goes."""
    many = tuple(Stretch(number, 150_000, 1, 0) for number in range(3))
    assert at_once(many) == many[:1]
    large = tuple(Stretch(number, 1, 40 << 20, 0) for number in range(3))
    assert at_once(large) == large[:1]
    small = tuple(Stretch(number, 1, 1, 0) for number in range(3))
    assert at_once(small) == small


def test_properties_reach_kafkas_client(rig: Rig, kafka: Any, topic: str) -> None:
    """`producer.override.*` under the names of the Java client: a listener with TLS and a password. The password is in
    no plan that Spark shows."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    secure = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{login} username="{USER}" password="{PASSWORD}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(kafka.certificate),
    }
    outbox = rig.outbox()
    with rig.delivering(outbox, bootstrap_servers=kafka.secure, producer=secure):
        rig.append(outbox, 1, topic, "a")
        assert values(consumed(kafka, topic, 1)) == [[1, 0]]
    executions = rig.spark._jsparkSession.sharedState().statusStore().executionsList()
    described = [executions.apply(at).physicalPlanDescription() for at in range(executions.size())]
    # Spark keeps a line without a plan where a job of an execution begins that it has already let go.
    plans = [plan for plan in described if plan is not None]
    assert any("kafka" in plan for plan in plans)
    assert not any(PASSWORD in plan for plan in plans)
