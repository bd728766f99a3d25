"""How many rows a backfill reads at a time while changes stream: as many as let the changes be seen in time.

A change waits for two batches, the one before its own and its own, and both last longer by the READs that land with
them. So the READs in flight follow what changes have waited, as a sender follows what its packets wait. While there is
time they are more: at once as many as would be in time if waits grew in proportion, near the target by a fixed step.
As soon as there is none they are less, in proportion (additive increase, multiplicative decrease: Chiu and Jain,
Analysis of the Increase and Decrease Algorithms for Congestion Avoidance in Computer Networks, 1989).

Invariant: never less than half of what may be in flight beside changes. Most of what a landing takes does not depend
on how much it lands: with less, changes waited little less, and a backfill took much longer. And a stream that is late
for other reasons (so many changes, so slow a store) must not keep a backfill from ending.

Pure: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

from snapshotter.core.limits import Limits

_STEPS = 16
_LEAST = 1, 2
_FIRST = 2, 3
_ROOM_LEFT = 0.9
_USED = 2 / 3
"""Of large chunks, of which one more would be too many, no more of the room may be used."""


@dataclass(frozen=True, slots=True)
class Pace:
    """``rows``: so many READs may be in flight beside changes."""

    rows: int

    @classmethod
    def first(cls, limits: Limits) -> Pace:
        """Some of it: how long a landing takes here is not known yet."""
        return cls(_part(limits, *_FIRST))

    def after(self, waited: float, rows: int, limits: Limits) -> Pace:
        """What follows from a batch that landed ``rows`` READs beside changes of which the oldest had waited so many
        seconds. A batch that did not use its room says nothing about more of it."""
        target = limits.target_lag_seconds
        if target is None:
            return self
        most = limits.rows_beside_changes
        if waited > target:
            return Pace(max(_part(limits, *_LEAST), int(self.rows * target / waited)))
        if waited < _ROOM_LEFT * target and rows >= _USED * self.rows:
            # Rows times seconds: waits grow with the rows, but less than they do.
            in_time = rows * _ROOM_LEFT * target
            wanted = int(in_time / waited) if in_time < most * waited else most
            return Pace(min(most, max(self.rows + max(1, most // _STEPS), wanted)))
        return self


def _part(limits: Limits, part: int, of: int) -> int:
    return max(1, limits.rows_beside_changes * part // of)
