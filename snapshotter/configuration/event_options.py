"""The options of events: targets that take every change, beside the state tables, and how they are told there."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from snapshotter.configuration.option_values import Flag, Group, Text, choice, option
from streaming.events.envelope import JsonSerialization
from streaming.source.user_stages import Order, UserStages

CONFIRMED = "engine.fields.confirmed"
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


def _pipeline(value: str) -> str:
    """As it was given; nothing for an empty list."""
    return value.strip() if UserStages.parse(value).stages else ""


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

    pipeline: Annotated[str, AfterValidator(_pipeline)] = option(
        "cursor.pipeline",
        "stages of your own in the change stream, a JSON array: needs delta.state.filtered (docs/filtered.md)",
        "",
    )
    order: Annotated[Order, choice(Order)] = option(
        "cursor.pipeline.order",
        "where these stages stand: internal_first, user_first, or user_only",
        Order.INTERNAL_FIRST,
    )
    confirmed: Text = option(
        CONFIRMED,
        "rules about fields that have changed are meant, for what tells events too: the digits that a start asks for",
        "",
    )
    filtered: Flag = option(
        "delta.state.filtered",
        "let cursor.pipeline and skipped.operations act on state tables too, which then equal no collection",
        False,
    )

    @property
    def targets(self) -> bool:
        """Whether anything is on that takes events: the source is asked for more of them then."""
        return self.changelog or self.topics

    @property
    def filters(self) -> tuple[str, ...]:
        """The options that leave changes out of state tables."""
        if not self.filtered:
            return ()
        given = {"cursor.pipeline": self.pipeline, "skipped.operations": self.skips}
        return tuple(name for name, value in given.items() if value)

    @property
    def filtered_text(self) -> str:
        """What a start, the status and `verify` say where changes are left out of state tables; else nothing."""
        if not self.filters:
            return ""
        return (
            f"state tables are filtered ({', '.join(self.filters)} with delta.state.filtered): changes that are left "
            "out are in no table, so a difference between a table and its collection need not be a fault"
        )

    @property
    def source_options(self) -> dict[str, object]:
        """Of the source, what leaves out or shapes changes before anything takes them."""
        if not self.filtered:
            return {}
        skipped = ",".join(sorted(self.skips))
        return {
            "cursor.pipeline": self.pipeline,
            "cursor.pipeline.order": self.order,
            "skipped.operations": skipped,
        }

    @property
    def skips(self) -> frozenset[str]:
        """The operations that are not told."""
        return frozenset(self.skipped) - {"t"}
