"""The end of the demo: framed on a terminal, in lines elsewhere, and the same figures in both."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from snapshotter.cli import demo as command
from snapshotter.demo.demo import told
from snapshotter.demo.summary import Pace, Summary, show
from tests.support.demo_summary import SUMMARY
from tests.support.pages import landed

START = datetime(2024, 6, 1, tzinfo=UTC)
WINDOWS = [landed(n, START + timedelta(seconds=n), rows=900, dropped=100) for n in range(1, 6)]


def printed(summary: Summary, width: int, *, terminal: bool, colours: bool = False) -> str:
    out = io.StringIO()
    system = "standard" if colours else None
    show(summary, Console(file=out, width=width, force_terminal=terminal, color_system=system))
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 200])
def test_a_terminal_shows_a_frame(width: int) -> None:
    """On 80 columns nothing is cut or broken: figures beside each other, what was proven, the replay, and next."""
    lines = printed(SUMMARY, width, terminal=True).splitlines()
    assert "the table equals its collection" in lines[0]
    assert all(len(line) == 80 for line in lines)
    assert all(line[0] in "╭│╰" and line[-1] in "╮│╯" for line in lines)
    (figures,) = (line for line in lines if "16,000/s" in line)
    for shown in ("200,000", "7,100", "3 s"):
        assert shown in figures
    text = "\n".join(lines)
    assert "200,321 documents compared: every document equals its row" in text
    assert "first rows after 4.1 s (a cold start), then 23,810/s" in text
    assert "195,000 landed, 5,000 superseded" in text
    assert "/tmp/snapshotter-demo-abcdefgh.html" in text
    assert "snapshotter init" in text.partition("next:")[2]


def test_it_is_green_where_all_is_equal_and_red_where_not() -> None:
    """And a difference is nothing to go on from."""
    green, red = "\x1b[32m", "\x1b[31m"
    good = printed(SUMMARY, 80, terminal=True, colours=True)
    bad = printed(replace(SUMMARY, equal=False), 80, terminal=True, colours=True)
    assert (green in good, red in good) == (True, False)
    assert (green in bad, red in bad) == (False, True)
    assert "DIFFER" in bad
    assert "snapshotter init" not in bad


def test_a_log_has_lines() -> None:
    """Each with its figures, and no frame."""
    lines = printed(SUMMARY, 80, terminal=False).splitlines()
    assert lines == SUMMARY.lines()
    assert lines[0] == "backfilled   200,000 documents, 11 windows, 12.5 s: 16,000/s"


def test_the_cold_start_is_named_apart() -> None:
    """What comes after the first rows is how fast it goes on; where all came at once there is no such rate."""
    pace = Pace.of(START, WINDOWS)
    assert pace == Pace(5.0, 1_000.0)
    assert str(pace) == "first rows after 5.0 s (a cold start), then 1,000/s"
    assert str(Pace.of(START, WINDOWS[:1])) == "first rows after 5.0 s (a cold start)"
    assert Pace.of(START, []) == Pace(0.0, None)


def test_progress_is_told_by_window() -> None:
    """One line for those that have just landed, with how much of the collection that makes."""
    assert told(WINDOWS[:1], 1_000, 5_000) == "window 1 landed: 900 rows, 100 READs superseded; 20 % read"
    several = told(WINDOWS[1:], 5_000, 4_000)
    assert several == "4 windows, up to 5, landed: 3,600 rows, 400 READs superseded; 100 % read"


@pytest.mark.parametrize("screen", [{}, {"DISPLAY": ":0"}, {"WAYLAND_DISPLAY": "wayland-0"}])
def test_no_browser_is_opened_where_nobody_looks(
    screen: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log is no terminal, and a terminal need not have a screen."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in screen.items():
        monkeypatch.setenv(name, value)
    assert command.has_screen() is False  # pytest's output is no terminal
