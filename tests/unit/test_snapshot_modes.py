"""What each snapshot mode decides, and modes of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapshotter.configuration.snapshot_modes import GROUP, MODES, configured, custom
from tests.support.packages import install


@pytest.mark.parametrize(
    ("mode", "first", "later", "streams"),
    [
        ("always", True, True, True),
        ("initial", True, False, True),
        ("initial_only", True, False, False),
        ("no_data", False, False, True),
        ("when_needed", True, False, True),
    ],
)
def test_a_mode_decides_by_whether_there_is_a_position(
    mode: str, first: bool, later: bool, streams: bool
) -> None:
    """Debezium's table for the modes that need no lost position."""
    policy = MODES[mode]
    assert policy.should_snapshot_data(offset_exists=False, snapshot_in_progress=False) is first
    assert policy.should_snapshot_data(offset_exists=True, snapshot_in_progress=False) is later
    assert policy.should_stream() is streams
    assert policy.should_snapshot_on_data_error() is (mode == "when_needed")


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_load_that_goes_on_is_not_begun_again(mode: str) -> None:
    """It is a request, and resumes where it was."""
    assert not MODES[mode].should_snapshot_data(offset_exists=True, snapshot_in_progress=True)


@pytest.mark.parametrize("data", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_switches(data: bool, stream: bool) -> None:
    """``configuration_based``: every start does what the switches say."""
    policy = configured(snapshot_data=data, start_stream=stream, on_data_error=data)
    for exists in (False, True):
        assert policy.should_snapshot_data(offset_exists=exists, snapshot_in_progress=False) is data
    assert policy.should_stream() is stream
    assert policy.should_snapshot_on_data_error() is data


def bring(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str) -> None:
    """A package that brings a mode."""
    install(folder, monkeypatch, f"{name}_modes", code, GROUP, {name: "Mine"})


def test_a_mode_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by its entry point; any class with the two decisions will do."""
    code = (
        "class Mine:\n"
        "    def should_snapshot_data(self, offset_exists, snapshot_in_progress): return offset_exists\n"
        "    def should_stream(self): return False\n"
        "    def should_snapshot_on_data_error(self): return True\n"
    )
    bring(tmp_path, monkeypatch, "odd", code)
    policy = custom("odd")
    assert policy.should_snapshot_data(offset_exists=True, snapshot_in_progress=False)
    assert not policy.should_stream()


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        (
            "halfway",
            "class Mine:\n    def should_stream(self): return True\n",
            "it needs should_snapshot_data",
        ),
        ("broken", "class Mine:\n    def __init__(self): raise OSError('no disk')\n", "OSError: no disk"),
        ("absent", "", "could not be made: AttributeError"),
    ],
)
def test_a_mode_that_is_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str, said: str
) -> None:
    """Before anything is started: whose it is, and what is wrong with it."""
    bring(tmp_path, monkeypatch, name, code)
    with pytest.raises(ValueError, match=f"{name}_modes:Mine.*{said}"):
        custom(name)


def test_an_unknown_mode_is_told_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt name is answered with the names that exist."""
    bring(tmp_path, monkeypatch, "weekly", "class Mine: ...\n")
    with pytest.raises(ValueError, match=r"no package brings a snapshot mode 'wekly'.*there are: .*weekly"):
        custom("wekly")
