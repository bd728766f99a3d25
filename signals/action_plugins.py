"""Types of signals that other packages bring, as Debezium's additional signal actions.

    [project.entry-points."snapshotter.signal_actions"]
    refresh-cache = "my_package.signals:refresh"

The entry point's name is the signal's type, and it leads to a function ``(CustomSignal) -> None``. No package can take
the place of a type that there is already.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any

from signals.actions import TYPE_NAMES, WATERMARK_TYPES, CustomAction

GROUP = "snapshotter.signal_actions"


@dataclass(frozen=True, slots=True)
class CustomSignal:
    """What a function of another package is given. ``data`` are plain JSON values (other BSON types as Extended JSON);
    ``engine`` is the name of the engine that it came to."""

    id: str
    type: str
    data: Mapping[str, Any]
    engine: str


class ActionNotFound(Exception):
    """A type's function can't be had; the message says why."""


def custom_types() -> frozenset[str]:
    """The types that packages bring on this machine."""
    return _types(tuple(sys.path))


@lru_cache(maxsize=8)
def _types(path: tuple[str, ...]) -> frozenset[str]:  # noqa: ARG001 - packages are looked for there
    """Looked up once: thousands of signals may come at once that have no known type."""
    found = {point.name for point in entry_points(group=GROUP)}
    return frozenset(found - {*TYPE_NAMES.values(), *WATERMARK_TYPES})


def function_of(kind: str) -> Callable[[CustomSignal], None]:
    """The function for this type. Raises ActionNotFound."""
    found = tuple(entry_points(group=GROUP, name=kind))
    if len(found) != 1:
        problem = "no package brings" if not found else "more than one package brings"
        raise ActionNotFound(f"{problem} the signal type {kind!r} by an entry point in {GROUP}")
    try:
        function: Callable[[CustomSignal], None] = found[0].load()
    except Exception as error:  # a stranger's code: what it raises is reported as its own
        raise ActionNotFound(f"{found[0].value} can't be loaded: {type(error).__name__}: {error}") from error
    return function


def signal_of(action: CustomAction, engine: str) -> CustomSignal:
    return CustomSignal(action.id, action.type, json.loads(action.data), engine)
