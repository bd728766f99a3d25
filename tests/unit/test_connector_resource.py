"""A connector as a resource of Kubernetes: what of it are options, and what is refused."""

from __future__ import annotations

import pytest

from snapshotter.configuration.config_files import parse_yaml

CONNECTOR = """
kind: KafkaConnector
metadata: {name: shop}
spec:
  class: io.debezium.connector.mongodb.MongoDbConnector
  tasksMax: 3
  config:
    topic.prefix: cdc
    errors.max.retries: 5
    mongodb.ssl.enabled: true
"""


def test_what_stands_beside_the_options() -> None:
    """The resource's name, class and tasks, and its automatic restart, are options of the same meaning. Other resources
    are left alone, but for a worker's providers."""
    worker = "kind: KafkaConnect\nspec:\n  config: {config.providers: a, config.providers.a.class: B, group.id: g}\n"
    restart = "  state: running\n  autoRestart: {enabled: true, maxRestarts: 9}\n"
    assert parse_yaml(f"{worker}---\nkind: Secret\ndata: {{x: y}}\n---{CONNECTOR}{restart}") == {
        "config.providers": "a",
        "config.providers.a.class": "B",
        "name": "shop",
        "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
        "tasks.max": "3",
        "engine.auto.restart.enabled": "true",
        "engine.auto.restart.max.restarts": "9",
        "topic.prefix": "cdc",
        "errors.max.retries": "5",
        "mongodb.ssl.enabled": "true",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CONNECTOR + "  state: stopped\n", "spec.state: stopped asks for a connector that does not run"),
        (CONNECTOR + "  pause: true\n", "spec.pause: True asks for a connector that does not run"),
        (CONNECTOR + "  tasks: 1\n", "spec.tasks is nothing that a KafkaConnector has"),
        (CONNECTOR + "    topic.prefix: again\n", r"topic.prefix is given twice \(line 8 and on\)"),
        (f"{CONNECTOR}---{CONNECTOR}", "one resource of kind KafkaConnector, got 2"),
        ("kind: Kafka\n", r"got 0 \(kinds: Kafka\)"),
        ("kind: KafkaConnector\nspec: [1]\n", "spec must be a map, got a list"),
        ("kind: KafkaConnector\nspec:\n  config:\n    a: {b: 1}\n", "a must be text.* got a dict"),
        ("kind: KafkaConnector\nspec: 's3cret\n", r"^[^3]* \(line \d+\)$"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    """With the place, and without the text around it, which may hold a secret."""
    with pytest.raises(ValueError, match=said):
        parse_yaml(text)
