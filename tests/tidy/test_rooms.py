"""A room's door: its ``__init__`` says what it owns, and its ``__all__`` which of its modules others may import.

A room is a folder of the three packages. Which rooms may know each other is for import-linter (`pyproject.toml`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support.sources import MODULES, PACKAGES

ENTRANCES = {"snapshotter.cli"}
"""Rooms that nobody imports: what they offer is started."""

ROOMS = {name for name, path in MODULES.items() if path.name == "__init__.py"} - set(PACKAGES)


def imported(module: str) -> Iterator[str]:
    """The modules of ours that a module imports, also where it does so late or for types."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            parts = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (part if part in MODULES else node.module for part in parts if node.module in MODULES)


def door(room: str) -> list[str]:
    """What ``__all__`` of a room lists."""
    for node in ast.parse(MODULES[room].read_text()).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=listed)):
                return [ast.literal_eval(one) for one in listed]
    return []


def comings() -> Iterator[tuple[str, str, str]]:
    """(module, room, what of the room it imports), for each import of a room's module from outside of it."""
    for module in MODULES:
        for target in set(imported(module)):
            for room in ROOMS:
                if target.startswith(f"{room}.") and not f"{module}.".startswith(f"{room}."):
                    yield module, room, target.removeprefix(f"{room}.").split(".")[0]


def test_others_come_by_the_door() -> None:
    """Nobody imports a module of a room that the room does not list."""
    past = sorted(
        {f"{module} imports {room}.{name}" for module, room, name in comings() if name not in door(room)}
    )
    assert not past, "not for others (`__all__` of the room says what is):\n  " + "\n  ".join(past)


def test_a_door_offers_what_somebody_wants() -> None:
    """A module that a room lists is imported from outside of it."""
    wanted = {(room, name) for _, room, name in comings()}
    listed = {(room, n) for room in ROOMS - ENTRANCES for n in door(room) if f"{room}.{n}" in MODULES}
    assert listed <= wanted, f"nobody outside imports {sorted(listed - wanted)}"


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_room_says_what_it_owns(room: str) -> None:
    """A sentence, and not the room's own name."""
    said = ast.get_docstring(ast.parse(MODULES[room].read_text())) or ""
    assert len(said.split()) > 4, f"{room} says {said!r}"
