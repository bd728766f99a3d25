"""What is published was measured by the rule that the page states, or says that it was not."""

from __future__ import annotations

import json
from pathlib import Path

from bench.measurement import LOAD_MAX, too_busy

BENCH = Path(__file__).parents[2] / "bench"


def test_a_published_run_was_alone_or_says_so() -> None:
    """The load before it is in its JSON; one above the limit stands in the text, too."""
    said = (BENCH / "README.md").read_text()
    runs = {path.name: json.loads(path.read_text())["about"] for path in (BENCH / "results").glob("*.json")}
    assert "peers.json" in runs
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
