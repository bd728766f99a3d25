"""A crash at every boundary of a scenario: between any two things that the engine does, one after the
other."""

from __future__ import annotations

import pytest

from .faults import Scenario
from .test_swarm import survive
from .world import World

_SCENARIOS = {
    "first loads": Scenario(seed=1, preloaded=0.9, mode="post-image"),
    "first loads, by lookup": Scenario(seed=2, preloaded=0.5, strategy="insert_delete"),
    "loaded again": Scenario(
        seed=3, requests=3, preloaded=0.4, mode="post-image", strategy="cluster_time", lag=3
    ),
    "single ids": Scenario(seed=4, missing=0.3, collections=1, writes=0.5),
    "paused, stopped, resumed": Scenario(
        seed=6, pauses=0.04, resumes=0.2, stops=0.01, again=0.04, requests=3, urgent=0.5, parts=0.3
    ),
    "signals that come together": Scenario(
        seed=10, together=0.8, pauses=0.06, stops=0.02, resumes=0.3, again=0.04, requests=4, parts=0.3
    ),
    "resumed after failures": Scenario(
        seed=8, read_fails_definitely=0.2, resumes=0.2, requests=3, collections=1, kept=0, again=0.03
    ),
    "the stream waits": Scenario(
        seed=9, blocking=0.6, requests=3, mode="post-image", impatient=0.1, pauses=0.02, resumes=0.2
    ),
    "tables that others change": Scenario(
        seed=11,
        altered=0.03,
        removed=0.02,
        put_back=0.02,
        stolen=0.01,
        optimized=0.02,
        heal=0.2,
        requests=3,
        preloaded=0.5,
    ),
    "tables that are repaired": Scenario(
        seed=12, altered=0.05, removed=0.02, repairs=True, mode="post-image", requests=3
    ),
    "failed reads and lost buffers": Scenario(seed=5, read_fails=0.2, buffers_lost=0.3, collections=1),
}


@pytest.mark.parametrize("name", _SCENARIOS)
def test_a_crash_at_any_boundary_loses_nothing(name: str) -> None:
    """The scenario is run once to count its boundaries, then once for each with a crash there."""
    scenario = _SCENARIOS[name]
    small = Scenario(**{**_fields(scenario), "keys": 6, "chunk_docs": 2, "ticks": 50})
    boundaries = survive(small).boundaries
    assert boundaries > 100
    for boundary in range(1, boundaries + 1):
        world = World(small, crash_at=boundary)
        try:
            world.run()
        except Exception as error:
            error.add_note(f"World({small}, crash_at={boundary}).run() replays it")
            raise
        assert world.restarts == 1


def _fields(scenario: Scenario) -> dict[str, object]:
    return {name: getattr(scenario, name) for name in Scenario.__dataclass_fields__}
