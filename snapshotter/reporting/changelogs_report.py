"""What the status says of changelog tables: how much each of them was given in this life of the engine.

Both numbers are those that the metrics show (`snapshotter.metrics.catalogue`); nothing is asked of the tables.
"""

from __future__ import annotations

from collections.abc import Mapping

from snapshotter.reporting.status import ChangelogReport, Status

EVENTS, READS = "changelog_events", "changelog_reads"
"""The names that they are counted under."""


def with_changelogs(status: Status, counts: Mapping[str, Mapping[str, int | float]]) -> Status:
    """The ``status`` with what was counted of each changelog: ``counts`` by name and collection."""
    events, reads = counts.get(EVENTS, {}), counts.get(READS, {})
    reports = tuple(
        ChangelogReport(collection=name, events=int(events.get(name, 0)), reads=int(reads.get(name, 0)))
        for name in sorted({*events, *reads})
    )
    return status.model_copy(update={"changelogs": reports})
