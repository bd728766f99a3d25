"""Options of signal channels: what they accept, what they refuse with which advice, and what is shown of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from signals.channels.file_channel import FileChannel
from signals.channels.kafka_channel import KafkaChannel
from snapshotter.api import Snapshotter
from snapshotter.configuration.channel_config import ChannelConfig, open_enabled
from snapshotter.configuration.settings import Settings
from snapshotter.engine import assembly
from snapshotter.errors import EXIT_CONFIGURATION, ConfigurationError, exit_code
from snapshotter.state.storage import MemoryStorage
from tests.support.packages import install

LEAST: dict[str, object] = {
    "name": "engine",
    "topic.prefix": "shop",
    "mongodb.connection.string": "mongodb://localhost:27017/?replicaSet=rs0",
    "delta.warehouse": "/lake",
}
ENABLED = "signal.enabled.channels"
KAFKA: dict[str, object] = {ENABLED: "source,kafka", "signal.kafka.bootstrap.servers": "k1:9092"}


def made(**options: object) -> Settings:
    return Settings.from_options({**LEAST, **options}, {})


def problems(options: dict[str, object]) -> dict[str, str]:
    with pytest.raises(ConfigurationError) as refusal:
        made(**options)
    assert exit_code(refusal.value) == EXIT_CONFIGURATION
    return {p.option: str(p) for p in refusal.value.problems}


def test_the_engine_is_given_what_channels_are_made_from() -> None:
    """The prefix, the names, and everything under ``signal.`` as it was written, also under the open prefixes."""
    more = {"signal.consumer.sasl.username": "me", "signal.custom.pigeon": "grey", "signal.file": "s.jsonl"}
    config = assembly.engine_config(made(**KAFKA, **more)).channels
    assert (config.prefix, config.names) == ("shop", ("source", "kafka"))
    assert config.options == {
        ENABLED: "source,kafka",
        "signal.poll.interval.ms": "5000",
        "signal.kafka.bootstrap.servers": "k1:9092",
        **more,
    }
    assert "sasl" not in repr(config)


def test_without_options_only_the_collection_is_read() -> None:
    """As with Debezium; nothing is opened."""
    config = assembly.engine_config(made()).channels
    assert config.names == ("source",)
    assert open_enabled(config, MemoryStorage()) == []
    assert open_enabled(ChannelConfig("shop", ("source", "inbox", "in-process")), MemoryStorage()) == []


@pytest.mark.parametrize(("given", "every"), [(None, 1_000), ("200", 200), ("5000", 1_000)])
def test_how_often_channels_are_looked_into(given: str | None, every: int) -> None:
    """``signal.poll.interval.ms``, but every second at least, as its description says."""
    options = {} if given is None else {"signal.poll.interval.ms": given}
    assert assembly.engine_config(made(**options)).poll_ms == every


@pytest.mark.parametrize(
    ("options", "seconds"), [({}, 86_400), ({"engine.signals.remember.ms": "60000"}, 60)]
)
def test_how_long_ids_are_remembered(options: dict[str, str], seconds: int) -> None:
    """A day, unless another time is stated."""
    assert assembly.engine_config(made(**options)).remember_seconds == seconds


def test_channels_are_opened_as_they_are_enabled() -> None:
    """In their order. The broker need not be there."""
    settings = made(**{**KAFKA, ENABLED: "kafka,file", "signal.kafka.bootstrap.servers": "127.0.0.1:1"})
    opened = open_enabled(assembly.engine_config(settings).channels, MemoryStorage())
    assert [type(channel) for channel in opened] == [KafkaChannel, FileChannel]
    for channel in opened:
        channel.close()
    assert settings.warnings == ()


@pytest.mark.parametrize(
    ("options", "option", "expectation"),
    [
        ({ENABLED: "kafka"}, "signal.kafka.bootstrap.servers", "must name a broker"),
        ({ENABLED: "jmx"}, ENABLED, "use the command line"),
        ({ENABLED: "file,fale"}, ENABLED, "= fale: is no channel; there are source, inbox, in-process, file"),
        ({ENABLED: "file,file"}, ENABLED, "stands there twice"),
        ({"signal.file": ""}, "signal.file", "must not be empty"),
        ({**KAFKA, "signal.kafka.topics": "x"}, "signal.kafka.topics", "is no option; there are topic,"),
        ({**KAFKA, "signal.kafka.poll.timeout.ms": "x"}, "signal.kafka.poll.timeout.ms", "must be a number"),
        ({**KAFKA, "signal.consumer.group.id": "x"}, "signal.consumer.group.id", "set signal.kafka.groupId"),
        ({"signal.kafak.topic": "x"}, "signal.kafak.topic", "is no option"),
    ],
)
def test_one_problem(options: dict[str, object], option: str, expectation: str) -> None:
    """Each wrong value is told with what to do."""
    found = problems(options)
    assert list(found) == [option], found
    assert expectation in found[option]


def test_problems_of_channels_are_reported_with_all_others() -> None:
    """One error has those of the Kafka client and those of the rest."""
    wrong = {"signal.consumer.auto.offset.reset": "sideways", "signal.consumer.config.providers": "x"}
    found = problems({ENABLED: "kafka,nope", "snapshot.max.threads": "0", **wrong})
    assert found.keys() == {ENABLED, "snapshot.max.threads", "signal.kafka.bootstrap.servers", *wrong}


def test_no_secret_of_a_client_is_shown() -> None:
    """Neither in the settings in force nor in a refusal, whatever the property is called."""
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hush";'
    secrets: dict[str, object] = {
        "signal.consumer.sasl.jaas.config": jaas,
        "signal.consumer.ssl.keystore.key": "hush",
        "signal.consumer.ssl.key.pem": "hush",
        "signal.consumer.ssl.key.password": "hush",
        "signal.custom.line": "hush",
    }
    masked = made(**KAFKA, **secrets).masked()
    assert {masked[name] for name in secrets} == {"***"}
    assert "hush" not in json.dumps(masked)
    assert masked["signal.kafka.bootstrap.servers"] == "k1:9092"
    broken = {**secrets, "signal.consumer.sasl.jaas.config": "NoSuchModule required password=hush;"}
    assert "hush" not in str(problems({**KAFKA, **broken}))


def test_what_has_no_effect_is_a_warning() -> None:
    """Options of a channel that is not enabled, and those of Java's client that mean nothing here."""
    told = {"signal.kafka.topic": "t", "signal.consumer.x": "y", "signal.file": "f", "signal.custom.a": "b"}
    warnings = made(**told).warnings
    assert [w.partition(" ")[0] for w in warnings] == [
        "signal.kafka.*",
        "signal.consumer.*",
        "signal.file",
        "signal.custom.*",
    ]
    (warning,) = made(**KAFKA, **{"signal.consumer.key.deserializer": "x"}).warnings
    assert warning == "signal.consumer.key.deserializer has no effect here: keys are text"


