"""States, and the steps between them, as tables.

What a window or a task may do next stands in one table (`core.values.window.STEPS`, `core.values.tasks.STEPS`); every
step is checked against it, and the diagrams in docs/PROTOCOL.md are made from it (a test compares them).

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

State = TypeVar("State", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Steps(Generic[State]):
    """``table``: of each state, the steps that it allows, and the states that each may lead to; None is the end, at
    which the thing is no more. A state without steps is a last one."""

    first: State
    table: Mapping[State, Mapping[str, tuple[State | None, ...]]]

    def allows(self, state: State, step: str) -> bool:
        return step in self.table[state]

    def leads(self, state: State, step: str, to: State | None) -> bool:
        """Whether this step may lead from one state to the other."""
        return to in self.table[state].get(step, ())

    def sources(self, step: str) -> tuple[State, ...]:
        """The states that allow this step, in the order of the table."""
        return tuple(state for state, steps in self.table.items() if step in steps)
