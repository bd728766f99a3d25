"""A request's progress in a notebook that has no widgets: one line, replaced as things go on."""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from rich.console import Console
from traitlets.config import Config

from signals.client import progress_bar
from signals.outcomes import CollectionStatus, SnapshotStatus


def at(rows: int, state: str) -> SnapshotStatus:
    return SnapshotStatus("q", state, collections=(CollectionStatus("d.c", state, rows=rows, estimated=9),))


def test_a_notebook_without_widgets_shows_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every state takes the place of the one before, under one display id."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # a shell puts its own there
    monkeypatch.setattr(sys, "ps1", "", raising=False)
    monkeypatch.setattr(progress_bar, "find_spec", lambda name: None)
    InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    console = Console(file=StringIO(), force_jupyter=True)
    try:
        with capture_output() as captured, progress_bar.showing(True, console) as show:
            show(at(4, "running"))
            show(at(9, "completed"))
    finally:
        InteractiveShell.clear_instance()
    first, *later = captured.outputs
    assert first.data["text/plain"] == ""
    assert [o.data["text/plain"] for o in later] == [
        "q running | d.c running: 4 of about 9",
        "q completed | d.c completed: 9 of about 9",
    ]
    assert {o.update for o in later} == {True}
    assert {o.transient["display_id"] for o in captured.outputs} == {first.transient["display_id"]}
