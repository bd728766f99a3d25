"""The options of the position: where it begins, and what becomes of one that is lost. They are one of the groups of
`option_groups`."""

from __future__ import annotations

from typing import Annotated

from snapshotter.configuration.option_values import (
    Group,
    Names,
    PositionLost,
    Text,
    WholeNumber,
    choice,
    option,
)

POSITION_LOST = "engine.position.lost"
HEAL_FIRST = "engine.heal.first"


class PositionOptions(Group):
    """The position in the stream, and healing one that is lost."""

    lost: Annotated[PositionLost, choice(PositionLost)] | None = option(
        POSITION_LOST,
        "where the source no longer has what came after the position: fail, continue from now on and record the gap, "
        "or heal it by comparing every captured collection with its table; unset is heal where snapshot.mode reads "
        "again by itself (when_needed), else fail",
        None,
    )
    heal_first: Names = option(
        HEAL_FIRST,
        "collections that a heal compares first, in this order (expressions, as filters.match.mode says)",
        (),
    )
    start: Text | None = option(
        "engine.position.start",
        "where a first start begins: now, oldest, an ISO 8601 time, a 64-bit BSON timestamp, seconds.increment, "
        "a resume token, or a file of position export; unset is now",
        None,
    )
    oplog_warning_hours: WholeNumber = option(
        "engine.oplog.warning.hours",
        "warn where the oplog holds the position for less than so many hours; 0 is never",
        48,
        ge=0,
    )
