"""What Kafka's own client says of a broker that is away: nothing on standard error."""

from __future__ import annotations

import logging

import pytest

from signals.client.kafka_sender import KafkaSender
from signals.notifications.kafka import KafkaNotificationOptions, KafkaNotifications
from snapshotter.testing.processes import free_port, wait_until

pytest.importorskip("confluent_kafka")


def test_it_goes_to_a_logger(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """That of its name, for those who want it: the error that is raised has the cause."""
    nowhere = f"127.0.0.1:{free_port()}"
    sender = KafkaSender(nowhere, "signals", "shop")
    options = KafkaNotificationOptions(
        "told", nowhere, "shop", {"socket.connection.setup.timeout.ms": "1000"}
    )
    channel = KafkaNotifications(options)
    with caplog.at_level(logging.DEBUG, logger="librdkafka"):
        for producer in (sender._producer, channel._producer):
            caplog.clear()

            def said(producer: object = producer) -> bool:
                producer.poll(0.1)  # type: ignore[attr-defined] # librdkafka hands its words over in it
                return any("Connect to" in record.getMessage() for record in caplog.records)

            wait_until(said, "its complaint")
    assert "%3|" not in capfd.readouterr().err, "as librdkafka writes by itself"
