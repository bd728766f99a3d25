"""How many rows a backfill reads at a time while changes stream: as many as let the changes be seen in time.

A change waits for two batches, the one before its own and its own, and both last longer by the READs that land with
them. So the READs in flight follow how long changes have waited, as a sender follows how long its packets take. While
there is time left, more are read: at once as many as would be in time if waits grew in proportion, near the target by
a fixed step more. Once there is none left, fewer are read, in proportion (additive increase, multiplicative decrease:
Chiu and Jain, Analysis of the Increase and Decrease Algorithms for Congestion Avoidance in Computer Networks, 1989).

Until a landing has been seen, chunks are taken to land about as fast as they are read. It does not pay to begin small:
a landing has a cost of its own, whatever it carries, and a small beginning needs one more of them.

Invariant: never less than three eighths of what may be in flight beside changes. Most of what a landing takes does not
depend on how much it lands: with less, changes waited little less, and a backfill took much longer. And a stream that
is late for other reasons (many changes, a slow store) must not keep a backfill from ending.

Pure: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from snapshotter.core.values.limits import Limits

_STEPS = 16
_LEAST = 3, 8
_FIRST = 1, 2
_ROOM_LEFT = 0.9
_PARTS = 3
"""What a change waits for, each about as long: the landing before its own, the reading in between, and its own."""
_USED = 2 / 3
"""A batch used its room if it landed this part of it: where chunks are large, one more may be too many."""


@dataclass(frozen=True, slots=True)
class Pace:
    """``rows``: so many READs may be in flight beside changes. ``seen``: a landing has shown it."""

    rows: int
    seen: bool = False

    @classmethod
    def first(cls, limits: Limits) -> Pace:
        """Half of what may be in flight beside changes: nothing is known yet of how fast things go here."""
        return cls(_part(limits, *_FIRST))

    def expected(self, rows: int, seconds: float, limits: Limits) -> Pace:
        """The pace after a chunk of ``rows`` was read in so many ``seconds`` beside those of other readers: at least as
        many rows as are read once and landed twice in nine tenths of the target lag in ``limits``. Nothing changes
        once a landing has been seen, or without a target."""
        target = limits.target_lag_seconds
        if self.seen or target is None or seconds <= 0:
            return self
        most = limits.rows_while_streaming
        return Pace(max(self.rows, _in_time(rows * limits.readers, _PARTS * seconds, target, most)))

    def after(self, waited: float, rows: int, limits: Limits) -> Pace:
        """The pace after a batch landed ``rows`` READs beside changes, the oldest of which had ``waited`` so many
        seconds: fewer where that is above the target lag in ``limits``, more where it is well below. A batch that did
        not use its room says nothing about having more."""
        target = limits.target_lag_seconds
        if target is None:
            return self
        most = limits.rows_while_streaming
        if waited > target:
            return Pace(max(_part(limits, *_LEAST), int(self.rows * target / waited)), seen=True)
        if waited < _ROOM_LEFT * target and rows >= _USED * self.rows:
            wanted = _in_time(rows, waited, target, most)
            return Pace(min(most, max(self.rows + max(1, most // _STEPS), wanted)), seen=True)
        return replace(self, seen=True)


def _in_time(rows: int, waited: float, target: float, most: int) -> int:
    """How many rows would wait for nine tenths of the target if ``rows`` waited for ``waited`` seconds and waits grew
    in proportion (they grow by less); at most ``most``."""
    in_time = rows * _ROOM_LEFT * target  # rows times seconds
    return int(in_time / waited) if in_time < most * waited else most


def _part(limits: Limits, part: int, of: int) -> int:
    return max(1, limits.rows_while_streaming * part // of)
