"""The page's token: whose it is, and who can read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapshotter.errors import DefiniteError
from snapshotter.page.tokens import FILE, token_of


def test_one_that_is_set_is_not_kept(tmp_path: Path) -> None:
    """Its value is in no text that is made of it."""
    token = token_of("chosen-by-the-operator", tmp_path)
    assert (token.text, token.made_up, token.file) == ("chosen-by-the-operator", False, None)
    assert "chosen" not in repr(token)
    assert list(tmp_path.iterdir()) == []


def test_one_that_is_made_up_lasts(tmp_path: Path) -> None:
    """In a file that only its owner can open, in a folder that need not be there yet; the next start finds it."""
    state = tmp_path / "state"
    first, second = token_of(None, state), token_of(None, state)
    assert first.text == second.text
    assert (first.made_up, first.file) == (True, state / FILE)
    assert len(first.text) >= 32
    assert (state / FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in state.iterdir()] == [FILE]


def test_each_engine_has_its_own(tmp_path: Path) -> None:
    """No two are alike; without a folder none is kept."""
    texts = {token_of(None, folder).text for folder in (tmp_path / "a", tmp_path / "b", None, None)}
    assert len(texts) == 4


def test_an_empty_file_is_no_token(tmp_path: Path) -> None:
    """Whoever asked for an empty one would be let in by everybody."""
    (tmp_path / FILE).touch(0o600)
    assert token_of(None, tmp_path).text


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o604])
def test_one_that_others_can_open_is_not_taken(tmp_path: Path, mode: int) -> None:
    """The file is named, and what to do about it; its content is not."""
    (tmp_path / FILE).write_text("seen-by-everybody")
    (tmp_path / FILE).chmod(mode)
    with pytest.raises(DefiniteError, match="others than its owner") as refusal:
        token_of(None, tmp_path)
    assert "seen-by" not in str(refusal.value)
    assert "delete" in str(refusal.value.next_step)
