"""From Debezium's Kafka options, written for Java's client, to those of librdkafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from signals.channel import ChannelContext, ChannelOptionsRefused
from signals.channels.kafka_channel import kafka_channel
from signals.channels.kafka_options import KafkaSignalOptions
from signals.channels.kafka_position import KafkaPosition, Start, continued
from snapshotter.state.storage import MemoryStorage

SERVERS = {"signal.kafka.bootstrap.servers": "broker:9092"}


def parsed(**consumer: str) -> KafkaSignalOptions:
    """Options with these of the client, dots written as underscores."""
    named = {f"signal.consumer.{name.replace('_', '.')}": text for name, text in consumer.items()}
    return KafkaSignalOptions.parse(SERVERS | named, "shop")


def refused(options: dict[str, str]) -> dict[str, str]:
    """What is said about each option that is refused."""
    with pytest.raises(ChannelOptionsRefused) as caught:
        KafkaSignalOptions.parse(options, "shop")
    return {problem.option: str(problem) for problem in caught.value.problems}


def test_only_the_broker_has_to_be_named() -> None:
    """The topic, the group and the rest are Debezium's defaults; other options are nobody's business here."""
    options = KafkaSignalOptions.parse(SERVERS | {"topic.prefix": "shop", "signal.file": "x"}, "shop")
    assert options == KafkaSignalOptions("shop-signal", "shop", "broker:9092", "kafka-signal")
    assert not options.from_end


def test_every_option_of_the_channel_counts() -> None:
    """As they are written, blanks around them or not."""
    named = {
        "signal.kafka.topic": " ops ",
        "signal.kafka.groupId": "g",
        "signal.kafka.poll.timeout.ms": "50",
        "signal.consumer.auto.offset.reset": "latest",
    }
    options = KafkaSignalOptions.parse(SERVERS | named, "shop")
    assert (options.topic, options.group_id, options.poll_timeout_ms, options.from_end) == (
        "ops",
        "g",
        50,
        True,
    )


def test_all_that_is_wrong_is_said_at_once() -> None:
    """A missing broker, a misspelt name, values of another form."""
    said = refused(
        {
            "signal.kafka.topc": "x",
            "signal.kafka.poll.timeout.ms": "soon",
            "signal.consumer.auto.offset.reset": "none",
            "signal.consumer.group.id": "g",
        }
    )
    assert "must name a broker" in said["signal.kafka.bootstrap.servers"]
    assert "there are topic, bootstrap.servers" in said["signal.kafka.topc"]
    assert "=soon: must be a number between 0 and 1000" in said["signal.kafka.poll.timeout.ms"]
    assert "must be earliest or latest" in said["signal.consumer.auto.offset.reset"]
    assert "set signal.kafka.groupId instead" in said["signal.consumer.group.id"]


def test_names_that_differ_are_translated() -> None:
    """Others pass as they are, librdkafka's own too."""
    options = parsed(
        security_protocol="SASL_SSL", request_timeout_ms="9", fetch_max_wait_ms="5", ssl_ca_location="/ca.pem"
    )
    assert options.client == {
        "security.protocol": "SASL_SSL",
        "socket.timeout.ms": "9",
        "fetch.wait.max.ms": "5",
        "ssl.ca.location": "/ca.pem",
    }


def test_what_means_nothing_here_is_accepted_and_named() -> None:
    """A configuration that works with Debezium need not be cleaned first."""
    options = parsed(enable_auto_commit="false", value_deserializer="StringDeserializer")
    assert options.client == {}
    assert any("enable.auto.commit: the position is kept" in note for note in options.notes)
    assert len(options.notes) == 2


