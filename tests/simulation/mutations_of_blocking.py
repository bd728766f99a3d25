"""Rule-breaking changes, continued: a blocking request reads alone, as of one moment, while the stream waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from snapshotter.core.machine import Machine
from snapshotter.core.rules import queue
from snapshotter.core.rules.in_flight import InFlight
from snapshotter.core.scheduler import Scheduler
from snapshotter.core.values import effects as eff
from snapshotter.core.values.window import Window

from .mutations import MUTATIONS, mutation

__all__ = ["MUTATIONS"]
_OFTEN = {"blocking": 0.7, "requests": 4}


@mutation("blocking", **_OFTEN)
def others_are_read_beside_a_blocking_request(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queue, "blocking", lambda progress: None)


@mutation("blocking", **_OFTEN, impatient=0.0)
def the_stream_waits_though_others_need_it(patch: pytest.MonkeyPatch) -> None:
    """Windows in flight of another request never close, and the blocking one never gets its turn."""
    patch.setattr(InFlight, "only_of", lambda self, request_id: True)


@mutation("blocking", **_OFTEN, writes=0.5)
def a_blocking_read_is_of_any_moment(patch: pytest.MonkeyPatch) -> None:
    """As of now, and nobody notices that it is not as of the low watermark."""
    original = Scheduler._low_of

    def low_of(self: Scheduler, window: Window) -> list[eff.Effect]:
        asked = original(self, window)
        return [replace(e, exact=False) if isinstance(e, eff.ReadChunk) else e for e in asked]

    def chunk_read(self: Window, ended: Any, rows: int) -> Window:
        return original_read(self, self.low if self.exact else ended, rows)

    original_read = Window.chunk_read
    patch.setattr(Scheduler, "_low_of", low_of)
    patch.setattr(Window, "chunk_read", chunk_read)


@mutation("blocking", **_OFTEN, impatient=0.0)
def what_has_its_turn_only_now_is_never_begun(patch: pytest.MonkeyPatch) -> None:
    """A stream that waits brings no batch by itself."""
    original = Machine.step
    blocked = lambda m: m.holding and m.landing is None and m.beginning()  # noqa: E731

    def step(self: Machine, happened: Any) -> tuple[eff.Effect, ...]:
        effects = original(self, happened)
        return tuple(e for e in effects if not (isinstance(e, eff.MakeBatch) and blocked(self)))

    patch.setattr(Machine, "step", step)
