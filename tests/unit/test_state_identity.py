"""`snapshotter.state.identity`: the id of an engine, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapshotter.state.identity import engine_id
from snapshotter.state.storage import LocalStorage, StorageError


def test_an_id_is_made_once_and_kept(tmp_path: Path) -> None:
    """Each state has one of its own."""
    first = engine_id(LocalStorage(tmp_path / "a"))
    assert first == engine_id(LocalStorage(tmp_path / "a"))
    assert first != engine_id(LocalStorage(tmp_path / "b"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2, "id": "x"}', '{"format": 1}'])
def test_a_file_that_is_none_of_ours_is_named(tmp_path: Path, text: str) -> None:
    """With its path, and what stands in it."""
    (tmp_path / "engine.json").write_text(text)
    with pytest.raises(StorageError, match=r"engine\.json is not of format 1"):
        engine_id(LocalStorage(tmp_path))
