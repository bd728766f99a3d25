"""Why a landing was refused. Each says the table, what is wrong with it, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streaming.delta.table_identity import Alteration


class LandingError(Exception):
    """A landing was refused, or did not do what it was asked; nothing of it is in the table."""


class LandingOvertaken(LandingError):
    """Another engine of the same state was quicker. The table is sound: it is this engine that must stop."""


class TableAltered(LandingError):
    """The table is not what this engine left: ``alteration`` says in what way (`streaming.delta.table_identity`).

    ``message`` is a clause about the table for people; ``next_step`` is what they can do.
    """

    def __init__(self, alteration: Alteration, message: str, next_step: str) -> None:
        super().__init__(message)
        self.alteration = alteration
        self.message = message
        self.next_step = next_step


class TableOwned(LandingError):
    """The table is another engine's, ``by`` (its name; None where it is another collection's).

    ``message`` is a clause about the table for people; ``next_step`` is what they can do.
    """

    def __init__(self, by: str | None, message: str, next_step: str) -> None:
        super().__init__(message)
        self.by = by
        self.message = message
        self.next_step = next_step
