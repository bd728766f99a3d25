"""Rules between the options of topics, and what they come to (`TopicsConfig`); gathered like those of
`settings_checks`.

Topics are on only when they are asked for: a pasted configuration of Debezium has most of these options, and means
topics that somebody else feeds. While they are off the options change nothing, and that is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from snapshotter.configuration.topic_options import TopicOptions
from snapshotter.errors import Problem
from snapshotter.outbox.topics_config import OURS, TopicsConfig
from streaming.connect.topic_names import TopicNames, refused_in

ENABLED = "engine.topics.enabled"
SERVERS = "engine.topics.bootstrap.servers"
_JSON = "JsonConverter"
_SCHEMAS = "schemas.enable"
_PRODUCER = "producer.override."
_SAID = {_SCHEMAS: "", "schemas.cache.size": "", "decimal.format": "", "converter.type": ""}
"""Options of the JsonConverter that are honoured, or that change nothing in these records."""


def check(options: TopicOptions, prefix: str) -> Iterator[Problem]:
    """Brokers, names and converters, where topics are on. ``prefix`` is ``topic.prefix``."""
    names = {
        "topic.prefix": prefix,
        "topic.delimiter": options.delimiter,
        "topic.transaction": options.transaction,
        "topic.heartbeat.prefix": options.heartbeat_prefix,
        "topic.heartbeat.name": options.heartbeat_name,
    }
    if not options.bootstrap_servers:
        yield Problem(SERVERS, f"is required with {ENABLED}=true (Kafka Connect knew its brokers)")
    for option, name in names.items():
        if (found := refused_in(name)) is not None:
            yield Problem(
                option, f"has {found!r}: Kafka takes letters, digits, dots, hyphens and underscores", name
            )
    for side, converter, given in _sides(options):
        if converter and converter.rpartition(".")[2] != _JSON:
            why = "writes no JSON, which is the only form here: use org.apache.kafka.connect.json."
            yield Problem(f"{side}.converter", f"{why}{_JSON}", converter)
        if given.get(_SCHEMAS, "true").strip().lower() not in ("true", "false"):
            yield Problem(f"{side}.converter.{_SCHEMAS}", "must be true or false", given[_SCHEMAS])
    for name in options.producer.keys() & OURS:
        yield Problem(f"{_PRODUCER}{name}", f"cannot be set: {OURS[name]}")
    timeout = options.producer.get("delivery.timeout.ms", "1")
    if not timeout.strip().isdigit():
        yield Problem(f"{_PRODUCER}delivery.timeout.ms", "must be a whole number", timeout)


def warnings(options: TopicOptions, heartbeat_ms: int, *, enabled: bool) -> Iterator[str]:
    """Which of the ``options`` have no effect. ``heartbeat_ms`` is ``heartbeat.interval.ms``; ``enabled``: whether
    there are topics."""
    if enabled:
        for side, _, given in _sides(options):
            for name in sorted(given.keys() - _SAID.keys()):
                yield f"{side}.converter.{name} has no effect: documents are texts in these records"
        if options.heartbeat_name and not heartbeat_ms:
            yield "topic.heartbeat.name has no effect: heartbeat.interval.ms is 0"
        return
    for name in sorted(_given(options)):
        yield f"{name} has no effect: {ENABLED} is not true, so there are no topics"


def topics_config(
    options: TopicOptions, prefix: str, heartbeat_ms: int, *, transactions: bool
) -> TopicsConfig:
    """What the ``options`` come to. ``prefix`` is ``topic.prefix``, ``heartbeat_ms``
    ``heartbeat.interval.ms``, ``transactions`` ``provide.transaction.metadata``."""
    names = options.delimiter, options.transaction, options.heartbeat_prefix, options.heartbeat_name
    keys, values = (_with_schemas(given) for _, _, given in _sides(options))
    return TopicsConfig(
        names=TopicNames(prefix, *names),
        bootstrap_servers=options.bootstrap_servers,
        producer=options.producer,
        key_schemas=keys,
        value_schemas=values,
        tombstones=options.tombstones,
        max_bytes=options.outbox_max_bytes,
        heartbeat_ms=heartbeat_ms,
        transactions=transactions,
    )


def _sides(options: TopicOptions) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """(key or value, its converter's class, the options of that)."""
    yield "key", options.key_converter, options.key_options
    yield "value", options.value_converter, options.value_options


def _with_schemas(given: Mapping[str, str]) -> bool:
    return given.get(_SCHEMAS, "true").strip().lower() == "true"


def _given(options: TopicOptions) -> Iterator[str]:
    """The names of the options that say something else than their default."""
    for attribute, field in TopicOptions.model_fields.items():
        value, alias = getattr(options, attribute), field.alias or ""
        if isinstance(value, dict):
            yield from (f"{alias.removesuffix('*')}{name}" for name in value)
        elif value != field.default:
            yield alias
