"""Random worlds: every fault in every mixture. A failure names the scenario; its seed replays it exactly."""

from __future__ import annotations

import pytest

from .faults import Scenario, swarm
from .world import World

_WORLDS = 20


def survive(scenario: Scenario) -> World:
    """Run a world; if an oracle, or the machine itself, objects, say which world it was."""
    world = World(scenario)
    try:
        return world.run()
    except Exception as error:
        error.add_note(f"World(swarm({scenario.seed})).run() replays it: {scenario}")
        raise


@pytest.mark.parametrize("part", range(8))
def test_every_oracle_holds_in_random_worlds(seed: int, part: int) -> None:
    """Whatever goes wrong, READs are of their windows, nothing is lost, and at rest tables equal
    collections."""
    for number in range(_WORLDS):
        survive(swarm((seed + part * _WORLDS + number) % 2**32))


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(50))
def test_every_oracle_holds_in_many_more_random_worlds(seed: int, part: int) -> None:
    """The same, at length."""
    for number in range(200):
        survive(swarm((seed + part * 200 + number) % 2**32))


def test_a_seed_decides_everything() -> None:
    """Two worlds of one seed have the same history, entry by entry and commit by commit."""
    one, two = (survive(swarm(7)) for _ in range(2))
    assert one.source.log == two.source.log
    assert one.sink.offsets == two.sink.offsets
    assert one.sink.saved == two.sink.saved
    assert one.tables == two.tables


def test_the_swarm_meets_every_fault() -> None:
    """Each fault strikes in some of the first worlds, so that the oracles have something to judge."""
    missing = {
        "crash", "restart", "drain", "read_fails", "read_fails_definitely", "open_fails", "buffers_lost",
        "open_document_lost", "hidden", "missing", "drops", "fills",
        "pauses", "resumes", "stops", "again", "altered", "removed", "put_back", "stolen", "optimized", "lost",
    }  # fmt: skip
    for number in range(100):
        missing -= set(survive(swarm(number)).faults)
        if not missing:
            return
    pytest.fail(f"no world met {missing}")
