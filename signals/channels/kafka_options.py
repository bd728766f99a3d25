"""The options of the Kafka channel, as values: ``signal.kafka.*``, and ``signal.consumer.*`` for its client.

``signal.consumer.*`` is written for Kafka's Java client, and ours is librdkafka. Most names are the same in both; the
tables below have those that are called otherwise, those that need a value of another form, and those that mean nothing
here. A name that neither knows is left to librdkafka, which refuses it by name. Its own names work as well.

Pure: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from signals.channels.channel import ChannelOptionsRefused, OptionProblem

CHANNEL = "signal.kafka."
CONSUMER = "signal.consumer."
DEFAULT_GROUP = "kafka-signal"
DEFAULT_POLL_MS = 0  # what has been fetched in the background is taken; waiting gains nothing
MAX_POLL_MS = 1_000

Client = dict[str, str]

RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
"""Java's name -> librdkafka's, the value being the same."""

MEANINGLESS = {
    "enable.auto.commit": "the position is kept in the engine's state",
    "auto.commit.interval.ms": "the position is kept in the engine's state",
    "key.deserializer": "keys are text",
    "value.deserializer": "values are JSON",
    "max.poll.records": "a poll takes what there is",
    "max.poll.interval.ms": "the partition is assigned, not balanced in a group",
    "heartbeat.interval.ms": "the partition is assigned, not balanced in a group",
    "session.timeout.ms": "the partition is assigned, not balanced in a group",
    "partition.assignment.strategy": "the partition is assigned, not balanced in a group",
    "group.instance.id": "the partition is assigned, not balanced in a group",
    "group.protocol": "the partition is assigned, not balanced in a group",
    "default.api.timeout.ms": "no call waits for longer than a moment",
    "exclude.internal.topics": "one topic is read",
    "ssl.protocol": "the newest that both sides know is taken",
    "ssl.enabled.protocols": "the newest that both sides know is taken",
    "security.providers": "they are Java's",
}
"""Accepted, because configurations have them, and named in ``KafkaSignalOptions.notes``."""

ELSEWHERE = {
    "bootstrap.servers": "set signal.kafka.bootstrap.servers instead",
    "group.id": "set signal.kafka.groupId instead",
    "ssl.cipher.suites": "the names are OpenSSL's here; leave it out, and the two sides agree on one",
    "ssl.engine.factory.class": "it is a Java class; set ssl.ca.location and ssl.certificate.location",
    "ssl.truststore.password": "a PEM file of certificates needs none; remove it",
    "sasl.client.callback.handler.class": "it is a Java class; set sasl.username and sasl.password",
    "sasl.login.callback.handler.class": "it is a Java class; set sasl.oauthbearer.*",
    "sasl.login.class": "it is a Java class; set sasl.username and sasl.password",
    "interceptor.classes": "it is a Java class; remove it",
    "metric.reporters": "it is a Java class; remove it",
    "metrics.num.samples": "it is for Java's own metrics; remove it",
    "config.providers": "it is a Java class; write ${env:NAME} instead",
}
"""Refused, each with its equivalent."""


@dataclass(frozen=True, slots=True)
class KafkaSignalOptions:
    """What the channel needs to know. ``client`` is librdkafka's configuration, and may hold passwords."""

    topic: str
    key: str
    bootstrap_servers: str
    group_id: str = DEFAULT_GROUP
    poll_timeout_ms: int = DEFAULT_POLL_MS
    from_end: bool = False  # where a topic without any known position begins
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()

    @classmethod
    def parse(cls, options: Mapping[str, str], prefix: str) -> KafkaSignalOptions:
        """From options by their full names; those of others are left alone. ``prefix`` is ``topic.prefix``: the key of
        messages, and the topic's name where none is given. Raises ChannelOptionsRefused."""
        problems: list[OptionProblem] = []
        given = {
            name.removeprefix(CHANNEL): text for name, text in options.items() if name.startswith(CHANNEL)
        }
        consumer = {
            name.removeprefix(CONSUMER): text for name, text in options.items() if name.startswith(CONSUMER)
        }
        topic = given.pop("topic", "").strip() or f"{prefix}-signal"
        servers = given.pop("bootstrap.servers", "").strip()
        group = given.pop("groupId", "").strip() or DEFAULT_GROUP
        poll_ms = _poll_ms(given.pop("poll.timeout.ms", str(DEFAULT_POLL_MS)), problems)
        if not servers:
            problems.append(OptionProblem(f"{CHANNEL}bootstrap.servers", "must name a broker, host:port"))
        known = "topic, bootstrap.servers, groupId, poll.timeout.ms"
        problems += [OptionProblem(CHANNEL + name, f"is no option; there are {known}") for name in given]
        from_end = _from_end(consumer.pop("auto.offset.reset", "earliest"), problems)
        notes = [f"{CONSUMER}{name}: {MEANINGLESS[name]}" for name in consumer if name in MEANINGLESS]
        client = _client({name: text for name, text in consumer.items() if name not in MEANINGLESS}, problems)
        if problems:
            raise ChannelOptionsRefused(tuple(problems))
        return cls(topic, prefix, servers, group, poll_ms, from_end, client, tuple(notes))


