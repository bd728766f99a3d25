"""The golden traces: a change of the protocol shows up as a change of these files."""

from __future__ import annotations

from pathlib import Path

import pytest

from .runner import Trace

_TRACES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", _TRACES, ids=lambda path: path.stem)
def test_the_machine_says_what_it_said(path: Path, request: pytest.FixtureRequest) -> None:
    """Played again, each trace gives the same answers, word for word."""
    written = path.read_text()
    played = Trace().play(written)
    if request.config.getoption("--rewrite-traces", default=False):
        path.write_text(played)
    else:
        assert played == written, "explain the difference, then: pytest tests/traces --rewrite-traces"


@pytest.mark.parametrize("path", _TRACES, ids=lambda path: path.stem)
def test_a_trace_begins_with_its_scenario(path: Path) -> None:
    """A reader learns first what is going to happen, and why it matters."""
    assert path.read_text().startswith("# ")


def test_there_are_traces() -> None:
    """The folder is found."""
    assert len(_TRACES) >= 10
