"""Rule-breaking changes, continued: drops and renames."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from snapshotter.core.rules import batches
from snapshotter.core.rules.in_flight import InFlight
from snapshotter.core.values import namespace_changes
from snapshotter.core.values.inputs import SignalsTaken

from .mutations import MUTATIONS, mutation
from .process import Process

__all__ = ["MUTATIONS"]


@mutation("drops", drops=0.1, fills=0.0, missing=0.0, writes=0.5)
def reads_from_before_a_drop_land(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(batches, "superseded", lambda low, truncated_at: False)


@mutation("drops", drops=0.1, fills=0.0, missing=0.0, writes=0.5)
def a_drop_is_known_in_its_own_batch_only(patch: pytest.MonkeyPatch) -> None:
    """Windows that close later land what they read before."""
    times = lambda self, now: setattr(self, "truncated_at", {n: e.time for n, e in now.items()})  # noqa: E731
    patch.setattr(InFlight, "note_truncated", times)


@mutation("drops", fills=0.1, missing=0.0)
def what_a_rename_brings_is_not_read(patch: pytest.MonkeyPatch) -> None:
    original = namespace_changes.resolve
    patch.setattr(namespace_changes, "resolve", lambda *told: replace(original(*told), requests=()))


@mutation("drops", fills=0.1, missing=0.0)
def what_a_rename_brings_is_opened_before_its_batch(patch: pytest.MonkeyPatch) -> None:
    """The largest id may be read from a node that has not seen the rename."""
    original = Process.arrive

    def arrive(self: Process, *told: Any) -> Any:
        events, arrived = original(self, *told)
        assert self.machine is not None
        self.step(SignalsTaken(arrived.requests, self.machine.controls))
        return events, replace(arrived, requests=())

    patch.setattr(Process, "arrive", arrive)
