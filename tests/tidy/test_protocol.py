"""`docs/PROTOCOL.md` says what is: its rules are numbered and whole, and every name on it leads somewhere.

A rule is a row of a table: number, rule, code, guard, test. The guard is what objects at run time; where there is none
the row says so (``NO_GUARD``).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from snapshotter.configuration.options import find
from tests.support.code_names import is_code
from tests.tidy.test_references import FILE, NAMED, ROOT, TESTS, files_named, functions_of

PAGE = ROOT / "docs" / "PROTOCOL.md"
HEADER = "| # | rule | code | guard | test |"
NO_GUARD = "none: the test alone"
GUARDS_OF_OTHERS = ("Delta ", "MongoDB ", "Spark ")
WORDS = {"$out", "_id", "_rescued_data", "columns", "keys", "range", "status"}
"""Names in backticks that are neither code nor tests: of documents, signals, tables, commands."""

_CODE = re.compile(r"`([^`\n]+)`")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_ORACLE = re.compile(r"\bO\d+\b")
_CITED = re.compile(r"\b[Rr]ules? (\d+)((?:(?:,| and| to) \d+)*)")


class Rule(NamedTuple):
    """A row, as it is written."""

    number: str
    rule: str
    code: str
    guard: str
    test: str


def rules(text: str) -> Iterator[Rule]:
    """The rows of all tables of rules. Raises ValueError for one with more or fewer cells."""
    within = False
    for line in text.splitlines():
        within = line == HEADER or (within and line.startswith("|"))
        if within and line != HEADER and not line.startswith("|---"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if len(cells) != len(Rule._fields):
                raise ValueError(f"a rule has {len(Rule._fields)} cells, not {len(cells)}: {line}")
            yield Rule(*cells)


def incomplete(rule: Rule) -> Iterator[str]:
    """What a row lacks, and which of its names lead nowhere."""
    if not rule.rule:
        yield "no rule"
    for cell, what in ((rule.code, "code"), (rule.guard, "guard")):
        names = _CODE.findall(cell)
        yield from (f"no such {what}: {name}" for name in names if not is_code(name))
        said = what == "guard" and (cell == NO_GUARD or cell.startswith(GUARDS_OF_OTHERS))
        if not names and not said:
            yield f"no {what}"
    shown = _CODE.findall(rule.test)
    yield from (f"no such test, trace or mutation: {name}" for name in shown if not is_shown(name))
    if not any(FILE.fullmatch(f"`{name}`") or "::" in name or is_trace(name) for name in shown):
        yield "no test"


def is_trace(name: str) -> bool:
    return (TESTS / "traces" / f"{name}.txt").exists()


def is_shown(name: str) -> bool:
    """Whether it is a test, a trace, or a mutation of the simulation."""
    if (found := NAMED.fullmatch(f"`{name}`")) is not None:
        return any(found[2] in functions_of(path) for path in files_named(found[1]))
    if FILE.fullmatch(f"`{name}`"):
        return bool(files_named(name))
    return is_trace(name) or name in mutations()


@cache
def mutations() -> dict[str, str]:
    """The changes that the simulation plants, with the rule that each breaks."""
    found = {}
    for path in sorted((TESTS / "simulation").glob("mutations*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                match decorator:
                    case ast.Call(func=ast.Name(id="mutation"), args=[ast.Constant(value=str(rule))]):
                        found[node.name] = rule
    return found


def named(text: str) -> list[str]:
    """What stands in backticks; diagrams name nothing."""
    return _CODE.findall(_FENCED.sub("", text))


def unknown(text: str) -> Iterator[str]:
    """The names in backticks that are nothing here: no code, test, option, file or word."""
    for name in named(text):
        known = is_code(name) or is_shown(name) or find(name) is not None or name in WORDS
        if not known and not (ROOT / name).exists():
            yield name


def test_rules_are_numbered_without_a_gap() -> None:
    """From 1 on, through all tables: code and tests cite the numbers."""
    numbers = [rule.number for rule in rules(PAGE.read_text())]
    assert numbers == [str(n) for n in range(1, len(numbers) + 1)]
    assert len(numbers) > 40


def test_every_rule_has_code_a_guard_and_a_test() -> None:
    """And all of them exist."""
    wrong = [f"rule {rule.number}: {why}" for rule in rules(PAGE.read_text()) for why in incomplete(rule)]
    assert not wrong, f"name what is there (a guard may be {NO_GUARD!r}):\n  " + "\n  ".join(wrong)


def test_every_name_leads_somewhere() -> None:
    """Also beside the tables. A word that no longer stands there needs no exception."""
    text = PAGE.read_text()
    wrong = list(unknown(text))
    assert not wrong, "name code, tests and options as they are called now:\n  " + "\n  ".join(wrong)
    assert set(named(text)) >= WORDS


def test_oracles_are_those_of_the_simulation() -> None:
    """By the numbers that their module lists."""
    listed = ast.get_docstring(ast.parse((TESTS / "simulation" / "oracles.py").read_text())) or ""
    assert set(_ORACLE.findall(PAGE.read_text())) <= set(_ORACLE.findall(listed))


def test_numbers_that_are_cited_are_those_of_rules() -> None:
    """In the sources of the product and of the tests, and of the simulation's mutations."""
    known = {int(rule.number) for rule in rules(PAGE.read_text())}
    cited = {int(rule) for rule in mutations().values() if rule.isdigit()}
    for folder in ("snapshotter", "streaming", "signals", "tests", "docs"):
        for path in (p for ending in ("*.py", "*.md") for p in (ROOT / folder).rglob(ending)):
            for first, others in _CITED.findall(path.read_text()):
                cited |= {int(first), *map(int, re.findall(r"\d+", others))}
    assert {1, 3, 12} <= cited <= known


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ("| | `core.machine` | none: the test alone | `test_states` |", "no rule"),
        ("| a rule | by hand | none: the test alone | `test_states` |", "no code"),
        ("| a rule | `core.machine.Motor` | Delta objects | `test_states` |", "no such code"),
        ("| a rule | `core.machine.Machine.rev` | Delta objects | `test_states` |", "no such code"),
        ("| a rule | `core.machine` | somebody | `test_states` |", "no guard"),
        ("| a rule | `core.machine` | `core.guard` | `test_states` |", "no such guard"),
        ("| a rule | `core.machine` | none: the test alone | oracle O5 |", "no test"),
        ("| a rule | `core.machine` | none: the test alone | `test_states::test_none` |", "no such test"),
    ],
)
def test_what_a_rule_lacks_is_found(cells: str, why: str) -> None:
    """A cell without a name, and a name that leads nowhere."""
    (rule,) = rules(f"{HEADER}\n|---|---|---|---|---|\n| 1 {cells}")
    assert [found for found in incomplete(rule) if found.startswith(why)]


def test_a_rule_with_a_cell_too_few_is_found() -> None:
    """Rather than taken for one with other contents."""
    with pytest.raises(ValueError, match="has 5 cells, not 4"):
        list(rules(f"{HEADER}\n|---|---|---|---|---|\n| 1 | a rule | `core.machine` | `test_states` |"))


def test_an_unknown_name_is_found() -> None:
    """One that looks like code, and one that looks like a test; what is fenced is no name."""
    text = "`core.machine` `core.nothing` `test_nothing`\n```\n`core.neither`\n```\n"
    assert list(unknown(text)) == ["core.nothing", "test_nothing"]
