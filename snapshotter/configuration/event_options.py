"""The options of events: targets that take every change, beside the state tables, and how they are told there."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from snapshotter.configuration.option_values import Flag, Group, choice, option
from streaming.events.envelope import JsonSerialization

_OPERATIONS = ("c", "u", "d", "t")
_NONE = "none"


def _operations(value: Any) -> tuple[str, ...]:
    """The operations of a list; ``none`` stands alone."""
    if isinstance(value, tuple):
        return value
    found = tuple(dict.fromkeys(text for part in str(value).split(",") if (text := part.strip().lower())))
    if found == (_NONE,):
        return ()
    if not set(found) <= set(_OPERATIONS):
        raise ValueError(f"must be some of {', '.join(_OPERATIONS)}, or {_NONE} alone")
    return found


class EventOptions(Group):
    """What becomes of events as such."""

    changelog: Flag = option(
        "delta.changelog.enabled",
        "also append every event, and every READ, to a changelog table for each collection (docs/events.md)",
        False,
    )
    topics: Flag = option(
        "engine.topics.enabled",
        "also feed Kafka topics with every event, and every READ, in Debezium's records (docs/topics.md)",
        False,
    )
    skipped: Annotated[tuple[str, ...], BeforeValidator(_operations)] = option(
        "skipped.operations",
        "operations that no changelog and no topic tells: c, u, d, or none; state tables get all (t: there are none)",
        ("t",),
    )
    skips_unchanged: Flag = option(
        "skip.messages.without.change",
        "tell no update in changelogs and topics that changes nothing of what is captured; state tables get all",
        False,
    )
    serialization: Annotated[JsonSerialization, choice(JsonSerialization)] = option(
        "json.serialization.mode",
        "how documents in events are written: legacy, strict, extended or relaxed",
        JsonSerialization.LEGACY,
    )

    @property
    def targets(self) -> bool:
        """Whether anything is on that takes events: the source is asked for more of them then."""
        return self.changelog or self.topics

    @property
    def skips(self) -> frozenset[str]:
        """The operations that are not told."""
        return frozenset(self.skipped) - {"t"}
