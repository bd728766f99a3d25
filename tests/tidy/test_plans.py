"""No plan holds a literal a key: such a plan is sent to Spark value by value, and analysed in the same way.

20,000 keys as literals of one ``isin`` took 16.6 s before anything ran. Values whose number nobody bounds are a small
frame that is joined. What is found here: ``isin`` of values, literals in a loop, and SQL put together from values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.tidy.test_tidy import ROOT, python_files, report

SHIPPED = ("signals", "snapshotter", "streaming")
BOUNDED = {
    ("streaming/delta/state_merge.py", "within"): "ranges, of which there are at most RANGES_MAX",
    ("snapshotter/landing/registration.py", "_register"): "a statement about one table, by its name",
    ("snapshotter/landing/registration.py", "_location"): "a statement about one table, by its name",
    ("snapshotter/verification/by_spark.py", "compare"): "one query, in which nothing but names is put",
    ("streaming/delta/state_table.py", "_alter"): "a statement about the table, which names new columns",
}
_LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_TEXTS = {"sql", "expr", "selectExpr"}
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def literals_of_values(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """(function, line, what) of each place in a module that may put a literal a value into a plan."""
    yield from _within(tree, "", looped=False)


def _within(node: ast.AST, function: str, *, looped: bool) -> Iterator[tuple[str, int, str]]:
    for child in ast.iter_child_nodes(node):
        name = child.name if isinstance(child, _FUNCTIONS) else function
        inside = looped or isinstance(child, _LOOPS)
        if isinstance(child, ast.Call) and (what := _wrong(child, looped=inside)):
            yield name, child.lineno, what
        yield from _within(child, name, looped=inside)


def _wrong(call: ast.Call, *, looped: bool) -> str | None:
    if not isinstance(call.func, ast.Attribute):
        return None
    constant = all(isinstance(argument, ast.Constant) for argument in call.args)
    match call.func.attr:
        case "isin" if not constant:
            return "isin of values"
        case "lit" if looped and not constant:
            return "literals in a loop"
        case name if name in _TEXTS and not constant:
            return f"{name}() of a text that is put together"
    return None


def test_no_plan_holds_a_literal_a_key() -> None:
    """In the shipped packages, but for places whose number of values is bounded."""
    found, used = [], set()
    for path, tree in python_files():
        module = path.relative_to(ROOT)
        if module.parts[0] not in SHIPPED:
            continue
        for function, line, what in literals_of_values(tree):
            where = module.as_posix(), function
            used.add(where)
            if where not in BOUNDED:
                found.append(f"{module}:{line}: {function}: {what}")
    report(found, "join a small frame with the values (landing.frames.frame_of)")
    assert used == set(BOUNDED), "these need no exception any more: remove them from BOUNDED"


@pytest.mark.parametrize(
    "planted",
    [
        "def f(keys):\n    return rows.where(F.col('_key').isin(keys))",
        "def f(keys):\n    return rows.where(F.col('_key').isin(*sorted(keys)))",
        "def f(keys):\n    return [F.lit(key) for key in keys]",
        "def f(keys):\n    for key in keys:\n        found = found | (F.col('_key') == F.lit(key))",
        "def f(lows):\n    return spark.sql(f'SELECT * FROM VALUES {lows}')",
    ],
)
def test_such_a_place_is_found(planted: str) -> None:
    """Each kind of it, wherever it stands in a function."""
    assert [function for function, _, _ in literals_of_values(ast.parse(planted))] == ["f"]


def test_constants_are_none() -> None:
    """A literal that the module itself names is one, however many rows there are."""
    harmless = "def f(fields):\n    return [F.lit(None).cast(f) for f in fields], col.isin('c', 'u')"
    assert not list(literals_of_values(ast.parse(harmless)))
