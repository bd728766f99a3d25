"""`docs/recovery.md`, as somebody follows it who copies and pastes: each of its commands does what the page says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

import pytest
from click.testing import Result
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from snapshotter.cli.app import app
from snapshotter.engine import assembly
from snapshotter.reporting.status import STATUS_FILE, Status
from snapshotter.testing.processes import wait_until
from tests.support.engines import SECONDS, Lab, lab, reads, shared
from tests.support.sources import ROOT

__all__ = ["lab", "reads"]

pytestmark = pytest.mark.guard

_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ALONE = ("run", "take-over")
"""Commands for which no engine of the name may run."""


def commands(lab: Lab) -> list[list[str]]:
    """The commands of the page in their order, about the lab's engine; those of the position are tried by
    `integration/test_recovery_page`."""
    page = (ROOT / "docs" / "recovery.md").read_text()
    lines = [line for block in _BLOCK.findall(page) for line in block.splitlines()]
    named = {"shop.toml": str(lab.config_file()), "shop.orders": lab.name("orders")}
    found = [[named.get(word, word) for word in shlex.split(line)[1:]] for line in lines]
    found = [command for command in found if command[0] != "position"]
    assert len(found) > 8
    return found


@pytest.fixture
def run(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], Result]:
    """A command in this process, on the session that all tests share; it has to go well."""
    monkeypatch.setattr(assembly, "spark_session", lambda settings, **_: shared(spark))

    def invoke(command: list[str]) -> Result:
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, f"{command}: {result.output}"
        return result

    return invoke


def shows(lab: Lab) -> Status:
    return Status.from_json((lab.state / STATUS_FILE).read_text())


def test_every_command_of_the_page_works(lab: Lab, run: Callable[[list[str]], Result]) -> None:
    """Beside a running engine, or alone where the page says so. A pause pauses, a resume resumes, a restart begins
    another run, and in the end table and collection are equal."""
    lab.with_options(snapshot__mode="initial")
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "status": "open" if n % 2 else "sent"} for n in range(20)])
    every = commands(lab)
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        for command in (c for c in every if c[0] not in ALONE):
            first = engine.engine.run_state
            result = run(command)
            match command[0]:
                case "status" if "--json" in command:
                    assert Status.from_json(result.stdout).health == "Active"
                case "restart":
                    engine.until("another run", lambda was=first: engine.engine.run_state is not was, SECONDS)
                    engine.catch_up(SECONDS)
                case "pause-stream":
                    wait_until(lambda: shows(lab).health == "Paused", "the pause", seconds=SECONDS)
                case "resume-stream":
                    wait_until(lambda: not shows(lab).stream_paused, "the end of the pause", seconds=SECONDS)
                    orders.insert_one({"_id": "later", "status": "open"})
                    engine.catch_up(SECONDS)
    for command in (c for c in every if c[0] in ALONE):
        run(command)
    lab.assert_equal("orders")


def test_the_page_names_every_command_about_failures() -> None:
    """Whoever needs one finds it there."""
    page = (ROOT / "docs" / "recovery.md").read_text()
    named = (
        "status",
        "restart",
        "pause-stream",
        "resume-stream",
        "config",
        "verify",
        "execute-snapshot",
        "take-over",
        "dead-letters list",
        "dead-letters replay",
    )
    for name in named:
        assert f"snapshotter {name} -c shop.toml" in page
