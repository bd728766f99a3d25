"""Moments to kill an engine at: random, by the seed, and of every kind."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.support.engine_process import EngineProcess


@dataclass(frozen=True, slots=True)
class Moment:
    """When to kill: after ``count`` more steps of this kind, and ``delay`` seconds. ``alone``: not its JVM."""

    kind: str
    count: int
    delay: float
    alone: bool

    def wait(self, engine: EngineProcess) -> None:
        if self.kind != "start":
            goal = engine.files_of_progress(self.kind) + self.count
            engine.until(f"{self.count} {self.kind}", lambda: engine.files_of_progress(self.kind) >= goal)
        threading.Event().wait(self.delay)


def moments(chance: random.Random, kills: Sequence[str]) -> Iterator[Moment]:
    """One for each kind that is named, in any order."""
    kinds = list(kills)
    chance.shuffle(kinds)
    for kind in kinds:
        at_once = kind in ("commits", "progress")
        delay = 0.0 if at_once else chance.uniform(0, 8 if kind == "start" else 2)
        # A batch commits to both tables: after an odd number of commits, one of them is still to come.
        count = chance.choice((1, 3)) if kind == "commits" else chance.randrange(1, 3)
        yield Moment(kind, count, delay, chance.random() < 0.5)
