"""How long the oplog still holds a position: the *runway*.

Each change pushes out the oldest entry once the oplog is full. So a position is lost when as many bytes have been
written behind it as the oplog holds. With the average growth over what the oplog holds now,

    runway = (capacity / growth) - age,    growth = used / (newest - oldest),    age = newest - position

which for a full oplog is just how far the position lies from its oldest entry. A server that is told to keep entries
for some hours (storage.oplogMinRetentionHours) keeps them at least as long. Where sizes are not known (no right to ask,
or through mongos) the oplog counts as full, which errs to the side of a warning.

Pure: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

from streaming.positions import ClusterTime

HOUR = 3_600.0
_YOUNG_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Oplog:
    """What a server says of its oplog. ``used`` and ``capacity`` are bytes (None: not known); ``retention_hours`` is
    the least time for which it keeps entries."""

    oldest: ClusterTime
    newest: ClusterTime
    used: int | None = None
    capacity: int | None = None
    retention_hours: float = 0.0

    @property
    def hours(self) -> float:
        """How far it reaches back."""
        return self._span / HOUR

    @property
    def bytes_per_second(self) -> float | None:
        """Its average growth over what it holds; None where that is not known."""
        return self.used / max(1, self._span) if self.used is not None and self.tells else None

    @property
    def _span(self) -> int:
        return max(0, self.newest.t - self.oldest.t)

    @property
    def tells(self) -> bool:
        """Whether it tells how fast it grows: it is about to be full, or reaches back for a minute at least."""
        filled = self.used is not None and self.capacity is not None and 2 * self.used >= self.capacity
        return filled or self._span >= _YOUNG_SECONDS

    @property
    def window_hours(self) -> float:
        """How far it reaches back once it is full, at its average growth."""
        rate = self.bytes_per_second
        full = self.hours
        if rate and self.capacity is not None and self.used is not None:
            full = max(self.capacity, self.used) / rate / HOUR
        return max(full, self.retention_hours)


def holds(oplog: Oplog, position: ClusterTime) -> bool:
    """Whether the oplog still has all that came behind the position."""
    return position.next() >= oplog.oldest


def runway_hours(oplog: Oplog, position: ClusterTime) -> float | None:
    """For how many hours the oplog still holds the position, if it stands still; 0 where it is lost already, None where
    the oplog is too young to tell its growth."""
    if not holds(oplog, position):
        return 0.0
    if not oplog.tells:
        return None
    # What is held is not lost, whatever the estimate says: so it has a second at least.
    return max(1 / HOUR, oplog.window_hours - max(0, oplog.newest.t - position.t) / HOUR)


FURTHER = "Let the oplog reach further back"


def warning(hours: float, least: float) -> str | None:
    """What to say of a runway of ``hours`` that lies under ``least`` of them (0: nothing is ever said)."""
    found = short(hours, least)
    return None if found is None else ". ".join(found)


def short(hours: float, least: float) -> tuple[str, str] | None:
    """Such a `warning` in two: what is wrong, and what to do. ``hours`` and ``least`` as there."""
    if not least or hours >= least:
        return None
    if not hours:
        return (
            "the oplog no longer holds the position: what is not read yet cannot be read",
            "`snapshotter position reset -c FILE --to now --heal` begins anew, and reads what may have been missed",
        )
    what = (
        f"the oplog holds the position for {hours:.1f} h more, which is under engine.oplog.warning.hours={least:g}: an "
        f"engine that stands still for longer loses it"
    )
    return what, f"{FURTHER} (replSetResizeOplog, storage.oplogMinRetentionHours)"


def while_paused(hours: float) -> str | None:
    """What to say of a paused stream beside a runway of ``hours``; None where `warning` says that it is lost."""
    if not hours:
        return None
    return (
        f"the stream is paused, and the oplog holds its position for {hours:.1f} h more: `snapshotter resume-stream -c "
        "FILE` before that, or the position is lost"
    )


def outlasted(name: str, seconds: float, hours: float) -> str | None:
    """What to say of the snapshot ``name`` that will take so many ``seconds`` beside a runway of ``hours``; None where
    it is shorter."""
    found = too_long(f"the snapshot {name}", seconds, hours)
    return None if found is None else ". ".join(found)


def too_long(what: str, seconds: float, hours: float) -> tuple[str, str] | None:
    """The same of anything that is read (``what``), in two: what is wrong, and what to do. ``seconds`` and ``hours`` as
    in `outlasted`."""
    if seconds <= hours * HOUR:
        return None
    wrong = (
        f"{what} will take about {seconds / HOUR:.1f} h, and the oplog holds the position for "
        f"{hours:.1f} h: if changes stop landing meanwhile, the position is lost before it is done"
    )
    return wrong, f"{FURTHER}, or read less at a time"
