"""No room calls a higher one but through a port that `docs/ARCHITECTURE.md` lists.

Imports run one way (import-linter); a call runs the other way where a lower room is handed something of a higher one:
an object behind a protocol, a bound method, a lambda. Both are found in the syntax, as far as it shows them: a protocol
of which a class in a higher room has all members, and an argument that names a method of whoever calls (or a lambda
about it), given to what a lower room has made.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping

from tests.support.sources import MODULES, PACKAGES, ROOT

_FLOORS = "within snapshotter arrows point one way"


def floors() -> dict[str, int]:
    """The floor of each room of the layers contract; the two other packages are below all of them, at 0."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (c["layers"] for c in contracts if c["name"] == _FLOORS)
    floors = {room.strip(): n for n, rooms in enumerate(reversed(layers), 1) for room in rooms.split("|")}
    return {**dict.fromkeys(PACKAGES, 0), **{f"snapshotter.{room}": n for room, n in floors.items()}}


def floor_of(module: str, known: Mapping[str, int]) -> int:
    return known[max((room for room in known if f"{module}.".startswith(f"{room}.")), key=len)]


def modules() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


def classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def members(defined: ast.ClassDef) -> set[str]:
    """Methods with how many arguments they take, and what can be read: properties, fields, what is set on ``self``. A
    name that many classes share tells little, so a method that stands alone counts with its arguments' names."""
    found: set[str] = set()
    for node in ast.walk(defined):
        match node:
            case ast.FunctionDef(name=name) if node in defined.body and not name.startswith("__"):
                taken = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
                found |= (
                    {name} if _is_value(node) else {f"{name}/{len(taken)}", f"{name}({', '.join(taken)})"}
                )
            case ast.AnnAssign(target=ast.Name(id=name)) if node in defined.body:
                found.add(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                found.add(name)
    return found


def is_protocol(defined: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in defined.bases)


def protocols_answered_above() -> Iterator[str]:
    trees, known = modules(), floors()
    every = [(module, defined) for module, tree in trees.items() for defined in classes(tree)]
    for module, port in every:
        if is_protocol(port) and (asked := _asked(port)):
            above = [c for m, c in every if floor_of(m, known) > floor_of(module, known) and c is not port]
            if any(asked <= members(c) for c in above):
                yield f"{module}.{port.name}"


def _asked(port: ast.ClassDef) -> set[str]:
    every = members(port)
    counted = {name for name in every if "(" not in name}
    return counted if len(counted) > 1 else every


def handed_down() -> Iterator[str]:
    """What of a higher room's own is handed to something that a lower room defines, by that one's name."""
    known = floors()
    for module, tree in modules().items():
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
        below = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in imports
            for alias in node.names
            if str(node.module).split(".")[0] in PACKAGES
            and floor_of(str(node.module), known) < floor_of(module, known)
        }
        for defined in classes(tree):
            for call in (node for node in ast.walk(defined) if isinstance(node, ast.Call)):
                if isinstance(call.func, ast.Name) and call.func.id in below and _hands_itself(call, defined):
                    yield below[call.func.id]


def _hands_itself(call: ast.Call, owner: ast.ClassDef) -> bool:
    methods = {node.name for node in owner.body if isinstance(node, ast.FunctionDef) and not _is_value(node)}
    given = [node for a in (*call.args, *(k.value for k in call.keywords)) for node in _parts(a)]
    for node in given:
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if name in methods:
                return True
            case ast.Name(id="self"):
                return True
            case ast.Lambda() if any(isinstance(n, ast.Name) and n.id == "self" for n in ast.walk(node)):
                return True
    return False


def _is_value(method: ast.FunctionDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "property" for d in method.decorator_list)


def _parts(argument: ast.expr) -> list[ast.expr]:
    """An argument, or what stands in the tuple that it is."""
    inner = argument.value if isinstance(argument, ast.Starred) else argument
    return [part for e in inner.elts for part in _parts(e)] if isinstance(inner, ast.Tuple) else [inner]


def declared() -> set[str]:
    """The first column of the table of ports."""
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    section = text[text.index("## Ports") :].split("\n## ")[0]
    first = re.findall(r"^\| `([^`|]+)` \|", section, re.MULTILINE)
    return set(first)


def test_lower_rooms_call_higher_ones_through_ports_alone() -> None:
    """What is found and what is listed are the same."""
    found = {name.removeprefix("snapshotter.") for name in (*protocols_answered_above(), *handed_down())}
    assert found == declared(), f"not listed: {found - declared()}; not found: {declared() - found}"