def test_what_the_client_refuses_is_reported_before_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A property that librdkafka does not have, in its words; with the exit code of a configuration."""

    def started(settings: Settings) -> None:
        raise AssertionError("Spark was started for nothing")

    monkeypatch.setattr(assembly, "spark_session", started)
    settings = made(**KAFKA, **{"signal.consumer.no.such": "1"})
    with pytest.raises(
        ConfigurationError, match=r"signal\.consumer\.\*.*No such configuration property"
    ) as e:
        Snapshotter(settings)
    assert exit_code(e.value) == EXIT_CONFIGURATION
    with pytest.raises(ConfigurationError, match="No such configuration property"):
        assembly.assemble(settings)


PLUGIN = """
from signals.channel import ChannelOptionsRefused, OptionProblem

opened = []

class Pigeon:
    name = "pigeon"
    def __init__(self, context):
        size = context.options.get("signal.custom.pigeon.size")
        if size == "0":
            raise ChannelOptionsRefused((OptionProblem("signal.custom.pigeon.size", "must be more", size),))
        opened.append(self)
    def close(self):
        opened.remove(self)
"""


@pytest.fixture
def pigeons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with one entry point."""
    install(tmp_path, monkeypatch, "w_pigeons", PLUGIN, "snapshotter.signal_channels", {"pigeon": "Pigeon"})


@pytest.mark.usefixtures("pigeons")
def test_a_channel_of_another_package() -> None:
    """It is enabled by its name, and closed again after it was tried; what it refuses are problems like others, and
    then no channel is left open.
    """
    assembly.check(made(**{ENABLED: "pigeon", "signal.custom.pigeon.size": "2"}))
    both = {**KAFKA, ENABLED: "pigeon,kafka", "signal.consumer.no.such": "1"}
    with pytest.raises(ConfigurationError, match=r"no\.such"):
        assembly.check(made(**both))
    assert sys.modules["w_pigeons"].opened == []
    with pytest.raises(ConfigurationError) as refusal:
        assembly.check(made(**{**both, "signal.custom.pigeon.size": "0"}))
    assert [str(p).partition(":")[0] for p in refusal.value.problems] == [
        "signal.custom.pigeon.size = 0",
        "signal.consumer.*",
    ]
