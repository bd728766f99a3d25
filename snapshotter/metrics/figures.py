"""What a figure is, and what it is read from.

A `Look` holds all that is known at one moment: the status as operators see it, what has been counted, the lag of the
last minutes, the connection. A `Figure` reads one number from it, or one for each value of a label. No figure looks at
the engine itself, so those of one look belong together, and are made once for whoever shows them.

No clock, no thread, no server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from snapshotter.reporting.status import Status
from streaming.mongo.connection_watch import Connection

Number = int | float
Value = Number | Mapping[str, Number]
Counts = Mapping[str, Mapping[str, Number]]
"""What was counted, by its name and by the label's value ("" where there is none)."""

_WORD = re.compile(r"(?<!^)(?=[A-Z])")


class Context(StrEnum):
    """Debezium's two contexts, and our own."""

    SNAPSHOT = "snapshot"
    STREAMING = "streaming"
    ENGINE = "engine"


class Kind(StrEnum):
    """What Prometheus is told. ``UNTYPED`` ones count up as well: a counter's name has to end in ``_total`` there, and
    these have the names that Debezium gave them."""

    GAUGE = "gauge"
    COUNTER = "counter"
    UNTYPED = "untyped"


@dataclass(frozen=True, slots=True)
class Lag:
    """Of the last looks, in milliseconds: how far what had landed was behind the head of the stream."""

    least: Number
    most: Number
    average: Number
    p50: Number
    p95: Number
    p99: Number

    @classmethod
    def of(cls, looks: Iterable[Number]) -> Lag | None:
        """The statistics of these looks; None of none. A percentile is the smallest look that so many do not exceed."""
        ordered = sorted(looks)
        if not ordered:
            return None

        def percentile(share: int) -> Number:
            return ordered[max(0, -(-len(ordered) * share // 100) - 1)]

        average = sum(ordered) / len(ordered)
        return cls(ordered[0], ordered[-1], average, percentile(50), percentile(95), percentile(99))


@dataclass(frozen=True, slots=True)
class Look:
    """All that is known at the moment of ``status``. ``tables``: how many collections have a table. ``connection``:
    since the engine was made."""

    status: Status
    counts: Counts = field(default_factory=dict)
    lag: Lag | None = None
    connection: Connection = field(default_factory=Connection)
    tables: int = 0

    @property
    def seconds(self) -> float:
        """When it was, since the epoch."""
        return self.status.updated_at.timestamp() if self.status.updated_at is not None else 0.0


Read = Callable[[Look], Value | None]
"""Reads a figure; None where it is not known (yet), and then nobody is told of it."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Reads what was counted under a ``name``: the sum, or the ``part`` of one value of the label."""

    name: str
    part: str | None = None

    def __call__(self, look: Look) -> Number | None:
        counted = look.counts.get(self.name, {})
        return sum(counted.values()) if self.part is None else counted.get(self.part, 0)


@dataclass(frozen=True, slots=True)
class Parts:
    """Reads what was counted under a ``name``, by the values of the label; those of ``known`` are there from the
    beginning on, so that a first one is seen to be one more."""

    name: str
    known: tuple[str, ...] = ()

    def __call__(self, look: Look) -> Mapping[str, Number]:
        return {**dict.fromkeys(self.known, 0), **look.counts.get(self.name, {})}


@dataclass(frozen=True, slots=True)
class Noted:
    """Reads a number that was put under a ``name``; None before that."""

    name: str

    def __call__(self, look: Look) -> Number | None:
        return look.counts.get(self.name, {}).get("")


@dataclass(frozen=True, slots=True)
class SinceNoted:
    """Reads how many milliseconds ago the time was that was put under a ``name``; None before that."""

    name: str

    def __call__(self, look: Look) -> Number | None:
        at = look.counts.get(self.name, {}).get("")
        return None if at is None else max(0, round(1000 * (look.seconds - at)))


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. ``meaning`` is a sentence for operators; ``label`` the name of the label where it has one number for
    each value of that; ``attribute`` what Debezium calls it."""

    context: Context
    name: str
    kind: Kind
    meaning: str
    of: Read
    label: str = ""
    attribute: str = ""

    @property
    def full_name(self) -> str:
        """Prometheus's name for it."""
        return f"snapshotter_{self.context}_{self.name}"

    @property
    def counted(self) -> str | None:
        """What is counted for it, if anything."""
        reads = self.of
        return reads.name if isinstance(reads, Counted | Parts | Noted | SinceNoted) else None


def snake_case(attribute: str) -> str:
    """Debezium's name of an attribute, word by word: ``MilliSecondsBehindSource`` is
    ``milli_seconds_behind_source``."""
    return _WORD.sub("_", attribute).lower()
