"""A connector as a resource of Kubernetes: Strimzi's ``kind: KafkaConnector``, and what of it are options.

The file may hold other resources, as manifests do; they belong to Kubernetes and are left alone, but for a
``KafkaConnect``, whose ``config.providers`` are the names that the connector's values refer by. What ``spec`` says
beside ``config`` becomes the options of the same meaning. What would keep a connector from running is refused: nobody
expects an engine to start that was told to pause.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

KIND = "KafkaConnector"
_WORKER = "KafkaConnect"
_PROVIDERS = "config.providers"
_SPEC = {
    "class": "connector.class",
    "tasksMax": "tasks.max",
    "autoRestart.enabled": "engine.auto.restart.enabled",
    "autoRestart.maxRestarts": "engine.auto.restart.max.restarts",
}
_OFFSETS = ("listOffsets", "alterOffsets", "version")
"""Of no meaning where Strimzi does not look."""


def connector_options(text: str) -> dict[str, object]:
    """The options of the one connector in a YAML file, by their names. Raises ValueError."""
    try:
        documents = [document for document in yaml.load_all(text, _Loader) if isinstance(document, dict)]
    except yaml.YAMLError as error:
        raise ValueError(_said(error)) from error
    found = [document for document in documents if document.get("kind") == KIND]
    if len(found) != 1:
        kinds = ", ".join(str(document.get("kind")) for document in documents) or "none"
        raise ValueError(f"there must be one resource of kind {KIND}, got {len(found)} (kinds: {kinds})")
    connector = found[0]
    spec = _map(connector, "spec")
    options: dict[str, object] = {}
    for document in documents:
        if document.get("kind") == _WORKER:
            config = _map(_map(document, "spec"), "config")
            options |= {name: value for name, value in config.items() if name.startswith(_PROVIDERS)}
    if name := _map(connector, "metadata").get("name"):
        options["name"] = name
    for place, value in _flat(spec):
        if place == "pause" or place == "state":
            if value not in (False, "running"):
                raise ValueError(
                    f"spec.{place}: {value} asks for a connector that does not run: take it away"
                )
        elif place in _SPEC:
            options[_SPEC[place]] = value
        elif place.partition(".")[0] not in _OFFSETS:
            raise ValueError(f"spec.{place} is nothing that a {KIND} has; options belong under spec.config")
    return options | _map(spec, "config")


def _flat(spec: Mapping[str, Any]) -> list[tuple[str, object]]:
    """What stands beside ``config``, places in dots."""
    found: list[tuple[str, object]] = []
    for name, value in spec.items():
        if name == "config":
            continue
        inner = value.items() if isinstance(value, dict) else [("", value)]
        found += [(f"{name}.{part}" if part else name, item) for part, item in inner]
    return found


def _map(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = document.get(name) or {}
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a map, got a {type(value).__name__}")  # noqa: TRY004 — of the file
    return {str(key): item for key, item in value.items()}


def _said(error: yaml.YAMLError) -> str:
    """What is wrong and where, without the text around it, which may hold a password."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        where = f" (line {mark.line + 1})" if mark is not None else ""
        return f"{error.problem or error.context}{where}"
    return "it is no YAML"


class _Loader(yaml.SafeLoader):
    """Refuses a name that is given twice: YAML's libraries take the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{name} is given twice (line {node.start_mark.line + 1} and on)")
        return super().construct_mapping(node, deep=deep)
