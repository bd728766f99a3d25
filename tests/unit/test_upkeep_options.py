"""The options of upkeep: what they mean for a table, and what is refused."""

from __future__ import annotations

import pytest

from snapshotter.configuration.settings import Settings
from snapshotter.engine.assembly import engine_config
from snapshotter.errors import ConfigurationError
from streaming.delta.upkeep_plan import FileFacts, Kind, Thresholds, due


def made(**options: str) -> Settings:
    named = {name.replace("_", "."): value for name, value in options.items()}
    fixed = {"name": "e", "mongodb.connection.string": "mongodb://h", "delta.warehouse": "/lake"}
    return Settings.from_options({**fixed, **named}, {})


def limits(**options: str) -> Thresholds:
    found = engine_config(made(**options)).upkeep
    assert found is not None
    return found


def kind(options: dict[str, str], *files: FileFacts) -> Kind | None:
    """What a table of these files needs first."""
    step = due(files, limits(**options), 1 << 40, 0.0)
    return None if step is None else step.kind


def test_when_something_is_due() -> None:
    """By engine.upkeep.small.files, engine.upkeep.file.bytes and engine.upkeep.marked.percent; by default 32 files, 128
    MiB, and 30 percent."""
    small = [FileFacts(f"f{number}", 1 << 10, 10) for number in range(32)]
    assert kind({}, *small) is Kind.COMPACT
    assert kind({}, *small[:31]) is None
    assert kind({"engine_upkeep_small_files": "2"}, *small[:2]) is Kind.COMPACT
    larger = [FileFacts(f"f{number}", 10 << 20, 10) for number in range(32)]
    assert kind({}, *larger) is Kind.COMPACT
    assert kind({"engine_upkeep_file_bytes": str(20 << 20)}, *larger) is None
    marked = FileFacts("f", 100 << 20, 100, 30)
    assert kind({}, marked) is Kind.PURGE
    assert kind({"engine_upkeep_marked_percent": "31"}, marked) is None


def test_how_long_files_stay() -> None:
    """delta.retention.hours: a week by default, 0 for ever; a shorter one is refused unless delta.retention.check is
    off."""
    assert (limits().retention_hours, limits().retention_checked) == (168, True)
    assert limits(delta_retention_hours="0").retention_hours == 0
    with pytest.raises(ConfigurationError, match=r"delta\.retention\.hours.*delta\.retention\.check=false"):
        made(delta_retention_hours="167")
    short = limits(delta_retention_hours="1", delta_retention_check="false")
    assert (short.retention_hours, short.retention_checked) == (1, False)
