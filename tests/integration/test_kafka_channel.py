"""The Kafka channel against a real broker: where it begins, whose messages it takes, and what it survives."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from signals.channel import SignalsLost
from signals.channels.kafka_channel import KafkaChannel
from snapshotter.testing.kafka import PASSWORD, USER, KafkaBroker
from snapshotter.testing.processes import wait_until
from tests.support.signal_channels import PREFIX, KafkaRig, ack_all, healthy, log, numbers, polled, text_of

Opened = Callable[..., KafkaChannel]


@pytest.fixture
def rig(kafka: KafkaBroker, topic: str) -> KafkaRig:
    return KafkaRig(kafka, topic)


@pytest.fixture
def opened(rig: KafkaRig) -> Iterator[Opened]:
    """Opens the rig's channel; all are closed afterwards."""
    channels: list[KafkaChannel] = []

    def open_channel(**options: str) -> KafkaChannel:
        channels.append(rig.open(**options))
        return channels[-1]

    yield open_channel
    for channel in channels:
        channel.close()


def well(health: str | None) -> bool:
    return health is None


def test_only_messages_with_our_key_are_signals(rig: KafkaRig, opened: Opened) -> None:
    """Those of others, and those without a key, are passed over and counted; they may be anything."""
    ours = [text_of(log(1)), text_of(log(2))]
    rig.kafka.send_all(rig.topic, [("other", b"{"), (PREFIX, ours[0]), (None, ours[0]), (PREFIX, ours[1])])
    channel = opened()
    found = polled(channel, 2)
    assert numbers(found) == [1, 2]
    assert [item.name for item in found] == [f"{rig.topic}/0/1", f"{rig.topic}/0/3"]
    assert channel.ignored == 2
    assert all(abs(item.sent_at_ms - time.time_ns() // 1_000_000) < 600_000 for item in found)


def test_it_is_behind_until_the_end_of_the_topic(rig: KafkaRig, opened: Opened) -> None:
    """From the first moment on; also where the topic ends with what is no signal of ours, or has nothing at all."""
    empty = opened()
    assert empty.behind()
    wait_until(lambda: (empty.poll(), not empty.behind())[1], "the end of an empty topic", every=0.01)
    rig.send(*map(log, range(3)))
    rig.kafka.send_all(rig.topic, [("other", b"{")])
    channel = opened()
    assert channel.behind()
    wait_until(lambda: (channel.poll(), not channel.behind())[1], "the end of the topic", every=0.01)
    assert numbers(channel.poll()) == [0, 1, 2]


def test_without_an_id_topic_partition_and_offset_are_it(rig: KafkaRig, opened: Opened) -> None:
    """The same on every delivery."""
    rig.kafka.send(
        rig.topic, PREFIX, b'{"type": "pause-snapshot"}', b'{"id": null, "type": "resume-snapshot"}'
    )
    assert [item.id for item in polled(opened(), 2)] == [f"{rig.topic}/0/0", f"{rig.topic}/0/1"]
    assert [item.id for item in polled(opened(), 2)] == [f"{rig.topic}/0/0", f"{rig.topic}/0/1"]


def test_a_first_start_goes_on_where_the_group_stopped(rig: KafkaRig, opened: Opened) -> None:
    """Whoever comes from Debezium has its consumer group's offset: what it carried out is not repeated."""
    import confluent_kafka

    rig.send(log(1), log(2), log(3))
    before = confluent_kafka.Consumer({"bootstrap.servers": rig.kafka.bootstrap, "group.id": "kafka-signal"})
    before.commit(offsets=[confluent_kafka.TopicPartition(rig.topic, 0, 2)], asynchronous=False)
    before.close()
    assert numbers(polled(opened())) == [3]


def test_a_first_start_at_the_end_of_the_topic(rig: KafkaRig, opened: Opened) -> None:
    """By the option; that place is kept at once, so what comes before the next start is not missed."""
    rig.send(log(1))
    healthy(opened(auto_offset_reset="latest"), well)
    rig.send(log(2))
    assert numbers(polled(opened(auto_offset_reset="latest"))) == [2]


def test_signals_that_retention_removed_are_missed_aloud(rig: KafkaRig, opened: Opened) -> None:
    """Reading goes on at the oldest message, and what is gone is said, once, in its place."""
    rig.send(*map(log, range(6)))
    channel = opened()
    found = polled(channel, 6)
    channel.ack(found[0].name)
    channel.close()
    rig.kafka.forget_before(rig.topic, 4)
    channel = opened()
    lost, *rest = polled(channel, 3)
    assert isinstance(lost.error, SignalsLost)
    assert "lost its offsets 1 to 3" in str(lost.error)
    assert numbers(rest) == [4, 5]
    ack_all(channel, [lost, *rest])
    rig.send(log(6))
    assert numbers(polled(opened())) == [6]


def test_a_topic_that_does_not_exist_yet(kafka: KafkaBroker) -> None:
    """Health says so, nothing is raised, and signals come once it is there."""
    rig = KafkaRig(kafka, f"later-{uuid.uuid4().hex[:8]}")
    channel = rig.open()
    said = healthy(channel, lambda health: "does not exist" in str(health))
    assert rig.topic in str(said)
    kafka.create_topic(rig.topic)
    rig.send(log(1))
    assert numbers(polled(channel)) == [1]
    assert channel.health() is None
    channel.close()


def test_a_topic_of_two_partitions_is_refused(kafka: KafkaBroker) -> None:
    """Signals have an order in one partition only; health says what to do."""
    name = f"two-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, partitions=2)
    rig = KafkaRig(kafka, name)
    rig.send(log(1))
    channel = rig.open()
    said = healthy(channel, lambda health: "2 partitions" in str(health))
    assert "make a topic with one partition" in str(said)
    assert channel.poll() == []
    channel.close()


def test_a_topic_made_anew_is_read_from_its_beginning(rig: KafkaRig, opened: Opened) -> None:
    """Its offsets have been seen in the old one, and still none of its signals is taken for read."""
    rig.send(log(1), log(2))
    channel = opened()
    ack_all(channel, polled(channel, 2))
    channel.close()
    rig.kafka.delete_topic(rig.topic)
    rig.kafka.create_topic(rig.topic)
    rig.send(log(3), log(4), log(5))
    found = polled(opened(), 3)
    assert numbers(found) == [3, 4, 5]
    assert found[0].name == f"{rig.topic}/0/0#1"


def test_tls_and_a_password_as_java_writes_them(kafka: KafkaBroker, topic: str) -> None:
    """A truststore in PEM and a JAAS configuration reach the secure listener; with a wrong password nothing comes, and
    health says why."""
    rig = KafkaRig(kafka, topic)
    rig.send(log(1))
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"

    def secure(password: str) -> KafkaChannel:
        return rig.open(
            bootstrap=kafka.secure,
            security_protocol="SASL_SSL",
            sasl_mechanism="PLAIN",
            sasl_jaas_config=f'{module} required username="{USER}" password="{password}";',
            ssl_truststore_type="PEM",
            ssl_truststore_location=str(kafka.certificate),
        )

    wrong = secure("wrong")
    said = healthy(wrong, lambda health: "uthentication" in str(health))
    assert "wrong" not in str(said)
    assert wrong.poll() == []
    wrong.close()
    right = secure(PASSWORD)
    assert numbers(polled(right)) == [1]
    right.close()


def test_a_broker_that_is_down_goes_away_and_comes_back(
    kafka: KafkaBroker, rig: KafkaRig, opened: Opened
) -> None:
    """Down at the start, or later: nothing is raised, polls are short, health says it; then nothing is missing."""
    rig.send(log(1))
    channel = opened()
    ack_all(channel, polled(channel))
    kafka.kill()
    try:
        said = healthy(channel, lambda health: health is not None)
        assert kafka.bootstrap in str(said)
        late = opened()
        before = time.monotonic()
        assert late.poll() == []
        assert time.monotonic() - before < 1
        healthy(late, lambda health: "has not answered" not in str(health))
        assert not late.behind(), "nobody waits for a broker that is down"
    finally:
        kafka.start()
    rig.send(log(2))
    assert numbers(polled(channel)) == [2]
    healthy(channel, well)
    assert numbers(polled(late)) == [2]
    healthy(late, well)
