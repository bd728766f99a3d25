"""Pictures in `docs`: each that a page shows is there, and each that is there is shown by a page."""

from __future__ import annotations

import re

from scripts.diagrams import FOLDER, diagrams
from tests.support.next_steps import pages
from tests.support.sources import ROOT

ELSEWHERE = re.compile(r"@import|@font-face|url\((?!#)|\b(?:href|src)=\"(?!#)")
_SHOWN = re.compile(r"\]\(([^)\s#]+\.(?:png|svg))\)")


def test_pages_show_the_pictures_that_there_are() -> None:
    """None is missing, and none lies there for nobody."""
    shown = {(page.parent / name).resolve() for page in pages() for name in _SHOWN.findall(page.read_text())}
    assert [path for path in shown if not path.is_file()] == []
    assert {path for path in (ROOT / "docs" / "images").glob("*.*") if path.resolve() not in shown} == set()


def test_each_diagram_is_drawn() -> None:
    """As its text is now: the site shows the picture (`make screens` draws what is missing)."""
    assert {path.name for path in FOLDER.iterdir()} == set(diagrams())
    for path in FOLDER.iterdir():
        assert not ELSEWHERE.findall(path.read_text()), path
