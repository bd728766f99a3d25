"""The file through which an engine reaches the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.hints import Hints, read_hints, write_hints


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Nonce and density come back, and a second write replaces the first."""
    path = tmp_path / "hints.json"
    for hints in (Hints(nonce=3, events_per_second=12.5), Hints(nonce=4)):
        write_hints(path, hints)
        assert read_hints(str(path)) == hints
    assert [file.name for file in tmp_path.iterdir()] == ["hints.json"]


def test_no_file_means_no_hints(tmp_path: Path) -> None:
    """The source may be asked before the engine has written anything."""
    assert read_hints(None) == read_hints(str(tmp_path / "none.json")) == Hints(0, None)


@pytest.mark.parametrize("text", ["", "[]", '{"nonce": "x"}', '{"density": 5}'])
def test_a_file_that_holds_no_hints_is_named(tmp_path: Path, text: str) -> None:
    """A wrong path must not pass for a missing file."""
    path = tmp_path / "hints.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"hints\.file=.*hints\.json.*holds no hints"):
        read_hints(str(path))
