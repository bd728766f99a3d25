"""Options of notifications: what they accept, what they refuse with which advice, and the channels they give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from signals.notification_channel import NotificationChannel
from signals.notifications.kafka import KafkaNotificationOptions, KafkaNotifications, NotSent
from signals.notifications.notification import Aggregate, Subject
from snapshotter.configuration.notification_config import NotificationConfig
from snapshotter.configuration.options import catalogue
from snapshotter.configuration.settings import Settings
from snapshotter.engine.assembly import engine_config, notification_config
from snapshotter.errors import ConfigurationError
from snapshotter.reporting.notification_channels import LogChannel, open_channels
from tests.support.packages import install

LEAST: dict[str, object] = {
    "name": "shop",
    "topic.prefix": "shops",
    "mongodb.connection.string": "mongodb://localhost:27017/?replicaSet=rs0",
    "delta.warehouse": "/lake",
}
SINK: dict[str, object] = {
    "notification.enabled.channels": "sink",
    "notification.sink.topic.name": "told",
    "notification.sink.bootstrap.servers": "k1:9092,k2:9092",
}
NO_SPARK: Any = None


def made(options: dict[str, object]) -> Settings:
    return Settings.from_options({**LEAST, **options}, {})


def problems(options: dict[str, object]) -> dict[str, str]:
    with pytest.raises(ConfigurationError) as refusal:
        made(options)
    return {p.option: str(p) for p in refusal.value.problems}


def opened(config: NotificationConfig) -> list[NotificationChannel]:
    """The channels of an engine that has everything else as it is by default."""
    return open_channels(replace(engine_config(made({})), notifications=config), NO_SPARK)


def test_no_channel_is_enabled_by_default() -> None:
    """Nothing is sent anywhere unless it is asked for."""
    config = notification_config(made({}))
    assert config == NotificationConfig("shops")
    assert opened(config) == []


def test_the_sink_knows_its_topic_and_its_brokers() -> None:
    """A Debezium configuration and the brokers; what else Kafka's client needs is passed through, and wins."""
    more = {
        "notification.producer.security.protocol": "SASL_SSL",
        "notification.producer.sasl.password": "hush",
        "notification.producer.delivery.timeout.ms": "2500",
        "notification.producer.acks": "1",
    }
    settings = made({**SINK, **more})
    sink = notification_config(settings).sink
    assert sink is not None
    assert sink.topic == "told"
    assert sink.properties() == {
        "bootstrap.servers": "k1:9092,k2:9092",
        "client.id": "shop-notifications",
        "acks": "1",
        "enable.idempotence": "true",
        "message.timeout.ms": "2500",
        "security.protocol": "SASL_SSL",
        "sasl.password": "hush",
    }
    assert sink.delivery_seconds() == 3.5
    masked = settings.masked()
    assert masked["notification.sink.topic.name"] == "told"
    assert masked["notification.producer.sasl.password"] == "***"
    assert "hush" not in str(masked)
    assert not settings.warnings


@pytest.mark.parametrize(
    ("options", "option", "expectation"),
    [
        ({"notification.enabled.channels": "jmx"}, "notification.enabled.channels", "use log, sink or delta"),
        (
            {"notification.enabled.channels": "log,lug"},
            "notification.enabled.channels",
            "there are log, sink, delta",
        ),
        ({"notification.enabled.channels": "log,log"}, "notification.enabled.channels", "stands there twice"),
        (
            {**SINK, "notification.sink.topic.name": ""},
            "notification.sink.topic.name",
            "is required with sink",
        ),
        (
            {**SINK, "notification.sink.bootstrap.servers": ""},
            "notification.sink.bootstrap.servers",
            "is required with sink",
        ),
        (
            {**SINK, "notification.producer.bootstrap.servers": "k"},
            "notification.producer.bootstrap.servers",
            "use notification.sink.bootstrap.servers",
        ),
        (
            {"notification.sink.topic": "x"},
            "notification.sink.topic",
            "did you mean notification.sink.topic.name?",
        ),
    ],
)
def test_one_problem(options: dict[str, object], option: str, expectation: str) -> None:
    """Each wrong value is told with what to do."""
    found = problems(options)
    assert list(found) == [option], found
    assert expectation in found[option]


