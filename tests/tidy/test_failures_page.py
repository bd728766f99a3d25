"""`docs/failures.md` and `docs/recovery.md` say what is: their tables are the code's own."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from snapshotter.configuration.patience import Reconnects, RestartPolicy
from snapshotter.diagnosis import Diagnosis
from snapshotter.engine.auto_restart import may_restart
from snapshotter.failure_classes import CONDITIONS, FailureClass
from snapshotter.failures import ENVIRONMENT_RETRIES, UNKNOWN_RETRIES, Fault
from snapshotter.reporting.health import health_of
from snapshotter.reporting.status import EngineState
from tests.support.sources import ROOT

FAILURES = (ROOT / "docs" / "failures.md").read_text()
RECOVERY = (ROOT / "docs" / "recovery.md").read_text()


def rows(page: str, header: str) -> Iterator[list[str]]:
    """The cells of the table under this header line."""
    lines = iter(page.splitlines())
    for line in lines:
        if line == header:
            next(lines)
            break
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def test_every_condition_is_on_the_page() -> None:
    """With its class and its next step, class by class, and no other."""
    header = "| class | condition | next step, where the error brings no better one |"
    said = [(*(cell.strip("`") for cell in row[:2]), row[2]) for row in rows(FAILURES, header)]
    there = [
        (c.failure.value, c.name, c.next_step)
        for kind in FailureClass
        for c in CONDITIONS.values()
        if c.failure is kind
    ]
    assert said == there


def test_the_table_of_health_is_health() -> None:
    """Every state, in each case."""
    header = "| state | neither failing nor paused | paused | failing |"
    said = {row[0].strip("`"): tuple(row[1:]) for row in rows(FAILURES, header)}
    there = {
        state.value: (
            health_of(state, broken=False, paused=False).value,
            health_of(state, broken=False, paused=True).value,
            health_of(state, broken=True, paused=False).value,
        )
        for state in EngineState
    }
    assert said == there
    for state in EngineState:  # what is both is failing
        assert health_of(state, broken=True, paused=True) is health_of(state, broken=True, paused=False)


def test_the_table_of_restarts_is_the_policy() -> None:
    """When each comes, and how long after the first failure."""
    header = "| restart | comes after the failure before it | since the first failure |"
    policy, total, there = RestartPolicy(enabled=True), 0, []
    for n in range(policy.most or 0):
        minutes = round(policy.wait_ms(n) / 60_000)
        total += minutes
        there.append([str(n + 1), f"{minutes} min" if minutes else "at once", f"{total} min"])
    assert list(rows(FAILURES, header)) == there


def test_the_numbers_in_the_text_are_those_of_the_code() -> None:
    """Attempts, pauses, retries; and the classes that are not restarted."""
    reconnects = Reconnects()
    assert (reconnects.attempts, reconnects.initial_ms, reconnects.most_ms) == (16, 1_000, 120_000)
    assert f"is tried {ENVIRONMENT_RETRIES} times in a row" in FAILURES
    assert f"what nobody knows {UNKNOWN_RETRIES} times" in FAILURES
    never = {c.failure.value for c in CONDITIONS.values() if not may_restart(Diagnosis(c, Fault.TRANSIENT))}
    assert all(f"`{name}`" in FAILURES.split("A restart is never made")[1].split("\n\n")[0] for name in never)


@pytest.mark.parametrize("kind", FailureClass)
def test_every_class_has_a_way_out(kind: FailureClass) -> None:
    """On the page of recovery; and every condition that it names exists."""
    table = list(rows(RECOVERY, "| class | what you see | the way out |"))
    assert any(row[0].split("`")[1] == kind.value for row in table)
    named = {name for row in table for name in re.findall(r"`([a-z-]+)`", row[0])}
    assert named <= {*(k.value for k in FailureClass), *CONDITIONS}
