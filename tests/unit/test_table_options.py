"""How new tables are made: `delta.reader` and `delta.table.properties.*`; and how much is known of their files."""

from __future__ import annotations

import pytest

from snapshotter.configuration.settings import Settings
from snapshotter.engine import assembly
from snapshotter.engine.assembly import engine_config
from snapshotter.errors import ConfigurationError
from streaming.delta.table_properties import ALLOWED, REFUSED

UNDER = "delta.table.properties."


def made(options: dict[str, str]) -> Settings:
    fixed = {"name": "e", "mongodb.connection.string": "mongodb://h", "delta.warehouse": "/lake"}
    return Settings.from_options({**fixed, **options}, {})


def test_properties_reach_new_tables() -> None:
    """delta.table.properties.*: Delta's and one's own, beside what every table has."""
    given = {
        "delta.logRetentionDuration": "interval 1 week 2 days",
        "team": "payments",
        "delta.checkpointInterval": " 20 ",
    }
    settings = made({f"{UNDER}{name}": value for name, value in given.items()})
    assert settings.warnings == ()
    form = engine_config(settings).form
    assert form.properties == {name: value.strip() for name, value in given.items()}
    assert form.all_properties == form.properties | {
        "delta.enableDeletionVectors": "true",
        "delta.dataSkippingStatsColumns": "_key,_cluster_time",
    }
    assert settings.masked()[f"{UNDER}team"] == "payments"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        *((name, "1", f"is refused: {why}") for name, why in REFUSED.items()),
        ("snapshotter.plan", "{}", "is refused: the engine keeps"),
        ("delta.constraints.positive", "n > 0", "is refused: a document that breaks one"),
        ("delta.columnMapping.mode", "name", "is refused: files that workers write"),
        ("delta.enableIcebergCompatV2", "true", "is refused: it wants column mapping"),
        ("delta.feature.catalogManaged", "supported", "is refused: it follows"),
        ("Location", "/elsewhere", "is refused: Spark keeps it"),
        ("delta.logRetention", "interval 1 day", "did you mean delta.logRetentionDuration?"),
        ("delta.whatever", "1", "is no property of Delta's that new tables may have; those are: delta.auto"),
        ("delta.logRetentionDuration", "a week", "must be a time, as interval 7 days"),
        ("delta.logRetentionDuration", "-1 days", "must be a time"),
        ("delta.logRetentionDuration", "interval 6 days 23 hours", "must be interval 7 days at least"),
        ("delta.enableChangeDataFeed", "yes", "must be true or false"),
        ("delta.checkpointPolicy", "v3", "must be classic or v2"),
        ("delta.checkpointInterval", "0", "must be a whole number above 0"),
        ("delta.targetFileSize", "64mb", "is no property of Delta's that new tables may have"),
        ("a'b", "1", "is no name of a property"),
        ("team", "${env:HOME}x${y}", ""),
    ],
)
def test_what_would_break_a_table_is_refused(name: str, value: str, why: str) -> None:
    """With the reason, and the option by its whole name."""
    with pytest.raises(ConfigurationError) as refused:
        made({f"{UNDER}{name}": value})
    assert f"{UNDER}{name}" in str(refused.value) or not why
    assert why in str(refused.value)


def test_checkpoints_of_the_log_are_left_to_upkeep() -> None:
    """Where there is any; and whoever has said how often there is to be one is not overruled."""
    name = "delta.checkpointInterval"
    assert engine_config(made({})).form.all_properties[name] == "10000"
    assert engine_config(made({f"{UNDER}{name}": "20"})).form.all_properties[name] == "20"
    assert name not in engine_config(made({"engine.upkeep.enabled": "false"})).form.all_properties


def test_readers_of_any_kind() -> None:
    """delta.reader=any: no deletion vectors, and no checkpoints that they may not know."""
    form = engine_config(made({"delta.reader": "any"})).form
    assert (
        form.all_properties.items()
        >= {"delta.enableDeletionVectors": "false", "snapshotter.reader": "any"}.items()
    )
    assert engine_config(made({"delta.reader": "vectors"})).form == engine_config(made({})).form
    v2 = {f"{UNDER}delta.checkpointPolicy": "v2"}
    assert made(v2)
    with pytest.raises(ConfigurationError, match="may not know such checkpoints"):
        made({**v2, "delta.reader": "any"})
    with pytest.raises(ConfigurationError, match="must be one of vectors, any"):
        made({"delta.reader": "duckdb"})


@pytest.mark.parametrize(
    ("name", "value", "warns"),
    [
        ("delta.enableChangeDataFeed", "true", True),
        ("delta.enableRowTracking", "TRUE", True),
        ("delta.checkpointPolicy", "v2", True),
        ("delta.checkpointPolicy", "classic", False),
        ("delta.enableChangeDataFeed", "false", False),
        ("delta.checkpointInterval", "20", False),
    ],
)
def test_what_costs_speed_is_said(name: str, value: str, *, warns: bool) -> None:
    """Where only Delta's own writer serves it."""
    assert name in ALLOWED
    found = made({f"{UNDER}{name}": value}).warnings
    assert [UNDER + name in text and "slower" in text for text in found] == [True] * warns


@pytest.mark.parametrize(
    ("text", "machine", "wanted"),
    [
        (None, 1 << 30, 96 << 20),
        (None, 16 << 30, 512 << 20),
        (None, 1 << 40, 1 << 30),
        ("1000", 16 << 30, 1_000),
        ("0", 16 << 30, 0),
    ],
)
def test_memory_for_keys_follows_the_machines(
    text: str | None, machine: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``engine.keys.memory.bytes``: unset is a 32nd of what there is, between two bounds."""
    monkeypatch.setattr(assembly, "memory_bytes", lambda: machine)
    settings = made({} if text is None else {"engine.keys.memory.bytes": text})
    assert engine_config(settings).keys_bytes == wanted
