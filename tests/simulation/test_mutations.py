"""Each rule-breaking change is noticed: by an oracle, or by the machine's own refusal."""

from __future__ import annotations

import traceback
from dataclasses import replace
from pathlib import Path

import pytest

from . import (
    mutations_of_blocking,
    mutations_of_control,
    mutations_of_namespaces,
    mutations_of_reports,
    mutations_of_rereads,
    mutations_of_tables,
)
from .decisions import Violation
from .faults import swarm
from .mutations import MUTATIONS, Mutation
from .world import World

_PLANTED_ELSEWHERE = (
    mutations_of_blocking,
    mutations_of_control,
    mutations_of_namespaces,
    mutations_of_tables,
    mutations_of_rereads,
    mutations_of_reports,
)
_WORLDS_MAX = 120
_NO_OPERATORS = {"parts": 0.0, "urgent": 0.0, "pauses": 0.0, "stops": 0.0, "again": 0.0, "blocking": 0.0}

_TABLES_STAY = {
    "altered": 0.0,
    "removed": 0.0,
    "put_back": 0.0,
    "stolen": 0.0,
    "optimized": 0.0,
    "lost": 0.0,
    "heal": 0.0,
    "late": 0.0,
}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_broken_rule_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A world of the kind in which the rule matters survives as it is, and fails once the rule is broken."""
    busy = mutation.rule in ("control", "parts", "blocking", "suspended", "late")
    alone = {} if mutation.rule == "suspended" else _TABLES_STAY
    tuned = {**({} if busy else _NO_OPERATORS), **alone, **mutation.tuned}
    for seed in range(_WORLDS_MAX):
        scenario = replace(swarm(seed), **tuned)
        with monkeypatch.context() as patch:
            mutation.plant(patch)
            try:
                World(scenario).run()
            except (Violation, ValueError) as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                assert not Path(where.filename).name.startswith("mutations"), "the mutation itself broke"
                print(f"seed {seed}: {type(error).__name__} in {where.name}: {str(error)[:200]}")
                break
    else:
        pytest.fail(f"rule {mutation.rule}: nothing noticed {mutation.name} in {_WORLDS_MAX} worlds")
    World(scenario).run()


def test_every_rule_that_the_core_keeps_is_broken_once() -> None:
    """The rules of docs/PROTOCOL.md that the pure core keeps, or shares with the engine around it."""
    assert {mutation.rule for mutation in MUTATIONS} >= {
        "1",
        "2",
        "3",
        "4",
        "5",
        "6",
        "9",
        "11",
        "12",
        "60",
        "control",
        "blocking",
        "suspended",
        "late",
    }
