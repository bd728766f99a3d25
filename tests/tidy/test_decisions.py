"""`docs/decisions`: a page for each decision, numbered, in one form, and in the index."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sources import ROOT

FOLDER = ROOT / "docs" / "decisions"
SECTIONS = ["Decision", "Why", "Evidence", "What would change it"]
WORDS_MIN, WORDS_MAX = 80, 250

_NAME = re.compile(r"(\d{4})(?:-[a-z0-9]+)+\.md")
_TITLE = re.compile(r"^# (\d+)\. \S.*", re.MULTILINE)
_ROW = re.compile(r"^\| \[(\d+)\]\(([^)]+)\) \| (.+) \|$", re.MULTILINE)


def pages() -> list[Path]:
    return sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")


def wrong_form(text: str) -> Iterator[str]:
    """What a page has that others have not, or lacks: its sections in their order, none empty, in few words."""
    found = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    headings, contents = found[1::2], found[2::2]
    if headings != SECTIONS:
        yield f"sections are {headings}, not {SECTIONS}"
    yield from (
        f"nothing under {head!r}" for head, said in zip(headings, contents, strict=True) if not said.split()
    )
    if not WORDS_MIN <= (words := len(" ".join(contents).split())) <= WORDS_MAX:
        yield f"{words} words, not {WORDS_MIN} to {WORDS_MAX}"


def test_pages_are_numbered_without_a_gap() -> None:
    """By their names and by their titles, from 1 on."""
    names = [_NAME.fullmatch(path.name) for path in pages()]
    titles = [_TITLE.match(path.read_text()) for path in pages()]
    numbers = [int(found[1]) if found else path.name for found, path in zip(names, pages(), strict=True)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers == [int(found[1]) if found else None for found in titles]


def test_pages_have_one_form() -> None:
    """What was decided, why, on which evidence, and what would change it."""
    wrong = [f"{path.name}: {why}" for path in pages() for why in wrong_form(path.read_text())]
    assert not wrong, "write the page as the others are:\n  " + "\n  ".join(wrong)


def test_the_index_lists_every_page() -> None:
    """In their order, each with its number and one line."""
    rows = _ROW.findall((FOLDER / "README.md").read_text())
    assert [(number, name) for number, name, _ in rows] == [
        (str(n), path.name) for n, path in enumerate(pages(), 1)
    ]
    assert len({line for _, _, line in rows}) == len(rows)


PAGE = "# 1. A page\n" + "".join(f"\n## {section}\n\n{'word ' * 30}\n" for section in SECTIONS)


def test_a_page_in_form_has_nothing_wrong() -> None:
    """So that what follows is found for the reason that is given."""
    assert not list(wrong_form(PAGE))


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (PAGE.replace("## Why", "## Because"), "sections are"),
        (PAGE.replace("## Evidence\n\n" + "word " * 30, "## Evidence\n"), "nothing under 'Evidence'"),
        (PAGE.replace("word " * 30, "word "), "4 words"),
        (PAGE.replace("word " * 30, "word " * 70), "280 words"),
    ],
)
def test_a_page_out_of_form_is_found(page: str, why: str) -> None:
    """Another section, an empty one, too few words and too many."""
    assert [found for found in wrong_form(page) if found.startswith(why)]
