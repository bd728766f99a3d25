"""What is said while something is being done."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator

import pytest
from rich.console import Console
from structlog.testing import capture_logs

from snapshotter.reporting.log_view import LogView
from snapshotter.reporting.status import EngineState, Status
from snapshotter.reporting.steps import SpokenSteps, Step
from snapshotter.reporting.views import LineView, LiveView
from snapshotter.testing.processes import wait_until
from tests.support.terminal import Screen

STARTING = Status(name="shop", state=EngineState.STARTING)
RUNNING = Status(name="shop", state=EngineState.RUNNING, lag_seconds=1.0)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "steps"]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Nobody speaks once nothing is done."""
    yield
    wait_until(lambda: not threads(), "the thread's end", seconds=10)


def test_a_step_says_for_how_long() -> None:
    """Nothing in the first second, then whole seconds."""
    now = [10.0]
    step = Step("starting Spark", lambda: now[0])
    texts = []
    for at in (10.0, 10.9, 11.0, 18.6):
        now[0] = at
        texts.append(step.text)
    assert texts == ["starting Spark", "starting Spark", "starting Spark (1 s)", "starting Spark (8 s)"]


def test_steps_are_said_at_once_and_again() -> None:
    """The same one again is no other one; after the last, nothing more is said."""
    said: list[str] = []
    steps = SpokenSteps(lambda step: said.append(step.what), every_seconds=0.01)
    steps.begin("first")
    assert said[0] == "first"
    wait_until(lambda: said.count("first") >= 3, "it to be said again", seconds=10)
    steps.begin("second")
    steps.begin("second")
    assert steps.busy
    steps.begin(None)
    assert not steps.busy
    assert "first" not in said[said.index("second") :]
    wait_until(lambda: not threads(), "the thread's end", seconds=10)
    before = len(said)
    steps.begin("third")
    assert said[before:][0] == "third"
    steps.begin(None)
    rare = SpokenSteps(lambda step: said.append(step.what), every_seconds=3_600)
    rare.begin("fourth")
    rare.begin(None)


def test_lines_say_steps_in_the_place_of_a_status_that_says_less() -> None:
    """Until it runs; an error of a start is said all the same."""
    out = io.StringIO()
    with LineView(Console(file=out, width=80)) as view:
        view.doing("starting Spark")
        view.update(STARTING)
        view.doing(None)
        view.announce("ready")
        view.update(RUNNING)
    lines = out.getvalue().splitlines()
    assert lines[:2] == ["starting Spark", "ready"]
    assert lines[2].startswith("shop running")


def test_the_display_shows_the_step_and_then_the_status() -> None:
    """The step alone while there is nothing else to know; no line of it is left behind when log lines are written
    beside it, nor when the view is left in the midst of it."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=24)
    with LiveView(console) as view:
        view.doing("starting Spark")
        view.update(STARTING)
        view.message("warning: one")
        view.doing("opening the change stream")
        view.message("warning: two")
        view.doing(None)
        view.update(RUNNING)
        view.announce("ready")
        view.doing("waiting")
    assert "starting Spark …" in out.getvalue()
    screen = Screen()
    screen.write(out.getvalue().replace("\n", "\r\n"))
    lines = [line for line in screen.text.splitlines() if line]
    assert lines[:3] == ["warning: one", "warning: two", "ready"]
    assert [line for line in lines[3:] if not line.startswith("shop running")] == []
    assert len(lines) == 4


def test_log_lines_say_steps_with_their_seconds() -> None:
    """For machines; nobody has to act, so it is no warning."""
    with capture_logs() as logs, LogView() as view:
        view.doing("starting Spark")
        view.announce("ready")
        view.message("look here")
    told = [(line["event"], line["log_level"]) for line in logs]
    assert told == [("starting Spark", "info"), ("ready", "info"), ("look here", "warning")]
    assert logs[0]["seconds"] == 0
