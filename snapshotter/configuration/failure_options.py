"""The options of what cannot be processed. They are one of the groups of `option_groups`."""

from __future__ import annotations

from typing import Annotated

from snapshotter.configuration.option_values import Group, Handling, Tolerance, choice, option

HANDLING = "event.processing.failure.handling.mode"
TOLERANCE = "errors.tolerance"


class FailureOptions(Group):
    """What becomes of what cannot be processed."""

    handling: Annotated[Handling, choice(Handling)] | None = option(
        HANDLING,
        "an event or a document that cannot be processed: fail, the engine stops at it; else it goes to the dead "
        "letters and the engine goes on: warn, with a warning in the log, skip, with a debug line, ignore, without a "
        f"line; unset is warn under {TOLERANCE}=all, else fail",
        None,
    )
    tolerance: Annotated[Tolerance, choice(Tolerance)] = option(
        TOLERANCE,
        f"none or all, as in Kafka Connect; all is {HANDLING}=warn where that is unset",
        Tolerance.NONE,
    )

    @property
    def mode(self) -> Handling:
        """What holds."""
        if self.handling is not None:
            return self.handling
        return Handling.WARN if self.tolerance is Tolerance.ALL else Handling.FAIL
