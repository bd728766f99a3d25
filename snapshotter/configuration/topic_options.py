"""The options of Kafka topics: whether there are any, what they are called, and how records are written."""

from __future__ import annotations

from snapshotter.configuration.option_values import Flag, Group, Passed, Text, WholeNumber, option

OUTBOX_BYTES = 10 << 30
OUTBOX_BYTES_MIN = 1 << 20


class TopicOptions(Group):
    """Debezium's topics, beside the tables."""

    bootstrap_servers: Text = option(
        "engine.topics.bootstrap.servers",
        "the brokers: host:port, separated by commas; Debezium has no option for it, Kafka Connect knew them",
        "",
    )
    outbox_max_bytes: WholeNumber = option(
        "engine.outbox.max.bytes",
        "what may wait for the brokers, as bytes of the outbox table's files; above it the engine waits",
        OUTBOX_BYTES,
        ge=OUTBOX_BYTES_MIN,
    )
    tombstones: Flag = option(
        "tombstones.on.delete",
        "whether a delete is followed by a record with its key and without a value",
        True,
    )
    delimiter: Text = option(
        "topic.delimiter", "what stands between the parts of a topic's name", ".", min_length=1
    )
    transaction: Text = option(
        "topic.transaction",
        "the end of the name of the topic of transactions, behind topic.prefix",
        "transaction",
        min_length=1,
    )
    heartbeat_prefix: Text = option(
        "topic.heartbeat.prefix",
        "the beginning of the name of the heartbeat topic, before topic.prefix",
        "__debezium-heartbeat",
        min_length=1,
    )
    heartbeat_name: Text = option(
        "topic.heartbeat.name", "the whole name of the heartbeat topic; unset, it is made of its prefix", ""
    )
    key_converter: Text = option("key.converter", "the class that writes keys: JsonConverter", "")
    value_converter: Text = option("value.converter", "the class that writes values: JsonConverter", "")
    key_options: Passed = option(
        "key.converter.*",
        "options of that class: key.converter.schemas.enable (true) puts its schema into each key",
        {},
    )
    value_options: Passed = option(
        "value.converter.*",
        "options of that class: value.converter.schemas.enable (true) puts its schema into each value",
        {},
    )
    producer: Passed = option(
        "producer.override.*", "properties of the Kafka producer, by the Java client's names", {}, secret=True
    )
