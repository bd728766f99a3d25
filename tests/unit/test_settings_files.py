"""Configuration files in their forms; YAML has a page of its own (`test_connector_resource`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapshotter.configuration.config_files import (
    parse_json,
    parse_properties,
    parse_toml,
    read_file,
)
from snapshotter.errors import ConfigurationError


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "shop", "config": {"capture.mode": "x", "n": 5, "flag": true, "gone": null}}',
        '{"name": "shop", "capture.mode": "x", "n": "5", "flag": "true"}',
        '{"config": {"name": "shop", "capture.mode": "x", "n": 5, "flag": true}}',
    ],
)
def test_kafka_connect_json(text: str) -> None:
    """A request and a bare map mean the same; values are text, and null is not set."""
    assert parse_json(text) == {"name": "shop", "capture.mode": "x", "n": "5", "flag": "true"}


def test_toml() -> None:
    """Quoted dotted names, and tables as their prefix; a list is joined, its commas escaped."""
    text = '"capture.mode" = "x"\nn = 5\nflag = false\nlist = ["a", "b,c"]\n[spark]\nmaster = "local"\n'
    assert parse_toml(text) == {
        "capture.mode": "x",
        "n": "5",
        "flag": "false",
        "list": "a,b\\,c",
        "spark.master": "local",
    }


def test_properties() -> None:
    """Java's rules: comments, three separators, escapes, continued lines; Debezium Server's prefix is
    dropped.
    """
    text = "\n".join(
        [
            "# comment",
            "! comment",
            "",
            "debezium.source.name=shop",
            "capture.mode : x",
            "n 5",
            "regex = shop\\\\.o.*",
            "long = a,\\",
            "    b",
            "uni\\u0063ode = \\u00e9\\tx",
            "odd\\ name = v",
            "empty =",
            "url = mongodb://h/?a=b  ",
        ]
    )
    assert parse_properties(text) == {
        "name": "shop",
        "capture.mode": "x",
        "n": "5",
        "regex": "shop\\.o.*",
        "long": "a,b",
        "unicode": "é\tx",
        "odd name": "v",
        "empty": "",
        "url": "mongodb://h/?a=b",
    }


@pytest.mark.parametrize(
    ("name", "text", "expectation"),
    [
        ("a.json", "{", "cannot read a.json: Expecting property name"),
        ("a.json", "[]", "expected a JSON object, got list"),
        ("a.json", '{"x": 1, "x": 2}', "x is given twice"),
        ("a.json", '{"config": {"x": {"y": 1}}}', "x must be text.* got a dict"),
        ("a.json", '{"config": {"x": [1]}}', "x must be text.* got a list"),
        ("a.json", '{"name": "a", "config": {"name": "b"}}', "two names"),
        ("a.json", '{"config": {}, "confg": 1}', "not confg"),
        ("a.toml", "capture.mode = 1\ncapture.mode.x = 2\n", "option names need quotes"),
        ("a.properties", "a=1\ndebezium.source.a=2", "a is given twice"),
        ("a.properties", "=1", "no name before it"),
        ("a.ini", "a: 1", "must end in .json, .properties, .toml, .yaml"),
        ("a.yaml", "a: 1", "one resource of kind KafkaConnector, got 0"),
    ],
)
def test_broken_files(tmp_path: Path, name: str, text: str, expectation: str) -> None:
    """Whatever is wrong with a file, the message names it and the reason."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=expectation):
        read_file(path)


def test_an_unreadable_file(tmp_path: Path) -> None:
    """A file that is missing, or not text, is named."""
    with pytest.raises(ConfigurationError, match=r"missing.json.*No such file"):
        read_file(tmp_path / "missing.json")
    binary = tmp_path / "x.json"
    binary.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ConfigurationError, match=r"x.json.*utf-8"):
        read_file(binary)
