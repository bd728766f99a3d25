"""What Debezium's snapshot metrics mean where several snapshots may be under way.

They are about those that have not ended, all together; when none is left, about the one that ended last. A signal that
was refused is no snapshot.

No clock, no thread, no server.
"""

from __future__ import annotations

from collections.abc import Callable

from snapshotter.metrics.figures import Look, Number, Read
from snapshotter.reporting.status import CollectionReport, RequestReport, RequestState


def current(look: Look) -> tuple[RequestReport, ...]:
    """The snapshots that the metrics are about."""
    known = [request for request in look.status.requests if request.collections]
    under_way = tuple(request for request in known if not request.state.ended)
    if under_way:
        return under_way
    ended = [(request.completed_at, request) for request in known if request.completed_at is not None]
    return (max(ended, key=lambda pair: pair[0])[1],) if ended else ()


def collections(look: Look) -> list[CollectionReport]:
    """Of the current snapshots, one for each that reads a collection."""
    return [collection for request in current(look) for collection in request.collections]


def by_collection(number: Callable[[CollectionReport], Number | None]) -> Read:
    """A ``number`` of each collection, added up where several snapshots read it; without those that have none."""

    def read(look: Look) -> dict[str, Number]:
        found: dict[str, Number] = {}
        for collection in collections(look):
            if (one := number(collection)) is not None:
                found[collection.name] = found.get(collection.name, 0) + one
        return found

    return read


def how_many(counts: Callable[[CollectionReport], bool]) -> Read:
    """How many collections there are of which at least one snapshot's report ``counts``."""
    return lambda look: len({c.name for c in collections(look) if counts(c)})


def any_in(*states: RequestState) -> Read:
    """1 where one of the current snapshots is in one of these states, else 0."""
    return lambda look: int(any(request.state in states for request in current(look)))


def completed(look: Look) -> Number:
    """1 once the snapshot has completed, else 0."""
    found = current(look)
    return int(bool(found) and all(request.state is RequestState.COMPLETED for request in found))


def duration(look: Look) -> Number | None:
    """Seconds since the first of them was accepted, up to its end where it has ended."""
    found = current(look)
    began = min((r.accepted_at.timestamp() for r in found if r.accepted_at is not None), default=None)
    if began is None:
        return None
    ends = [look.seconds if r.completed_at is None else r.completed_at.timestamp() for r in found]
    return max(0, round(max(ends) - began))


def paused(look: Look) -> Number:
    """Seconds for which they were paused, added up."""
    return round(sum(request.paused_seconds for request in current(look)))
