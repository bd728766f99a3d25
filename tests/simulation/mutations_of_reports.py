"""Rule-breaking changes, continued: what requests say that they have found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from snapshotter.core.scheduler import Scheduler
from snapshotter.core.values.outcome import Outcome
from snapshotter.core.values.tasks import TaskProgress

from .mutations import MUTATIONS, mutation
from .sink import Table

__all__ = ["MUTATIONS"]

_CRASHING: dict[str, Any] = {"crash": 0.03, "preloaded": 0.9, "requests": 3}


@mutation("60", **_CRASHING)
def what_a_crashed_batch_has_found_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scheduler, "count", lambda self, uncounted: None)


@mutation("60", **_CRASHING)
def a_commit_that_was_counted_is_counted_by_the_next_run(patch: pytest.MonkeyPatch) -> None:
    """Whatever batch it is of."""
    patch.setattr(Table, "uncounted", lambda self, batch_id: self.said[1])


@mutation("60", **_CRASHING)
def all_of_a_chunk_that_comes_again_is_left_out(patch: pytest.MonkeyPatch) -> None:
    """Also what differs in it."""
    original = TaskProgress._counting

    def counting(self: TaskProgress, outcome: Outcome) -> TaskProgress:
        left = max(0, self.repeats - outcome.kept)
        return replace(self, repeats=left) if self.repeats else original(self, outcome)

    patch.setattr(TaskProgress, "_counting", counting)
