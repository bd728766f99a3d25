"""What is published was measured by the rule that the page states, or says that it was not."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import lag_plot, measurement
from bench.lines import about_run, add_options, telling
from bench.measurement import LOAD_MAX, too_busy

BENCH = Path(__file__).parents[2] / "bench"


def test_a_published_run_was_alone_or_says_so() -> None:
    """The load before it is in its JSON; one above the limit stands in the text, too."""
    said = (BENCH / "README.md").read_text()
    runs = dict(published())
    assert {"peers.json", "cost.jsonl", "cluster.jsonl"} <= set(runs)
    loads = {name: about["load_before"] for name, about in runs.items()}
    busy = {name: load for name, load in loads.items() if load > LOAD_MAX}
    assert [name for name, load in busy.items() if f"the load before it was {load}" not in said] == []
    assert f"above {LOAD_MAX} a run is refused" in said


def test_a_busy_machine_is_not_measured_on() -> None:
    """Why, and the two ways on; a quiet one is."""
    assert too_busy(LOAD_MAX) is None
    why = too_busy(0.94)
    assert why is not None
    assert "0.94" in why
    assert "--busy" in why


def published() -> Iterator[tuple[str, dict[str, object]]]:
    """Of each file of results what it says about its run."""
    for path in (BENCH / "results").glob("*.json*"):
        text = path.read_text()
        yield path.name, json.loads(text if path.suffix == ".json" else text.splitlines()[0])["about"]


def os_with_load(load: float) -> SimpleNamespace:
    """The module `os`, on a machine with this load of the last minute."""
    return SimpleNamespace(**{**vars(os), "getloadavg": lambda: (load, 0.0, 0.0)})


def test_lines_are_kept_as_they_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The first says the machine, the load and what was asked for, but no folder; nothing is begun on a busy one, and
    what was kept before is left then."""
    monkeypatch.setattr(measurement, "os", os_with_load(0.31))
    parser, kept = ArgumentParser(), tmp_path / "kept.jsonl"
    parser.add_argument("--rows", type=int, default=5)
    add_options(parser)
    asked = parser.parse_args(["--output", str(kept)])
    with telling(about_run(asked), asked.output) as tell:
        tell(part="first", seconds=1.5)
    about, first = map(json.loads, kept.read_text().splitlines())
    assert first == {"part": "first", "seconds": 1.5}
    assert about["about"].items() >= {"load_before": 0.31, "rows": 5}.items()
    assert str(tmp_path) not in kept.read_text()
    assert capsys.readouterr().out == kept.read_text()

    monkeypatch.setattr(measurement, "os", os_with_load(0.94))
    with pytest.raises(SystemExit, match="others are at work"), telling(about_run(asked), asked.output):
        pytest.fail("it has begun")
    assert len(kept.read_text().splitlines()) == 2
    with telling(about_run(parser.parse_args(["--busy"])), None):
        assert json.loads(capsys.readouterr().out)["about"]["load_before"] == 0.94


def test_lags_are_drawn(tmp_path: Path) -> None:
    """What a run with `--output` has kept: changes, those beside backfills, and lines of something else."""
    lag = {"checkout": "this", "documents": 1_000, "rate": 200.0, "p50": 0.4, "p90": 0.7, "p99": 1.2}
    beside = {**lag, "backfill": "orders_1"}
    lines = [{"about": {}}, lag, beside, {"checkout": "this", "documents": 1_000, "snapshots": 20, "p50": 2}]
    kept = tmp_path / "lag.jsonl"
    kept.write_text("\n".join(map(json.dumps, lines)))
    lag_plot.plot(lag_plot.load(kept), tmp_path / "lag.png")
    assert (tmp_path / "lag.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="no line has the lag"):
        lag_plot.plot(lines[:1], tmp_path / "none.png")
