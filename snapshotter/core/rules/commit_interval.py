"""How long it is from one landing to the next, at least: by what landings cost to write.

A table that marks old rows pays for what changes. One that cannot pays for whole files: one change of one document
writes its file again, and at a landing each second or two that is a terabyte a day. How often a file is written is all
that can be chosen then. So a landing that copies more than it changes is paid for by time: the next one comes when what
was copied, spread over the time since this one began, is at most `BYTES_A_SECOND`; but after `LONGEST_SECONDS`, for a
table that is never fresh is of no use.

A batch is never waited for longer than it takes to become full: more changes make no landing cheaper that are landed in
two.

Invariant: a landing that copies no more than it changes is followed at once, unless an interval is set.

Pure: standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

BYTES_A_SECOND = 1_000_000
"""86 GB a day. A file of 31 MB (125,000 rows of 300 bytes) is written twice a minute so, and not forty times."""
LONGEST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What a landing has written into a table: bytes of rows that have ``changed``, and of others that were ``copied``,
    because they lay in the same files."""

    changed: int = 0
    copied: int = 0

    @property
    def in_vain(self) -> int:
        """Bytes that fewer landings would save."""
        return self.copied if self.copied > self.changed else 0


NOTHING_WRITTEN = Cost()


@dataclass(frozen=True, slots=True)
class CommitInterval:
    """``seconds``: as was set, for every landing; None goes by what it cost. ``batch_events``: the most that a batch
    holds."""

    seconds: float | None = None
    batch_events: int = 1 << 31

    def after(self, costs: Iterable[Cost]) -> float:
        """The least seconds from the beginning of a batch to that of the next one, after it has landed in tables at
        these ``costs``, one of each table that was written; 0 where none was."""
        found = list(costs)
        if not found:
            return 0.0
        if self.seconds is not None:
            return self.seconds
        return min(LONGEST_SECONDS, sum(cost.in_vain for cost in found) / BYTES_A_SECOND)

    def ahead(self, seconds: float, events_per_second: float | None) -> int:
        """By how many seconds the stream has to be ahead before a batch begins sooner than in these ``seconds``: by
        more than that, or so that a batch is full at this density of events."""
        longest = math.ceil(seconds) + 1  # what is ahead is counted in whole seconds
        if not events_per_second:
            return longest
        return max(1, min(longest, int(self.batch_events / events_per_second)))


BY_COST = CommitInterval()
