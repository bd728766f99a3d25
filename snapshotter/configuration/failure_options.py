"""The options of what cannot be processed. They are one of the groups of `option_groups`."""

from __future__ import annotations

from typing import Annotated

from snapshotter.configuration.option_values import (
    Group,
    Handling,
    Oversize,
    Tolerance,
    WholeNumber,
    choice,
    option,
)

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

    oversize: Annotated[Oversize, choice(Oversize)] = option(
        "cursor.oversize.handling.mode",
        "an event above 16 MB: fail, skip (the event; its document is read by its key, so the table has it), or split, "
        "which MongoDB does from 6.0.9 on",
        Oversize.FAIL,
    )
    oversize_threshold: WholeNumber = option(
        "cursor.oversize.skip.threshold",
        "with skip: documents of more bytes stay out of their events too, and are read by their keys; 0: no such bound",
        0,
        ge=0,
    )

    @property
    def source_options(self) -> dict[str, str]:
        """Those that the source has, by their names."""
        threshold = self.oversize_threshold if self.oversize is Oversize.SKIP else 0
        return {
            "cursor.oversize.handling.mode": self.oversize.value,
            "cursor.oversize.skip.threshold": str(threshold),
        }

    @property
    def mode(self) -> Handling:
        """What holds."""
        if self.handling is not None:
            return self.handling
        return Handling.WARN if self.tolerance is Tolerance.ALL else Handling.FAIL
