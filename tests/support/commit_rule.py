"""Which rows a commit holds: the rule in plain Python.

The engine states the same rule as a Spark plan (`snapshotter.landing.targets.state_rows`). These lines are what it is
held against on generated histories.

The rule (docs/PROTOCOL.md, rules 1 to 3). A READ is superseded by a streamed event on its key, with a
cluster time after its window's low watermark, that lands something. Of the events of one key in a batch the
latest that lands something counts. So a commit holds one row a key: the latest such event, else the READ of
the latest window.

Where the READs of a commit are proven new (`Closing.proven_new`), and so are appended, any event that has landed on a
READ's key supersedes it: only events since its window was registered can have, and the row that they left is as of
the newest of them.

Where the collection was truncated (dropped, renamed away, replaced), what came before says nothing any more: events up
to then, and READs of windows whose low watermark lies before (`snapshotter.core.values.namespace_changes`).

A window that reconciles also says what is not there: a row of the table whose key lies in its target, that it has not
read, and on whose key nothing landed after its low watermark, goes in the same commit. (A document that came or went
after the low watermark is an event's to tell; one that was deleted before it was missing already when the window read.)
Under a filter it has read, besides what matches, the documents of the rows that the table had then. A row that has come
since says nothing: whatever its time, what has landed on its key since the window was registered is an event's to tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from snapshotter.core.values.chunks import Target
from snapshotter.core.values.namespace_changes import superseded
from streaming.positions import ClusterTime


@dataclass(frozen=True, slots=True)
class StreamedEvent:
    """A change of one key. ``lands`` is False for an update without its full document."""

    key: str
    time: ClusterTime
    ord: int
    lands: bool = True
    content: object = None


@dataclass(frozen=True, slots=True)
class Read:
    """A READ of the window whose effective low watermark is ``low``."""

    key: str
    low: ClusterTime
    window: int
    content: object = None


@dataclass(frozen=True, slots=True)
class Reconciling:
    """A window that closes and reconciles: what it was to read, and its effective low watermark. ``rows_too``: behind a
    filter it has read what matches, and the documents of the rows that were there."""

    target: Target
    low: ClusterTime
    window: int
    rows_too: bool = False


@dataclass(frozen=True, slots=True)
class Missing:
    """A row of the table for which ``window`` found no document: it is missing at source, and deleted."""

    key: str
    low: ClusterTime
    window: int

    @property
    def content(self) -> None:
        return None


CommitRow = StreamedEvent | Read | Missing


def surviving(
    reads: Iterable[Read], events: Iterable[StreamedEvent], *, proven_new: bool = False
) -> list[Read]:
    """The READs that no event supersedes. ``events`` are all that streamed since the windows were registered,
    up to the end of the batch that closes them; ``proven_new``: nothing else can have put a key of theirs into the
    table."""
    latest = _landed(events)
    return [r for r in reads if not (r.key in latest and (proven_new or latest[r.key] > r.low))]


def missing_at_source(
    table: Iterable[str],
    reconciling: Iterable[Reconciling],
    reads: Iterable[Read],
    events: Iterable[StreamedEvent],
) -> list[Missing]:
    """Of the keys that the ``table`` has rows of, those that are missing at source. ``reads`` are all that were read,
    those included that an event superseded; ``events`` as for `surviving`."""
    windows = list(reconciling)
    there, latest = {read.key for read in reads}, _landed(events)
    found = []
    for key in table:
        for window in windows:
            streamed = key in latest and (window.rows_too or latest[key] > window.low)
            if window.target.holds(key) and key not in there and not streamed:
                found.append(Missing(key, window.low, window.window))
                break
    return found


def latest_events(events: Iterable[StreamedEvent]) -> dict[str, StreamedEvent]:
    """Of each key the latest event that lands something, by cluster time and then order in the stream."""
    chosen: dict[str, StreamedEvent] = {}
    for event in events:
        if event.lands and (event.key not in chosen or (event.time, event.ord) > _rank(chosen[event.key])):
            chosen[event.key] = event
    return chosen


def commit_rows(
    batch: Iterable[StreamedEvent],
    kept: Iterable[StreamedEvent],
    reads: Iterable[Read],
    truncated_at: ClusterTime | None = None,
    *,
    table: Iterable[str] = (),
    reconciling: Iterable[Reconciling] = (),
    proven_new: bool = False,
) -> dict[str, CommitRow]:
    """The rows of a commit: ``batch`` holds its own events, ``kept`` those of earlier batches. ``truncated_at``: when
    the collection was last truncated, if it ever was (a batch that does it also empties the table). ``table``: the keys
    that have rows before the commit (none where the batch empties it), for the windows that are ``reconciling``.
    ``proven_new`` is said of all READs."""
    batch = [event for event in batch if truncated_at is None or event.time > truncated_at]
    reads = [read for read in reads if not superseded(read.low, truncated_at)]
    reconciling = [window for window in reconciling if not superseded(window.low, truncated_at)]
    rows: dict[str, CommitRow] = dict(latest_events(batch))
    for read in sorted(surviving(reads, [*kept, *batch], proven_new=proven_new), key=lambda r: r.window):
        if not isinstance(rows.get(read.key), StreamedEvent):
            rows[read.key] = read
    for absent in missing_at_source(table, reconciling, reads, [*kept, *batch]):
        rows.setdefault(absent.key, absent)
    return rows


def _landed(events: Iterable[StreamedEvent]) -> dict[str, ClusterTime]:
    """When something landed last, of each key."""
    latest: dict[str, ClusterTime] = {}
    for event in events:
        if event.lands:
            latest[event.key] = max(event.time, latest.get(event.key, event.time))
    return latest


def _rank(event: StreamedEvent) -> tuple[ClusterTime, int]:
    return (event.time, event.ord)
