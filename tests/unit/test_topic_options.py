"""The options of topics: what they come to, what is refused, and that they change nothing while topics are off."""

from __future__ import annotations

from typing import Any

import pytest

from snapshotter.configuration.settings import Settings
from snapshotter.engine.assembly import engine_config
from snapshotter.errors import ConfigurationError
from snapshotter.outbox.topics_config import TopicsConfig
from snapshotter.spark_jars import kafka_package
from snapshotter.spark_session import session_settings
from streaming.namespaces import Namespace

BASE = {
    "name": "shop",
    "mongodb.connection.string": "mongodb://localhost:1/",
    "delta.warehouse": "/warehouse",
}
ON = {**BASE, "engine.topics.enabled": "true", "engine.topics.bootstrap.servers": "one:9092,two:9092"}


def config(**options: Any) -> TopicsConfig:
    """With dots for ``__``."""
    named = {name.replace("__", "."): value for name, value in options.items()}
    found = engine_config(Settings.from_options({**ON, **named})).topics
    assert found is not None
    return found


def test_names_and_forms_reach_the_engine() -> None:
    """topic.delimiter, topic.transaction, topic.heartbeat.name, tombstones.on.delete, and an old name of a prefix."""
    assert config() == TopicsConfig(config().names, "one:9092,two:9092")
    assert config().names.of(Namespace("db", "c")) == "shop.db.c"
    given = config(topic__delimiter="-", topic__transaction="tx", topic__heartbeat__name="alive")
    assert given.names.of(Namespace("db", "c")) == "shop-db-c"
    assert (given.names.transactions, given.names.heartbeats) == ("shop-tx", "alive")
    assert config(heartbeat__topics__prefix="beats").names.heartbeats == "beats.shop"
    assert not config(tombstones__on__delete="false").tombstones
    bare = config(key__converter__schemas__enable="false", value__converter__schemas__enable="FALSE")
    assert (bare.key_schemas, bare.value_schemas) == (False, False)
    assert config(heartbeat__interval__ms=5).heartbeat_ms == 5
    assert config(provide__transaction__metadata="true").transactions


def test_what_is_given_to_the_client_wins() -> None:
    """Over the defaults, but for the brokers; secrets are in no representation."""
    given = config(
        producer__override__acks="1", **{"producer.override.sasl.jaas.config": 'password="s3cret"'}
    )
    client = given.client()
    assert (client["acks"], client["enable.idempotence"]) == ("1", "true")
    assert client["bootstrap.servers"] == "one:9092,two:9092"
    assert "s3cret" not in repr(given)
    masked = Settings.from_options({**ON, "producer.override.ssl.key.password": "s3cret"}).masked()
    assert "s3cret" not in str(masked)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"engine.topics.bootstrap.servers": ""}, r"engine\.topics\.bootstrap\.servers: is required with"),
        (
            {"value.converter": "io.confluent.connect.avro.AvroConverter"},
            r"value\.converter = io\.confluent.*writes no JSON",
        ),
        ({"key.converter": "org.apache.kafka.connect.storage.StringConverter"}, r"key\.converter = "),
        ({"key.converter.schemas.enable": "maybe"}, r"key\.converter\.schemas\.enable = maybe: must be true"),
        ({"topic.delimiter": "/"}, r"topic\.delimiter = /: has '/'"),
        ({"topic.prefix": "a b"}, r"topic\.prefix = a b: has ' '"),
        (
            {"producer.override.transactional.id": "x"},
            r"producer\.override\.transactional\.id: cannot be set",
        ),
        ({"producer.override.delivery.timeout.ms": "soon"}, "must be a whole number"),
        ({"engine.outbox.max.bytes": "10"}, "must be at least 1048576"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, str], said: str) -> None:
    """By the option's name; converters other than JSON's by their class."""
    with pytest.raises(ConfigurationError, match=said):
        Settings.from_options({**ON, **options})


def test_while_topics_are_off_their_options_change_nothing() -> None:
    """Whatever they say, and that is said of each that says something."""
    pasted = {
        "key.converter": "io.confluent.connect.avro.AvroConverter",
        "key.converter.schema.registry.url": "http://registry",
        "tombstones.on.delete": "false",
        "topic.delimiter": ".",
    }
    settings = Settings.from_options({**BASE, **pasted})
    assert settings.topics_config() is None
    said = [warning.partition(" ")[0] for warning in settings.warnings if "so there are no topics" in warning]
    assert said == ["key.converter", "key.converter.schema.registry.url", "tombstones.on.delete"]
    assert engine_config(settings).source_options["columns"] == "state"


def test_what_has_no_effect_on_these_records_is_said() -> None:
    """Options of the converter that only other documents would show, and a heartbeat topic without heartbeats."""
    options = {"value.converter.enhanced.avro.schema.support": "true", "topic.heartbeat.name": "alive"}
    warnings = Settings.from_options({**ON, **options}).warnings
    assert [warning.partition(" has")[0] for warning in warnings] == [
        "value.converter.enhanced.avro.schema.support",
        "topic.heartbeat.name",
    ]


def test_the_connector_is_downloaded_where_it_is_missing(tmp_path: Any) -> None:
    """Only for an engine with topics; once its jars lie there they are named, without Ivy."""
    given = {"spark.jars.ivy": str(tmp_path)}
    assert kafka_package() in session_settings(given, "local[2]", kafka=True)["spark.jars.packages"].split(
        ","
    )
    assert "kafka" not in session_settings(given, "local[2]")["spark.jars.packages"]
