"""Names of code on pages: what a dotted name leads to.

A name begins with a package (`streaming`, `signals`) or with a room or module of `snapshotter`, which is left out
(``core.machine.Machine``). It leads to a module, to what one defines, or to a method or field of that.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from tests.support.sources import MODULES, PACKAGES

_OURS = "snapshotter"
BEGINNINGS = {*PACKAGES, *(name.split(".")[1] for name in MODULES if name.startswith(f"{_OURS}."))}
"""What a name of code begins with."""


def may_be_code(name: str) -> bool:
    """Whether it begins like one; options do so as well (``engine.trigger.interval.ms``)."""
    return name.split(".")[0] in BEGINNINGS


def is_code(name: str) -> bool:
    """Whether it leads somewhere."""
    parts = name.split(".")
    parts = parts if parts[0] in PACKAGES else [_OURS, *parts]
    for end in range(len(parts), 0, -1):
        if (module := ".".join(parts[:end])) in MODULES:
            return _leads(module, parts[end:])
    return False


def _leads(module: str, rest: list[str]) -> bool:
    if not rest:
        return True
    defined, *inner = rest
    found = defined_in(module)
    return defined in found and (not inner or (len(inner) == 1 and inner[0] in found[defined]))


@cache
def defined_in(module: str) -> dict[str, frozenset[str]]:
    """What a module defines, each with the methods and fields that it has."""
    found: dict[str, frozenset[str]] = {}
    for node in ast.parse(MODULES[module].read_text()).body:
        inner = node.body if isinstance(node, ast.ClassDef) else []
        names = frozenset(name for part in inner for name in _names_of(part))
        found.update(dict.fromkeys(_names_of(node), names))
    return found


def _names_of(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
