"""Configuration files as maps from option names to text, whatever their form.

Four forms, told apart by the file's suffix:

- ``.json``: a Kafka Connect request ``{"name": …, "config": {…}}``, or the bare map;
- ``.properties``: Java's format, each name with or without the prefix ``debezium.source.``;
- ``.yaml``, ``.yml``: Strimzi's resource ``kind: KafkaConnector`` (`connector_resource`);
- ``.toml``: dotted names in quotes, since ``capture.mode`` and ``capture.mode.full.update.type`` cannot
both be tables.

All values become text, as Kafka Connect has them: lists are joined by commas (commas within an item
escaped), and a null means that the option isn't set. References in values (``${env:NAME}``) are left as they are:
`config_providers` looks them up.

Raises ConfigurationError that names the file, and the line where there is one.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from snapshotter.configuration.connector_resource import connector_options
from snapshotter.errors import ConfigurationError

DEBEZIUM_SERVER_PREFIX = "debezium.source."
_DEBEZIUM_SERVER = "debezium."

_V = TypeVar("_V")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The options of a file as written. ``expressions``: it is one of Debezium Server, where ``${NAME}`` stands for
    something."""

    options: dict[str, str] = field(repr=False)
    expressions: bool = False


def read_file(path: Path) -> ConfigFile:
    """The options of a file: references are still there, and the prefix of Debezium Server is gone."""
    readers = {
        ".json": parse_json,
        ".properties": parse_properties,
        ".toml": parse_toml,
        ".yaml": parse_yaml,
        ".yml": parse_yaml,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ConfigurationError(
            f"cannot tell the form of {str(path)!r}: its name must end in {', '.join(readers)}"
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigurationError(f"cannot read the configuration {str(path)!r}: {reason}") from error
    try:
        return ConfigFile(reader(text), expressions=reader is parse_properties and is_debezium_server(text))
    except ValueError as error:
        raise ConfigurationError(f"cannot read {path.name}: {error}") from error


def is_debezium_server(text: str) -> bool:
    """Whether properties are those of Debezium Server: its names begin with ``debezium.``."""
    return any(name.startswith(_DEBEZIUM_SERVER) for name, _ in property_pairs(text))


def parse_json(text: str) -> dict[str, str]:
    """A Kafka Connect request or a bare map. Raises ValueError."""
    value = json.loads(text, object_pairs_hook=_once_each)
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {type(value).__name__}")  # noqa: TRY004 — of the file
    return as_text(_unwrapped(value))


def parse_toml(text: str) -> dict[str, str]:
    """Quoted dotted names; tables are read as if their names were dotted. Raises ValueError."""
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f'{error} (option names need quotes: "capture.mode" = …)') from error
    return as_text(dict(_flattened(_unwrapped(value), "")))


def parse_properties(text: str) -> dict[str, str]:
    """Java's format: comments, ``=`` or ``:`` or a space between, escapes, continued lines. Raises
    ValueError.
    """
    pairs = property_pairs(text)
    return _once_each((name.removeprefix(DEBEZIUM_SERVER_PREFIX), value.rstrip()) for name, value in pairs)


def parse_yaml(text: str) -> dict[str, str]:
    """Strimzi's resource of a connector. Raises ValueError."""
    return as_text(connector_options(text))


def property_pairs(text: str) -> list[tuple[str, str]]:
    """Names and values of Java's format in their order, just as they are there. Raises ValueError."""
    return [_pair(line) for line in _logical_lines(text)]


def as_text(values: Mapping[str, object]) -> dict[str, str]:
    """Options as text; those that are None are left out. Raises ValueError for a value that is no plain
    one.
    """
    return {name: _text(name, value) for name, value in values.items() if value is not None}


def _unwrapped(value: Mapping[str, object]) -> Mapping[str, object]:
    """The options of a Kafka Connect request; a bare map is its own."""
    config = value.get("config")
    if not isinstance(config, dict):
        return value
    if others := set(value) - {"name", "config", "tasks", "type", "initial_state"}:
        raise ValueError(f"beside config there may be a name, not {', '.join(sorted(others))}")
    if "name" in value and "name" in config and value["name"] != config["name"]:
        raise ValueError(f"two names: {value['name']!r} outside config, {config['name']!r} inside")
    return {**({"name": value["name"]} if "name" in value else {}), **config}


def _flattened(value: Mapping[str, object], prefix: str) -> Iterable[tuple[str, object]]:
    for name, item in value.items():
        if isinstance(item, dict):
            yield from _flattened(item, f"{prefix}{name}.")
        else:
            yield prefix + name, item


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return ",".join(item.replace(",", "\\,") for item in value)
    # The value itself is not shown: it may be a secret.
    kind = type(value).__name__
    raise ValueError(f"{name} must be text, a number, true or false, or a list of texts, got a {kind}")


def _once_each(pairs: Iterable[tuple[str, _V]]) -> dict[str, _V]:
    result: dict[str, _V] = {}
    for name, value in pairs:
        if name in result:
            raise ValueError(f"{name} is given twice")
        result[name] = value
    return result


def _logical_lines(text: str) -> Iterable[str]:
    """Lines without comments and blanks, with continued ones joined. A line that ends in an odd number of
    backslashes goes on in the next."""
    pending = ""
    for line in re.split(r"\r\n|\r|\n", text):
        stripped = line.lstrip(_BLANKS)
        if not pending and (not stripped or stripped[0] in "#!"):
            continue
        pending += stripped
        if (len(pending) - len(pending.rstrip("\\"))) % 2:
            pending = pending[:-1]
            continue
        yield pending
        pending = ""
    if pending:
        yield pending


_BLANKS = " \t\f"
_SEPARATOR = re.compile(r"(?P<name>(?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)


def _pair(line: str) -> tuple[str, str]:
    found = _SEPARATOR.fullmatch(line)
    if found is None or not found["name"]:
        raise ValueError("a line has a value and no name before it")
    return _unescaped(found["name"]), _unescaped(found["value"])


def _unescaped(text: str) -> str:
    def replace(found: re.Match[str]) -> str:
        digits, character = found.groups()
        return chr(int(digits, 16)) if digits else _ESCAPES.get(character, character)

    return _ESCAPED.sub(replace, text)
