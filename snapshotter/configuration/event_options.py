"""The options of events: targets that take every change, beside the state tables, and how they are told there."""

from __future__ import annotations

from typing import Annotated

from snapshotter.configuration.option_values import Flag, Group, choice, option
from streaming.events.envelope import JsonSerialization


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
    serialization: Annotated[JsonSerialization, choice(JsonSerialization)] = option(
        "json.serialization.mode",
        "how documents in events are written: legacy, strict, extended or relaxed",
        JsonSerialization.LEGACY,
    )

    @property
    def targets(self) -> bool:
        """Whether anything is on that takes events: the source is asked for more of them then."""
        return self.changelog or self.topics
