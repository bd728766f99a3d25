"""Gaps: stretches of the stream that were never seen, because the position from which they would have come was lost.

    lost --a new position is taken--> open --each collection has been compared with its table--> closed

A gap is open while collections are ``left`` whose tables may lack what happened in it. One that is to heal is read by a
request of the engine's own; in any other, collections leave one by one as operators have them read again, whole and
with reconcile. A collection that is dropped or replaced leaves as well: nothing of before the drop counts.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

HEAL = "heal"
_CLOSED_KEPT = 20


class Cause(StrEnum):
    """Why a position was of no use any more."""

    HISTORY = "history-lost"
    """The oplog no longer reaches back to it."""
    DEPLOYMENT = "another-deployment"
    """The replica set or cluster is another one than it was taken from."""
    AHEAD = "source-behind"
    """The source's newest change lies before it: an older copy was restored."""


@dataclass(frozen=True, slots=True)
class Gap:
    """``number``: that of the generation that began behind it. Nothing between ``since``, the end of what had landed,
    and ``upto`` was seen (None: where the stream went on is not known yet). ``error``: what the source said,
    ``found_ms`` when (milliseconds since the epoch). ``heals``: whether the engine reads the collections by itself. Of
    those that are ``affected``, ``left`` are still to be compared; ``closed``: the position by which none was."""

    number: int
    since: ClusterTime
    cause: str
    error: str
    heals: bool
    found_ms: int
    upto: ClusterTime | None = None
    affected: frozenset[Namespace] = frozenset()
    left: frozenset[Namespace] = frozenset()
    closed: ClusterTime | None = None

    def begun(self, upto: ClusterTime | None, affected: frozenset[Namespace]) -> Gap:
        """The stream goes on at ``upto``, and so many tables are in doubt."""
        return replace(self, upto=upto, affected=affected, left=affected)

    def after_batch(self, compared: Iterable[Namespace], end: ClusterTime) -> Gap:
        """Once a batch up to ``end`` has landed, by which these collections equal their tables."""
        if self.closed is not None:
            return self
        left = self.left.difference(compared)
        return replace(self, left=left, closed=None if left else end)

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "since": self.since.to_json(),
            "upto": self.upto.to_json() if self.upto else None,
            "cause": self.cause,
            "error": self.error,
            "heals": self.heals,
            "found_ms": self.found_ms,
            "affected": sorted(map(str, self.affected)),
            "left": sorted(map(str, self.left)),
            "closed": self.closed.to_json() if self.closed else None,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Gap:
        fields = dict(value)
        for name in ("since", "upto", "closed"):
            fields[name] = ClusterTime.from_json(value[name]) if value.get(name) else None
        for name in ("affected", "left"):
            fields[name] = frozenset(map(Namespace.parse, value.get(name, ())))
        return cls(**fields)


def opening(gaps: tuple[Gap, ...], gap: Gap) -> tuple[Gap, ...]:
    """With this gap, unless it is there; of those that are closed the newest stay."""
    if any(known.number == gap.number for known in gaps):
        return gaps
    closed = [known for known in gaps if known.closed is not None][-_CLOSED_KEPT:]
    return *(known for known in gaps if known.closed is None or known in closed), gap