def test_a_topic_without_the_sink_is_a_warning() -> None:
    """It works, but perhaps not as it was meant."""
    (warning,) = made({"notification.sink.topic.name": "told"}).warnings
    assert "sink is not in notification.enabled.channels" in warning


def test_prefixes_stand_in_the_catalogue() -> None:
    """They are secret, since nobody knows what is under them."""
    option = catalogue()["notification.producer.*"]
    assert option.secret
    assert option.default is None


def test_what_the_client_refuses_is_reported_before_anything_starts() -> None:
    """A property that librdkafka does not have is an error of the configuration, in its words."""
    config = notification_config(made({**SINK, "notification.producer.no.such": "1"}))
    with pytest.raises(ConfigurationError, match="No such configuration property"):
        opened(config)


def test_a_dead_broker_is_a_failure_within_the_time_given() -> None:
    """The batch is not sent, and nothing of it lingers in the producer to be sent behind our back."""
    given = {"message.timeout.ms": "200", "log_level": "0"}
    channel = KafkaNotifications(KafkaNotificationOptions("told", "127.0.0.1:1", "test", given))
    batch = [Subject(f"r{n}", Aggregate.INCREMENTAL, "shop").completed(n) for n in range(3)]
    with pytest.raises(NotSent, match="topic told: 3 of 3 not delivered"):
        channel.send(batch)
    # What is left may be errors of the client ("all brokers are down"), which come at any time: flush serves them.
    assert channel._producer.flush(10.0) == 0
    channel.close()


def test_the_log_shows_every_field() -> None:
    """One line each; bad news as a warning. Data cannot take the place of the line's own fields."""
    subject = Subject("again-1", Aggregate.INCREMENTAL, "shop", ("shop.orders",))
    with capture_logs() as logs:
        LogChannel().send([subject.started(1), subject.failed(2, "why")])
    assert logs[0] == {
        "event": "notification",
        "log_level": "info",
        "id": "again-1",
        "aggregate_type": "Incremental Snapshot",
        "type": "STARTED",
        "connector_name": "shop",
        "data_collections": "shop.orders",
    }
    assert (logs[1]["log_level"], logs[1]["error"]) == ("warning", "why")


PLUGIN = """
from signals.notification_channel import NotificationChannel

class Pager(NotificationChannel):
    def __init__(self, engine, options):
        self.engine, self.options = engine, options
        if "break" in options:
            raise OSError("no line")
    def send(self, batch):
        pass

def wrong(engine, options):
    return 7
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with two entry points."""
    points = {"pager": "Pager", "wrong": "wrong"}
    install(tmp_path, monkeypatch, "h_pager", PLUGIN, "snapshotter.notification_channels", points)


@pytest.mark.usefixtures("plugins")
def test_custom_channels_are_found_by_entry_point() -> None:
    """By the name of the entry point, with the engine's name and their own options."""
    settings = made({"notification.enabled.channels": "pager,log", "notification.custom.pager.line": "911"})
    config = notification_config(settings)
    pager, log = opened(config)
    found: Any = pager
    assert (found.name, found.engine, found.options) == ("pager", "shop", {"pager.line": "911"})
    assert isinstance(log, LogChannel)
    assert (
        "there are log, sink, delta, pager, wrong"
        in problems({"notification.enabled.channels": "x"}).popitem()[1]
    )


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize(
    ("config", "expectation"),
    [
        (
            NotificationConfig(channels=("log", "pager"), custom={"break": "1"}),
            "h_pager:Pager failed: OSError",
        ),
        (NotificationConfig(channels=("wrong",)), "gave 7, not a NotificationChannel"),
        (NotificationConfig(channels=("gone",)), "no installed package has an entry point 'gone'"),
    ],
)
def test_a_custom_channel_that_cannot_be_made(config: NotificationConfig, expectation: str) -> None:
    """The error names the option and the package's object."""
    with pytest.raises(ConfigurationError, match=expectation):
        opened(config)
