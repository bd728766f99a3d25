"""A broker that answers, and refuses: a topic that takes no large messages, a user who may not write to it. Each is
named, through Spark's client and through librdkafka; nothing is lost, and it goes on once the broker takes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from signals.notifications.kafka import KafkaNotificationOptions, KafkaNotifications, NotSent
from signals.notifications.notification import Aggregate, Subject
from snapshotter.diagnosis import named
from snapshotter.errors import describe
from snapshotter.outbox.delivery import Delivery
from snapshotter.outbox.topics_config import TopicsConfig
from snapshotter.state.storage import MemoryStorage
from snapshotter.testing.kafka import PASSWORD, USER, KafkaBroker, start_kafka
from snapshotter.testing.processes import wait_until
from streaming.connect.topic_names import TopicNames
from tests.integration.test_outbox import Rig, values
from tests.support.kafka_records import consumed, records_of

pytestmark = pytest.mark.guard

LIMIT = "max.message.bytes"
SECONDS = 120.0
LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Whoever comes without a name, as the broker itself and its administrator do here, may do all; others nothing."""


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaBroker]:
    """A broker that asks who may do what."""
    with start_kafka(_AUTHORIZER) as broker:
        yield broker


def rig_at(spark: SparkSession, folder: Path, broker: str, producer: Mapping[str, str] | None = None) -> Rig:
    config = TopicsConfig(TopicNames("shop"), broker, key_schemas=False, value_schemas=False)
    return Rig(spark, folder, replace(config, producer=dict(producer or {})), MemoryStorage())


def troubled(delivery: Delivery) -> dict[str, str]:
    """Class and condition of what keeps topics from being fed, as the status shows them."""
    wait_until(lambda: delivery.state.trouble is not None, "the trouble to be said")
    return named(delivery.state.trouble)


def take_up_to(broker: KafkaBroker, topic: str, size: int) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    entry = ConfigEntry(LIMIT, str(size), incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    (done,) = broker.admin().incremental_alter_configs([wanted]).values()
    done.result(SECONDS)


def let_write(broker: KafkaBroker, topic: str) -> None:
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    what = ResourceType.TOPIC, topic, ResourcePatternType.LITERAL
    binding = AclBinding(*what, f"User:{USER}", "*", AclOperation.ALL, AclPermissionType.ALLOW)
    (done,) = broker.admin().create_acls([binding]).values()
    done.result(SECONDS)


def test_a_topic_that_takes_no_large_messages(
    spark: SparkSession, tmp_path: Path, kafka: KafkaBroker, topic: str
) -> None:
    """The outbox keeps what the broker refuses, and what is behind it; the topic is changed, and all of it comes."""
    take_up_to(kafka, topic, 100)  # a batch of records is larger, whatever is in it
    rig = rig_at(spark, tmp_path, kafka.bootstrap)
    outbox = rig.outbox()
    with rig.delivering(outbox) as delivery:
        rig.append(outbox, 1, topic, "a" * 200)
        assert troubled(delivery) == {"failure": "sink", "condition": "kafka-failing"}
        rig.append(outbox, 2, topic, "b")
        assert [one.number for one in outbox.waiting] == [1, 2]
        take_up_to(kafka, topic, 1_000_000)
        wait_until(lambda: not outbox.waiting, "topics to catch up")
        assert delivery.state.trouble is None
    assert values(consumed(kafka, topic, records_of(kafka, topic)))[-2:] == [[1, 0], [2, 0]]


def test_a_user_who_may_not_write(spark: SparkSession, tmp_path: Path, guarded: KafkaBroker) -> None:
    """The broker knows the user, and refuses: it is a permission. Once granted, what has waited is sent."""
    topic = "shop-denied"
    guarded.create_topic(topic)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    producer = {
        **LOGIN,
        "sasl.jaas.config": f'{module} username="{USER}" password="{PASSWORD}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(guarded.certificate),
    }
    rig = rig_at(spark, tmp_path, guarded.secure, producer)
    outbox = rig.outbox()
    with rig.delivering(outbox) as delivery:
        rig.append(outbox, 1, topic, "a")
        assert troubled(delivery) == {"failure": "permission", "condition": "kafka-denied"}
        assert PASSWORD not in str(delivery.state.trouble)
        let_write(guarded, topic)
        wait_until(lambda: not outbox.waiting, "topics to catch up")
        assert delivery.state.trouble is None
    assert values(consumed(guarded, topic, 1)) == [[1, 0]]


def _refused(channel: KafkaNotifications, subject: Subject) -> tuple[str, str, bool]:
    with pytest.raises(NotSent) as raised:
        channel.send([subject.started(1)])
    found = describe(raised.value)
    return found.failure.value, found.condition, found.retriable


def test_notifications_that_the_broker_refuses(kafka: KafkaBroker, guarded: KafkaBroker, topic: str) -> None:
    """The same two through librdkafka: too large for the topic, and not for this user. Then they are taken."""
    subject = Subject("x" * 500, Aggregate.INCREMENTAL, "shop")
    take_up_to(kafka, topic, 100)
    channel = KafkaNotifications(KafkaNotificationOptions(topic, kafka.bootstrap, "test"))
    failure, condition, _ = _refused(channel, subject)
    assert (failure, condition) == ("sink", "kafka-failing")
    take_up_to(kafka, topic, 1_000_000)
    wait_until(lambda: _sent(channel, subject), "the broker to heed the new limit")
    channel.close()
    assert records_of(kafka, topic) == 1
    guarded.create_topic("told-denied")
    user: dict[str, Any] = {
        **LOGIN,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
        "ssl.ca.location": str(guarded.certificate),
    }
    channel = KafkaNotifications(KafkaNotificationOptions("told-denied", guarded.secure, "test", user))
    assert _refused(channel, subject) == ("permission", "kafka-denied", False)
    let_write(guarded, "told-denied")
    wait_until(lambda: _sent(channel, subject), "the broker to take it")
    channel.close()
    assert records_of(guarded, "told-denied") == 1


def _sent(channel: KafkaNotifications, subject: Subject) -> bool:
    try:
        channel.send([subject.started(1)])
    except NotSent:
        return False
    return True
