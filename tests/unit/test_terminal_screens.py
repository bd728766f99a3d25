"""`make screens`, the terminal's part: pictures of what a person sees, drawn by the functions that draw it."""

from __future__ import annotations

import re

from scripts.terminal_screens import FOLDER, pictures

_ELSEWHERE = re.compile(r"@import|@font-face|url\((?!#)|(?:href|src)=")


def test_the_pictures_are_as_it_looks_now() -> None:
    """Whatever changes a screen changes its picture (`make screens`); and they load nothing from elsewhere."""
    drawn = dict(pictures())
    assert {path.stem for path in FOLDER.glob("terminal-*")} == set(drawn)
    for name, picture in drawn.items():
        assert (FOLDER / f"{name}.svg").read_text() == picture, f"{name} looks different: make screens"
        assert not _ELSEWHERE.findall(picture), name


def test_what_matters_is_in_them() -> None:
    """The state, the request with its numbers, the remedy, the proof."""
    shown = {name: re.sub(r"&#160;|\s+", " ", re.sub(r"<[^>]+>", "", text)) for name, text in pictures()}
    for width in (80, 200):
        for said in ("shop running", "request nightly is running", "478,236", "31,250"):
            assert said in shown[f"terminal-status-{width}"]
    assert "next: snapshotter run -c shop.toml" in shown["terminal-doctor"]
    assert "ready: signals are taken from now on" in shown["terminal-start"]
    assert "the table equals its collection" in shown["terminal-demo"]
