"""What became of windows: counted by their landing, summed up by their task.

A crash between a commit and the save of progress takes the counts with it: the windows are given up, their chunks read
again, and the rows that the commit has repaired are then unchanged. So each commit says what it has read and found, and
the run that begins from the state before it counts that (`Uncounted`), once: a commit of a batch that is saved is never
asked. What then comes again, the task leaves out (`core.values.tasks`).

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from snapshotter.core.values.chunks import Bound


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a window that has landed: how many READs became rows, how many were superseded by streamed events,
    and how many rows were deleted because they are missing at source (`Closing.reconcile`). Of those kept, ``changed``
    took the place of another row, ``unchanged`` equal the row that is there, and the rest is new."""

    kept: int
    superseded: int
    deleted: int = 0
    changed: int = 0
    unchanged: int = 0


@dataclass(frozen=True, slots=True)
class Uncounted:
    """What windows of a request have done in a commit that moves no frontier: the progress of its batch was not saved,
    or the task ended while it landed. ``upto``: the end of the last of them."""

    request_id: str
    outcome: Outcome
    upto: Bound


@dataclass(frozen=True, slots=True)
class Reading:
    """One window, or several in a row, of a commit: so many READs; of them, how many ``may_land`` (none of a window
    that a truncation supersedes); and how many rows are ``deleted`` because they are missing at source."""

    read: int
    may_land: int
    deleted: int = 0


def shared_out(readings: Iterable[Reading], kept: int, changed: int, unchanged: int) -> Iterator[Outcome]:
    """What became of each of ``readings``, in their order. They share one commit, which counts only the sums: ``kept``
    READs became rows, or equal them, and of these so many are ``changed`` and ``unchanged``. So the earliest readings
    take the rows, and of these first what is unchanged."""
    for reading in readings:
        share = min(reading.may_land, max(0, kept))
        equal = min(share, unchanged)
        other = min(share - equal, changed)
        kept, unchanged, changed = kept - share, unchanged - equal, changed - other
        yield Outcome(share, reading.read - share, reading.deleted, other, equal)
