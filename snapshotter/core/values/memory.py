"""Which signals were handled: by id what each contained, and when.

One that is delivered twice is known by its id, and another one under its id is recognized as such. How long that lasts
is stated in time (``engine.signals.remember.ms``), for that is how operators think of it; the newest ``KEPT`` are known
however old they are. What a crash delivers again is among those.

Invariant: nothing is forgotten that is younger than the time stated. So where there is no room for more, more is
refused (``ROOM``), rather than an id forgotten.

Pure: standard library only. The time comes with what is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Self

KEPT = 20_000
ROOM = 100_000
SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Handled:
    """``digest`` stands for what the signal said; ``at``: when it was handled, or the request had ended, in seconds
    since 1970 (0: an earlier version, which counted, did not note it)."""

    digest: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """A time by the engine's clock, and for how many seconds before it ids are remembered at least."""

    now: int = 0
    seconds: int = SECONDS

    @property
    def since(self) -> int:
        return self.now - self.seconds


LONG_AGO = Moment()
"""By which nothing is forgotten."""


@dataclass(frozen=True, slots=True)
class Memory(Mapping[str, str]):
    """Digests by id, in the order in which they came."""

    signals: Mapping[str, Handled] = field(default_factory=dict)

    def __getitem__(self, signal_id: str) -> str:
        return self.signals[signal_id].digest

    def __iter__(self) -> Iterator[str]:
        return iter(self.signals)

    def __len__(self) -> int:
        return len(self.signals)

    def remembering(self, digests: Mapping[str, str], moment: Moment) -> Self:
        """With these as the newest. Older ones are forgotten whose time is over, beyond the newest ``KEPT``."""
        if not digests:
            return self
        known = {**self.signals, **{name: Handled(digest, moment.now) for name, digest in digests.items()}}
        for oldest in list(islice(known, max(0, len(known) - KEPT))):
            if known[oldest].at < moment.since:
                del known[oldest]
        return type(self)(known)

    def younger(self, moment: Moment) -> int:
        """How many are so young that they must not be forgotten."""
        return sum(handled.at >= moment.since for handled in self.signals.values())

    def to_json(self) -> dict[str, Any]:
        return {name: [handled.digest, handled.at] for name, handled in self.signals.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Also as an earlier version wrote it: a digest alone."""
        return cls(
            {
                name: Handled(handled) if isinstance(handled, str) else Handled(*handled)
                for name, handled in value.items()
            }
        )
