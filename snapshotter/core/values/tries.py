"""How often a chunk's windows have failed, and for how many times more it is worth another one.

Failures are counted apart by what they tell. One that comes because the source is away, or the storage that READs are
written to, tells nothing of the chunk: an outage is waited for, and forgotten once a window of the chunk is whole. Any
other one counts for as long as the chunk has not landed, with outages between them or without.

Pure: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Tries:
    """``first``: the chunk has had no window yet, so no event of its range has landed since. ``failed`` and ``away``
    count failures: those of its own, and those of the present outage."""

    first: bool = True
    failed: int = 0
    away: int = 0

    def again(self) -> Tries:
        """In another window, though nothing is held against the chunk."""
        return replace(self, first=False)

    def failing(self, *, passing: bool = False) -> Tries:
        """Behind one more failure; ``passing``: the source is away, or the storage."""
        if passing:
            return replace(self, first=False, away=self.away + 1)
        return replace(self, first=False, failed=self.failed + 1)

    def reached(self) -> Tries:
        """A window is whole: what outage there was is over."""
        return replace(self, away=0) if self.away else self


FIRST = Tries()
