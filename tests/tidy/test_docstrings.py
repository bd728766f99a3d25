"""Whoever calls a function with three parameters or more finds in its docstring what each of them is.

A class says it for its ``__init__``. A method that answers a port says whose docstring holds ("As `Target.land`"). The
commands say it in their options' help.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.support.sources import MODULES

SAY_IT_THEMSELVES = {"self", "cls", "spark", "client", "ctx", "namespace"}
PARAMETERS = 3


def functions(node: ast.AST, said: str = "") -> Iterator[tuple[ast.FunctionDef, str]]:
    """Public functions and methods, each with its docstring; ``said``: what the class around it says."""
    for inner in getattr(node, "body", []):
        if isinstance(inner, ast.ClassDef) and not inner.name.startswith("_"):
            yield from functions(inner, ast.get_docstring(inner) or "")
        elif isinstance(inner, ast.FunctionDef):
            own = ast.get_docstring(inner) or ""
            if inner.name == "__init__":
                yield inner, f"{said}\n{own}"
            elif not inner.name.startswith("_"):
                yield inner, own


def parameters(function: ast.FunctionDef) -> list[str]:
    given = function.args
    return [
        a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs) if a.arg not in ("self", "cls")
    ]


def unsaid(tree: ast.Module) -> Iterator[str]:
    for function, said in functions(tree):
        named = parameters(function)
        if len(named) < PARAMETERS or said.startswith("As `"):
            continue
        missing = [n for n in named if n not in SAY_IT_THEMSELVES and not re.search(rf"\b{n}\b", said)]
        if missing:
            yield f"{function.lineno} {function.name}: {', '.join(missing)}"


def test_functions_say_what_their_parameters_are() -> None:
    """By name, in a sentence of their own or where the sentence needs them."""
    broken = [
        f"{name}:{what}"
        for name, path in sorted(MODULES.items())
        if not name.startswith("snapshotter.cli")
        for what in unsaid(ast.parse(path.read_text()))
    ]
    assert not broken, f"{len(broken)} functions do not say what they take:\n  " + "\n  ".join(broken)


def test_a_parameter_that_is_not_said_is_found() -> None:
    """In functions and classes, not where a port says it."""
    text = '''
class Open:
    """``path``: where."""
    def __init__(self, path, size, owner): ...
    def land(self, rows, batch, mark):
        """As `Target.land`."""
def read(uri, *, limit, after):
    """Read up to ``limit`` behind ``after``."""
'''
    assert list(unsaid(ast.parse(text))) == ["4 __init__: size, owner", "7 read: uri"]
