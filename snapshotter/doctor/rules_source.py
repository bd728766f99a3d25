"""What is to be said of MongoDB's clock, and of how long its oplog holds a position. Pure.

What an oplog holds and what is too little of it is for `snapshotter.position.runway`; here that is asked beforehand,
of a backfill that has not begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snapshotter.doctor.facts import Clock, CollectionFacts
from snapshotter.doctor.finding import Area, Finding, Severity
from snapshotter.position.runway import Oplog, runway_hours, short, too_long
from streaming.positions import ClusterTime

SKEW_SECONDS = 5.0
ASSUMED_SPEED = 5_000.0
"""Documents a second that a backfill is taken to read where none was measured: a tenth of what two cores do."""


def clock(found: Clock) -> Finding:
    """Whether times that this machine writes fit those that MongoDB does."""
    apart = abs(found.ahead)
    if apart - found.within <= SKEW_SECONDS:
        return Finding(Area.MONGODB, Severity.OK, "clocks", "this machine's clock and MongoDB's agree")
    which = "ahead of" if found.ahead > 0 else "behind"
    return Finding(
        Area.MONGODB,
        Severity.WARNING,
        "clocks",
        f"this machine's clock is {apart:.0f} s {which} MongoDB's: times of events and of notifications differ by as "
        "much, and so does the lag that is told",
        "let both machines take their time from one source (NTP)",
    )


def oplog(
    found: Oplog,
    position: ClusterTime | None,
    least_hours: float,
    collections: Sequence[CollectionFacts],
    speed: float | None,
) -> Iterator[Finding]:
    """How long the oplog that was ``found`` holds the engine's ``position`` (None: it has none, and begins now),
    against ``least_hours`` (0: never said) and a backfill of all ``collections`` at this ``speed`` (None: not measured
    yet)."""
    hours = runway_hours(found, found.newest if position is None else position)
    if hours is None:
        what = "is too young to tell how fast it grows, so nobody knows yet how long it holds a position"
        yield Finding(Area.OPLOG, Severity.NOTE, "oplog", what, "ask again in a minute, while changes come")
        return
    lost = short(hours, least_hours or 1 / 3_600) if not hours else short(hours, least_hours)
    if lost is not None:
        yield Finding(Area.OPLOG, Severity.WARNING if hours else Severity.ERROR, "runway", *lost)
    else:
        whose = "a position of now" if position is None else "the engine's position"
        yield Finding(Area.OPLOG, Severity.OK, "runway", f"the oplog holds {whose} for {hours:.1f} h")
    if hours and collections:
        yield from _backfill(collections, speed, hours)


def _backfill(collections: Sequence[CollectionFacts], speed: float | None, hours: float) -> Iterator[Finding]:
    documents = sum(one.documents or 0 for one in collections)
    if not documents:
        return
    largest = max(collections, key=lambda one: one.documents or 0)
    pace = speed or ASSUMED_SPEED
    measured = (
        f"{pace:,.0f} documents a second, {'as measured' if speed else 'a guess, none was measured yet'}"
    )
    read = (
        f"a backfill of all that is captured ({documents:,} documents, {largest.documents:,} of them in "
        f"{largest.namespace}; {measured})"
    )
    seconds = documents / pace
    if (long := too_long(read, seconds, hours)) is not None:
        yield Finding(Area.OPLOG, Severity.WARNING, "backfill", *long)
    else:
        yield Finding(Area.OPLOG, Severity.OK, "backfill", f"{read} takes about {_duration(seconds)}")


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{max(1, round(seconds))} s"
