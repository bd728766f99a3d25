"""Every next step that a message or a page names can be followed: it exists, and is accepted as it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.next_steps import (
    OPTION,
    ROOT,
    Said,
    broken_in,
    code_of,
    messages,
    pages,
    targets,
    texts_of,
    wrong_line,
)

_LINK = re.compile(r"\]\(([^)\s]+)\)")


def report(broken: list[str], fix: str) -> None:
    assert not broken, f"{fix}:\n  " + "\n  ".join(broken)


def test_what_messages_advise_exists() -> None:
    """Options are supported and take the value that stands beside them; commands have their flags; extras and targets
    are there."""
    report([why for said in messages() for why in broken_in(said)], "advise what works")


def test_what_pages_name_in_code_exists() -> None:
    """The same of what stands in backticks; a dotted name may also be a module, or something in one."""
    inline = [said for page in pages() for kind, said in code_of(page) if kind == "inline"]
    report([why for said in inline for why in broken_in(said)], "name what is there")


def test_commands_of_pages_parse() -> None:
    """Every line of a page's shell blocks that calls us is taken by the command line's own parser; targets exist."""
    broken = []
    for page in pages():
        for kind, said in code_of(page):
            for line in said.text.splitlines() if kind == "sh" else ():
                made = re.match(r"make ([a-z-]+)", line)
                why = f"no target {made[1]}" if made and made[1] not in targets() else wrong_line(line)
                broken += [f"{said.place}: {why}"] if why else []
    report(broken, "write commands as they are")


def links(page: Path) -> Iterator[tuple[str, str]]:
    for link in _LINK.findall(page.read_text()):
        if "://" not in link:
            path, _, anchor = link.partition("#")
            yield path, anchor


def anchors(page: Path) -> set[str]:
    """Of its headings, as they are shown on the web."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    """To files of this repository, and to headings in them."""
    broken = []
    for page in pages():
        for path, anchor in links(page):
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{page.relative_to(ROOT)}: {path}#{anchor}")
    report(broken, "link to what is there")


def test_enough_is_found() -> None:
    """The patterns match what messages and pages write."""
    named = {found[1] for said in messages() for found in OPTION.finditer(said.text)}
    assert {"signal.data.collection", "snapshot.mode", "errors.max.retries", "delta.warehouse"} <= named
    assert len(named) > 50
    lines = [
        li for p in pages() for kind, said in code_of(p) if kind == "sh" for li in said.text.splitlines()
    ]
    assert sum(line.startswith("snapshotter ") for line in lines) > 15
    assert sum(1 for page in pages() for _ in links(page)) > 15


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ('"a new checkpoint, with start.position=now"', "start.position is no option"),
        (
            '"check internal.mongodb.allow.offset.invalidation and start again"',
            "internal.mongodb.allow.offset.invalidation is not supported yet",
        ),
        ('"start with snapshot.mode=whenever"', "snapshot.mode=whenever"),
        ('f"{path}: set capture.scope to the moon"', "capture.scope=the"),
        ('"run snapshotter execute-snapshot --retry"', "snapshotter execute-snapshot has no --retry"),
        ('"do it with snapshotter reboot"', "snapshotter has no command reboot"),
        ('"add --forever to it"', "no command has --forever"),
        ('"pip install snapshotter[rabbit]"', "there is no extra rabbit"),
    ],
)
def test_advice_that_leads_nowhere_is_found(source: str, why: str) -> None:
    """In a constant, and in an f-string whose values only a run knows."""
    broken = [line for said in texts_of(f"said = {source}", "there.py") for line in broken_in(said)]
    assert len(broken) == 1
    assert why in broken[0]


def test_a_wrong_line_is_found() -> None:
    """Arguments that are missing, flags and commands that are not there; what is somebody else's is left alone."""
    assert wrong_line("snapshotter run")  # without its configuration
    assert wrong_line("snapshotter run -c shop.toml --twice")
    assert wrong_line("snapshotter walk -c shop.toml")
    assert not wrong_line("snapshotter run -c shop.toml --once   # a comment")
    assert not wrong_line("echo snapshotter walk")
    assert list(broken_in(Said("README.md:1", "engine.batch.max.evnts")))
