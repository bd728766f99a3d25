"""Tests that the pages in `docs` name exist: a table that says which test shows what must not go stale."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
NAMED = re.compile(r"`([^`\s]*)::(\w+)(?:\[[^`]*\])?`")
FILE = re.compile(r"`((?:\w+/)*test_\w+)`")
TRACES = re.compile(r"\btraces? ((?:`\w+`(?:, | and )?)+)")
ANSWERS = re.compile(r"::test_|\btraces? `|\bmissing\b|\bnot meant\b|\bas for\b")


def pages() -> list[Path]:
    return sorted((ROOT / "docs").glob("*.md"))


@cache
def files_named(name: str) -> tuple[Path, ...]:
    """``tests/unit/test_a.py``, ``unit/test_a``, or ``test_a``, wherever that is."""
    name = name.removeprefix("tests/").removesuffix(".py")
    return tuple(path for path in TESTS.rglob("*.py") if f"/{path.with_suffix('')}".endswith(f"/{name}"))


@cache
def functions_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def missing(page: Path) -> Iterator[str]:
    """The references of a page that lead nowhere. `…` stands for the file of the reference before it."""
    before = ""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        where = f"{page.relative_to(ROOT)}:{number}"
        for file, test in NAMED.findall(line):
            before = before if file == "…" else file
            if not any(test in functions_of(path) for path in files_named(before)):
                yield f"{where}: {before}::{test}"
        yield from (f"{where}: {name}" for name in FILE.findall(line) if not files_named(name))
        for traces in TRACES.findall(line):
            for name in re.findall(r"\w+", traces):
                if not (TESTS / "traces" / f"{name}.txt").exists():
                    yield f"{where}: trace {name}"


def test_every_test_that_a_page_names_exists() -> None:
    """By file and function; ids of parameters in brackets may follow. Traces are files of `tests/traces`."""
    broken = [reference for page in pages() for reference in missing(page)]
    assert not broken, "name the tests as they are called now:\n  " + "\n  ".join(broken)


def test_references_are_found() -> None:
    """The pattern above matches what the pages write: the tables of rules and of the peer's tests have many."""
    counts = {page.stem: len(NAMED.findall(page.read_text())) for page in pages()}
    assert counts["ARCHITECTURE"] > 15
    assert counts["peer-tests"] > 100


def test_every_row_about_the_peer_has_an_answer() -> None:
    """A test of ours, or why it is not meant for MongoDB, or what is missing."""
    page = ROOT / "docs" / "peer-tests.md"
    silent = [
        f"{page.relative_to(ROOT)}:{number}: {line}"
        for number, line in enumerate(page.read_text().splitlines(), 1)
        if line.startswith("| ") and "---" not in line and not line.startswith(("| Debezium", "| #", "| gap"))
        if not ANSWERS.search(line.rstrip(" |").rpartition("| ")[2])
    ]
    assert not silent, "say which test shows it, or why there is none:\n  " + "\n  ".join(silent)
