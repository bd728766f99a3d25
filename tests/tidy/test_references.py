"""Tests that the pages in `docs` name exist: a table that says which test shows what must not go stale."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from snapshotter.configuration.options import find
from tests.support.code_names import is_code, may_be_code
from tests.support.next_steps import FOREIGN

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
NAMED = re.compile(r"`([^`\s]*)::(\w+)(?:\[[^`]*\])?`")
FILE = re.compile(r"`((?:\w+/)*test_\w+)`")
TRACES = re.compile(r"\btraces? ((?:`\w+`(?:, | and )?)+)")
DOTTED = re.compile(r"`(\w+(?:\.\w+)+)`")
MARKED = " (thorough"
ANSWERS = re.compile(r"::test_|\btraces? `|\bmissing\b|\bnot meant\b|\bas for\b")


def pages() -> list[Path]:
    return sorted((ROOT / "docs").rglob("*.md"))


def is_about_code(page: Path) -> bool:
    return page.parent.name == "decisions" or page.stem in ("ARCHITECTURE", "PROTOCOL", "tour")


@cache
def files_named(name: str) -> tuple[Path, ...]:
    """``tests/unit/test_a.py``, ``unit/test_a``, or ``test_a``, wherever that is."""
    name = name.removeprefix("tests/").removesuffix(".py")
    return tuple(path for path in TESTS.rglob("*.py") if f"/{path.with_suffix('')}".endswith(f"/{name}"))


@cache
def functions_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@cache
def thorough_functions_of(path: Path) -> frozenset[str]:
    """Those that are thorough whatever the values of their parameters."""
    tree = ast.parse(path.read_text())
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(decorator) == "pytest.mark.thorough" for decorator in node.decorator_list)
    )


def wrongly_marked(line: str) -> Iterator[str]:
    """The tests of a line that are thorough and not called so, or the other way round. Of one that is named with the id
    of a parameter only the first: which ids are thorough is known when tests are collected, not from their text."""
    for reference in NAMED.finditer(line):
        file, test = reference.groups()
        thorough = any(test in thorough_functions_of(path) for path in files_named(file))
        marked = line.startswith(MARKED, reference.end())
        if thorough != marked and (thorough or "[" not in reference[0]):
            yield f"{file}::{test} is {'' if thorough else 'not '}thorough"


def nowhere(page: Path) -> Iterator[str]:
    """The names of code on a page that lead nowhere. What begins like one may be an option."""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for name in DOTTED.findall(line):
            known = is_code(name) or find(name) is not None or name in FOREIGN
            if may_be_code(name) and not known:
                yield f"{page.relative_to(ROOT)}:{number}: {name}"


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


def test_all_code_that_a_page_names_exists() -> None:
    """On the pages about the code, by its whole name: it begins with a package, or with a room of `snapshotter`."""
    broken = [name for page in pages() if is_about_code(page) for name in nowhere(page)]
    assert not broken, "name the code as it is called now:\n  " + "\n  ".join(broken)


def test_references_are_found() -> None:
    """The pattern above matches what the pages write: the tables of rules and of the peer's tests have many."""
    counts = {page.stem: len(NAMED.findall(page.read_text())) for page in pages()}
    assert counts["PROTOCOL"] > 30
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


def test_thorough_tests_are_called_so() -> None:
    """Who reads that page must not take what `make test-thorough` shows for what every run shows."""
    page = ROOT / "docs" / "peer-tests.md"
    wrong = [
        f"{page.relative_to(ROOT)}:{number}: {what}"
        for number, line in enumerate(page.read_text().splitlines(), 1)
        for what in wrongly_marked(line)
    ]
    assert not wrong, (
        f"write `file::test`{MARKED}) where the test is marked so, nowhere else:\n  " + "\n  ".join(wrong)
    )


def test_a_wrong_mark_is_found() -> None:
    """Too few and too many; more words may follow in the same brackets."""
    thorough = "`e2e/test_failover.py::test_a_lost_primary_in_the_middle_of_a_window`"
    ordinary = "`traces/test_traces.py::test_the_machine_says_what_it_said`"
    assert len(list(wrongly_marked(f"{thorough}, {ordinary} (thorough)"))) == 2
    assert not list(wrongly_marked(f"{thorough} (thorough; first half), {ordinary} (first half)"))
    assert not list(wrongly_marked(f"{ordinary[:-1]}[some]` (thorough)"))