@pytest.mark.parametrize(
    ("java", "ours"),
    [
        (
            {"ssl_truststore_type": "PEM", "ssl_truststore_location": "/ca.pem"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        ({"ssl_truststore_certificates": "-----BEGIN"}, {"ssl.ca.pem": "-----BEGIN"}),
        (
            {"ssl_keystore_location": "/k.p12", "ssl_keystore_password": "p"},
            {"ssl.keystore.location": "/k.p12", "ssl.keystore.password": "p"},
        ),
        (
            {"ssl_keystore_type": "pkcs12", "ssl_keystore_location": "/k"},
            {"ssl.keystore.location": "/k"},
        ),
        (
            {"ssl_keystore_type": "PEM", "ssl_keystore_location": "/k.pem", "ssl_key_password": "p"},
            {"ssl.certificate.location": "/k.pem", "ssl.key.location": "/k.pem", "ssl.key.password": "p"},
        ),
        ({"ssl_endpoint_identification_algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        (
            {"ssl_endpoint_identification_algorithm": "HTTPS"},
            {"ssl.endpoint.identification.algorithm": "https"},
        ),
    ],
)
def test_tls_stores_are_translated(java: dict[str, str], ours: dict[str, str]) -> None:
    """PEM and PKCS12, and the check of the broker's name."""
    assert parsed(**java).client == ours


@pytest.mark.parametrize(
    ("option", "value", "equivalent"),
    [
        ("ssl.truststore.location", "/trust.jks", "set signal.consumer.ssl.ca.location to it"),
        ("ssl.keystore.location", "/key.jks", "signal.consumer.ssl.keystore.type=PKCS12"),
        ("ssl.truststore.password", "p", "remove it"),
        ("sasl.login.callback.handler.class", "a.B", "sasl.oauthbearer"),
        ("interceptor.classes", "a.B", "Java class"),
    ],
)
def test_what_cannot_be_translated_is_refused_with_its_equivalent(
    option: str, value: str, equivalent: str
) -> None:
    """JKS stores and Java classes."""
    (said,) = refused(SERVERS | {f"signal.consumer.{option}": value}).values()
    assert equivalent in said
    assert "p" not in said.split(":")[0].split("=")[1:]


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("jaas", "ours"),
    [
        (
            f'{PLAIN} required username="al ice" password="p;\\"w";',
            {"sasl.username": "al ice", "sasl.password": 'p;"w'},
        ),
        (
            "ScramLoginModule required\n  username=a password='b c' ;",
            {"sasl.username": "a", "sasl.password": "b c"},
        ),
        (
            'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="c@R";',
            {"sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "c@R"},
        ),
    ],
)
def test_a_login_in_jaas_is_translated(jaas: str, ours: dict[str, str]) -> None:
    """Names, passwords and key tabs, however they are quoted."""
    assert parsed(sasl_jaas_config=jaas).client == ours


@pytest.mark.parametrize(
    "jaas", [f'{PLAIN} required username="u" pass="geheim";', "geheim", "a.Other required x=geheim;"]
)
def test_a_login_that_is_not_understood_is_refused_without_showing_it(jaas: str) -> None:
    """There may be a password in it."""
    (said,) = refused(SERVERS | {"signal.consumer.sasl.jaas.config": jaas}).values()
    assert said.startswith("signal.consumer.sasl.jaas.config: ")
    assert "geheim" not in said


def test_passwords_are_not_shown() -> None:
    """Neither by the options nor by what they are parsed from."""
    options = parsed(sasl_password="geheim")
    context = ChannelContext("shop", MemoryStorage(), {"signal.consumer.sasl.password": "geheim"})
    assert "geheim" not in repr(options) + repr(context)


def test_what_the_client_does_not_know_is_refused_by_name(tmp_path: Path) -> None:
    """A misspelt option of the client, or a file that is not there, is found before anything starts."""
    for option, value in (("sasl.pasword", "x"), ("ssl.ca.location", str(tmp_path / "none.pem"))):
        options = SERVERS | {f"signal.consumer.{option}": value, "signal.consumer.security.protocol": "ssl"}
        with pytest.raises(ChannelOptionsRefused, match=option):
            kafka_channel(ChannelContext("shop", MemoryStorage(), options))


@pytest.mark.parametrize(
    ("low", "high", "topic_id", "start"),
    [
        (0, 9, "t", Start(KafkaPosition("t", 5, 2))),
        (5, 5, "t", Start(KafkaPosition("t", 5, 2))),
        (7, 9, "t", Start(KafkaPosition("t", 7, 2), lost=(5, 7))),
        (1, 4, "t", Start(KafkaPosition("t", 1, 3), lost=(4, 5))),
        (0, 9, "u", Start(KafkaPosition("u", 0, 3))),
    ],
    ids=["as it was", "nothing new", "retention", "the broker lost its end", "a topic made anew"],
)
def test_where_reading_goes_on(low: int, high: int, topic_id: str, start: Start) -> None:
    """At the stored position while the topic has it; otherwise at the oldest message, and what is gone is said."""
    assert continued(KafkaPosition("t", 5, 2), topic_id, low, high) == start


def test_a_position_is_of_one_topic() -> None:
    """What was kept of another topic says nothing about this one."""
    position = KafkaPosition("id", 7, 1)
    assert KafkaPosition.from_json(position.to_json("a"), "a") == position
    assert KafkaPosition.from_json(position.to_json("a"), "b") is None
