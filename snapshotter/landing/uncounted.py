"""What a commit says of the READs in it, and what a later run makes of that.

Progress counts what READs have found once the batch is saved. A crash may come between a table's commit and that save;
so each commit says which requests' READs it holds, and Delta's figures of the commit, with what the READs have found in
it, are in the commit as well. From these the next run, which tries the batch again and finds it in the table, has the
same counts as the crashed one would have saved (`core.values.outcome.Uncounted`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from snapshotter.core.values.chunks import Bound, end_of
from snapshotter.core.values.effects import Closing
from snapshotter.core.values.outcome import Outcome, Reading, Uncounted, shared_out
from snapshotter.core.values.window import WindowId
from streaming.delta.landed import Landed

SAID = "reads"
"""The name in a commit's metadata."""


def reading_of(
    closing: Closing, deleted: Mapping[WindowId, int], seen: Mapping[WindowId, int] | None = None
) -> Reading:
    """What the window of ``closing`` has read. ``deleted``: rows that are missing at source, by windows; ``seen``: how
    many READs did not give way, where that is known of each window."""
    rows, gone = closing.window.rows, deleted.get(closing.window.id, 0)
    may_land = rows if seen is None else seen.get(closing.window.id, 0)
    return Reading(rows, 0 if closing.superseded else may_land, gone)


def said_of(
    closings: Iterable[Closing],
    deleted: Mapping[WindowId, int],
    beside: int,
    seen: Mapping[WindowId, int] | None = None,
) -> dict[str, Any]:
    """What the commit that holds the READs of ``closings`` says of them: for each request, and at last for ids that are
    read again without one, how many there are. ``deleted`` and ``seen`` as in `reading_of`; ``beside``: how many rows
    of the commit are none of READs."""
    tasks = []
    for request_id, windows in groupby(closings, lambda closing: closing.window.request_id):
        mine = list(windows)
        upto, readings = (
            end_of(mine[-1].window.target),
            [reading_of(closing, deleted, seen) for closing in mine],
        )
        tasks.append(
            {
                "request": request_id,
                "read": sum(reading.read for reading in readings),
                "may_land": sum(reading.may_land for reading in readings),
                "deleted": sum(reading.deleted for reading in readings),
                "upto": None if upto is None else upto.to_json(),
            }
        )
    return {"beside": beside, "tasks": tasks}


def uncounted_in(commits: Iterable[tuple[Mapping[str, Any], Landed]]) -> Iterator[Uncounted]:
    """What requests' READs have found in these commits, by what each says of itself and what it did. Commits of earlier
    versions say nothing of it."""
    for metadata, done in commits:
        if (said := metadata.get(SAID)) is None:
            continue
        readings = [Reading(task["read"], task["may_land"], task["deleted"]) for task in said["tasks"]]
        for task, outcome in zip(said["tasks"], outcomes(readings, said["beside"], done), strict=True):
            if task["request"] is not None and task["upto"] is not None:
                yield Uncounted(task["request"], outcome, Bound.from_json(task["upto"]))


def outcomes(readings: Iterable[Reading], beside: int, done: Landed) -> Iterator[Outcome]:
    """What became of each of the ``readings`` of a commit that has ``done`` this; ``beside`` as in `said_of`."""
    kept = done.source_rows + done.found.unchanged - beside
    return shared_out(readings, kept, done.found.changed, done.found.unchanged)
