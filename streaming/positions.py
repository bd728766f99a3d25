"""Positions in the change stream.

A position is a *cluster time*: the pair (seconds, increment) that MongoDB stamps on every oplog entry.
It is what makes a micro-batch replayable: "all events with ``start < time <= end``" means the same events
on every attempt, while the oplog lasts. Resume tokens are kept beside positions, but stay opaque: nothing here
parses or builds one.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_INCREMENT_BITS = 32
_LIMIT = 1 << _INCREMENT_BITS


@dataclass(frozen=True, order=True, slots=True)
class ClusterTime:
    """A BSON timestamp: ``t`` seconds since the epoch, ``i`` the increment within that second.

    Both are unsigned 32-bit numbers; the order is that of the oplog.
    """

    t: int
    i: int

    def __post_init__(self) -> None:
        if not (0 <= self.t < _LIMIT and 0 <= self.i < _LIMIT):
            raise ValueError(f"a cluster time holds two unsigned 32-bit numbers, got t={self.t} i={self.i}")

    def to_int(self) -> int:
        """The 64-bit BSON timestamp (``t << 32 | i``), as ``capture.start.op.time`` writes it."""
        return self.t << _INCREMENT_BITS | self.i

    @classmethod
    def from_int(cls, value: int) -> ClusterTime:
        return cls(value >> _INCREMENT_BITS, value & (_LIMIT - 1))

    def next(self) -> ClusterTime:
        """The smallest cluster time after this one: where a reader of ``(self, end]`` starts."""
        return ClusterTime.from_int(self.to_int() + 1)

    def previous(self) -> ClusterTime:
        """The largest cluster time before this one."""
        return ClusterTime.from_int(self.to_int() - 1)

    @property
    def seconds(self) -> float:
        """Since the epoch, for people: the increment counts as microseconds, so that those of one second differ."""
        return self.t + min(self.i, 999_999) / 1_000_000

    def to_json(self) -> dict[str, int]:
        return {"t": self.t, "i": self.i}

    @classmethod
    def from_json(cls, value: Mapping[str, int]) -> ClusterTime:
        return cls(int(value["t"]), int(value["i"]))

    def __str__(self) -> str:
        return f"{self.t}.{self.i}"


ORIGIN = ClusterTime(0, 0)
"""Before every event: the position of a reader that has seen nothing."""
