"""Options of the position: where a first start begins, and heartbeats."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapshotter.configuration.settings import Settings
from snapshotter.engine.assembly import engine_config
from snapshotter.errors import ConfigurationError
from snapshotter.position.own_file import export
from snapshotter.position.starts import Named, Start
from streaming.positions import ClusterTime
from streaming.scope.scope import NameList

LEAST = {
    "name": "shop",
    "mongodb.connection.string": "mongodb://localhost:27017/?replicaSet=rs0",
    "delta.warehouse": "/lake",
}


def made(**options: object) -> Settings:
    named = {name.replace("__", "."): value for name, value in options.items()}
    return Settings.from_options({**LEAST, **named}, {})


def test_where_a_first_start_begins_reaches_the_engine(tmp_path: Path) -> None:
    """In each form; unset it is now."""
    file = tmp_path / "position.json"
    file.write_text(export("shop", ClusterTime(1_764_000_000, 7)))
    assert engine_config(made()).position_start is None
    for text, start in (
        ("oldest", Start(named=Named.OLDEST)),
        ("1764000000.7", Start(time=ClusterTime(1_764_000_000, 7))),
        (str(file), Start(time=ClusterTime(1_764_000_000, 7), inclusive=False)),
    ):
        assert engine_config(made(engine__position__start=text)).position_start == start


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"engine.position.start": "soon"},
            r"engine\.position\.start = soon: 'soon' is no position: expected now",
        ),
        (
            {"engine.position.start": "now", "capture.start.op.time": "7576322310144000007"},
            r"engine\.position\.start = now: cannot be set together with capture\.start\.op\.time",
        ),
        ({"engine.oplog.warning.hours": "-1"}, "must be at least 0"),
        ({"engine.heal.first": "shop.("}, r"engine\.heal\.first = shop\.\(: is no regular expression"),
        (
            {"heartbeat.action.query": "db.beats.insertOne({})"},
            r"heartbeat\.action\.query.*is refused: it writes to the source to move a position",
        ),
        ({"internal.mongodb.allow.offset.invalidation": "true"}, "is not supported yet"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, str], said: str) -> None:
    """By the option's name, with the reason."""
    with pytest.raises(ConfigurationError, match=said):
        Settings.from_options({**LEAST, **options}, {})


def test_names_and_figures_reach_the_engine() -> None:
    """The name of the position, the hours to warn of, the interval of heartbeats."""
    config = engine_config(
        made(offset__partition__name="two", engine__oplog__warning__hours=12, heartbeat__interval__ms=5_000)
    )
    assert (config.partition, config.oplog_warning_hours, config.heartbeat_ms) == ("two", 12, 5_000)
    assert config.server_name == "shop"
    assert engine_config(made()).oplog_warning_hours == 48
    first = engine_config(made(engine__heal__first=r"shop\.people,shop\..*")).heal_first
    assert first == NameList((r"shop\.people", r"shop\..*"), excludes=False, mode="regex")
    assert "offset.partition.name" not in config.source_options