def _poll_ms(text: str, problems: list[OptionProblem]) -> int:
    if text.strip().isdecimal() and int(text) <= MAX_POLL_MS:
        return int(text)
    problems.append(
        OptionProblem(f"{CHANNEL}poll.timeout.ms", f"must be a number between 0 and {MAX_POLL_MS}", text)
    )
    return DEFAULT_POLL_MS


def _from_end(text: str, problems: list[OptionProblem]) -> bool:
    where = text.strip().lower()
    if where not in ("earliest", "latest"):
        problems.append(OptionProblem(f"{CONSUMER}auto.offset.reset", "must be earliest or latest", text))
    return where == "latest"


def _client(consumer: dict[str, str], problems: list[OptionProblem]) -> Client:
    client: Client = {}
    for names, convert in _CONVERTED.items():
        values = {name: consumer.pop(name) for name in names if name in consumer}
        if values:
            client |= convert(values, problems)
    for name, text in consumer.items():
        if name in ELSEWHERE:
            problems.append(OptionProblem(CONSUMER + name, f"has no meaning here: {ELSEWHERE[name]}"))
        else:
            client[RENAMED.get(name, name)] = text
    return client


def _truststore(values: dict[str, str], problems: list[OptionProblem]) -> Client:
    kind = values.get("ssl.truststore.type", "JKS").strip().upper()
    if kind != "PEM":
        message = (
            f"only PEM is read, and this is {kind}: export its certificates (keytool -exportcert -rfc) into one file, "
            f"and set {CONSUMER}ssl.ca.location to it"
        )
        problems.append(OptionProblem(f"{CONSUMER}ssl.truststore.type", message))
    location = values.get("ssl.truststore.location")
    return {} if location is None else {"ssl.ca.location": location}


def _keystore(values: dict[str, str], problems: list[OptionProblem]) -> Client:
    location, password = values.get("ssl.keystore.location"), values.get("ssl.keystore.password")
    likely = "PKCS12" if (location or "").endswith((".p12", ".pfx")) else "JKS"
    kind = values.get("ssl.keystore.type", likely).strip().upper()
    if kind == "PEM":  # one file with both
        return (
            {} if location is None else {"ssl.certificate.location": location, "ssl.key.location": location}
        )
    if kind != "PKCS12":
        message = (
            f"PKCS12 and PEM are read, and this is {kind}: convert it (keytool -importkeystore -deststoretype PKCS12), "
            f"and set {CONSUMER}ssl.keystore.type=PKCS12"
        )
        problems.append(OptionProblem(f"{CONSUMER}ssl.keystore.type", message))
    found = {"ssl.keystore.location": location, "ssl.keystore.password": password}
    return {name: text for name, text in found.items() if text is not None}


def _identification(values: dict[str, str], _: list[OptionProblem]) -> Client:
    (text,) = values.values()
    return {"ssl.endpoint.identification.algorithm": text.strip().lower() or "none"}


_JAAS_ITEM = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;]+))""")
_JAAS_NAMES = {
    "PlainLoginModule": {"username": "sasl.username", "password": "sasl.password"},
    "ScramLoginModule": {"username": "sasl.username", "password": "sasl.password"},
    "Krb5LoginModule": {"principal": "sasl.kerberos.principal", "keyTab": "sasl.kerberos.keytab"},
}


def _jaas(values: dict[str, str], problems: list[OptionProblem]) -> Client:
    (text,) = values.values()
    module = re.match(r"\s*(?:[\w$]+\.)*([\w$]+)\s+(?:required|requisite|sufficient|optional)\b", text)
    names = _JAAS_NAMES.get(module.group(1)) if module else None
    if module is None or names is None:
        known = ", ".join(_JAAS_NAMES)
        message = (
            f"of its login modules {known} are understood; set sasl.username and sasl.password, or sasl.oauthbearer.*, "
            f"under {CONSUMER} instead"
        )
        problems.append(OptionProblem(f"{CONSUMER}sasl.jaas.config", message))  # its value has the password
        return {}
    items = {
        item[1]: item[4] or item[3] or re.sub(r"\\(.)", r"\1", item[2] or "")
        for item in _JAAS_ITEM.finditer(text[module.end() :])
    }
    if missing := [name for name in names if name not in items]:
        message = f"{module.group(1)} is without {', '.join(missing)}"
        problems.append(OptionProblem(f"{CONSUMER}sasl.jaas.config", message))
    return {names[name]: items[name] for name in names if name in items}


_CONVERTED: dict[tuple[str, ...], Callable[[dict[str, str], list[OptionProblem]], Client]] = {
    ("ssl.truststore.type", "ssl.truststore.location"): _truststore,
    ("ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password"): _keystore,
    ("ssl.endpoint.identification.algorithm",): _identification,
    ("sasl.jaas.config",): _jaas,
}
