"""Rule-breaking changes, continued: what operators decide, whose turn it is, and parts of collections."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from snapshotter.core.rules import announcements, queue
from snapshotter.core.rules.in_flight import InFlight
from snapshotter.core.rules.scan import Scan
from snapshotter.core.rules.signal_batch import SignalBatch
from snapshotter.core.scheduler import Scheduler
from snapshotter.core.values.chunks import KeyRange
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.tasks import TaskProgress

from .mutations import MUTATIONS, mutation
from .sink import Durable

__all__ = ["MUTATIONS"]


@mutation("control", stops=0.03, crash=0.03)
def a_stop_is_forgotten_by_a_restart(patch: pytest.MonkeyPatch) -> None:
    original = Durable.decide
    patch.setattr(Durable, "decide", lambda self, c: original(self, replace(c, stopped=frozenset())))


@mutation("control", pauses=0.05, resumes=0.1, crash=0.03)
def a_resume_is_undone_by_a_restart(patch: pytest.MonkeyPatch) -> None:
    """What was paused once is paused in every later run."""
    original = Durable.decide

    def decide(self: Durable, controls: Controls) -> None:
        original(self, replace(controls, paused=controls.paused | self.controls.paused))

    patch.setattr(Durable, "decide", decide)


@mutation("control", pauses=0.05)
def a_paused_request_opens_windows(patch: pytest.MonkeyPatch) -> None:
    original = queue.active
    awake = lambda p: replace(p, requests=tuple(replace(r, paused=False) for r in p.requests))  # noqa: E731
    patch.setattr(queue, "active", lambda progress: original(awake(progress)))


@mutation("control", stops=0.03)
def windows_of_what_was_stopped_land(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scheduler, "_give_up_ended", lambda self: [])


@mutation("control", stops=0.03, requests=4)
def a_stop_reaches_requests_that_come_later(patch: pytest.MonkeyPatch) -> None:
    """A command is kept as a command, and applied whenever there is something to stop."""
    original = Controls.applied

    def applied(self: Controls, request: Any) -> Any:
        for task in request.tasks:
            if self.stopped and not task.ended:
                request = request.with_task(task.stopped())
        return original(self, request)

    patch.setattr(Controls, "applied", applied)


@mutation("control", again=0.1, pauses=0.04, resumes=0.1, stops=0.02)
def a_command_that_comes_twice_is_applied_twice(patch: pytest.MonkeyPatch) -> None:
    """Only the ids of requests are known."""
    original = SignalBatch.digest_of
    patch.setattr(
        SignalBatch, "digest_of", lambda self, name: original(self, name) if name in self._known else None
    )


@mutation("control", together=0.9, requests=4)
def a_signal_that_comes_twice_at_once_is_taken_twice(patch: pytest.MonkeyPatch) -> None:
    """As often as it comes its request is in the queue."""
    patch.setattr(SignalBatch, "digest_of", lambda self, signal_id: None)
    patch.setattr(Progress, "accepting", lambda self, new: replace(self, requests=(*self.requests, *new)))


@mutation("control", together=0.9, pauses=0.1, stops=0.03, resumes=0.1)
def decisions_that_come_together_are_heard_of_later(patch: pytest.MonkeyPatch) -> None:
    """They are durable, but the machine goes on with what it knew."""
    original = Scheduler.signals_taken
    patch.setattr(
        Scheduler, "signals_taken", lambda self, told: original(self, replace(told, controls=self.controls))
    )


@mutation("control", stops=0.03)
def what_was_stopped_is_said_to_be_completed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(announcements, "_end_of", lambda request: "COMPLETED")


@mutation("control", kept=0, requests=4, ticks=300)
def a_request_is_forgotten_as_soon_as_it_has_ended(patch: pytest.MonkeyPatch) -> None:
    """Before the journal has let go of it: the next run carries it out once more."""
    original = Progress.forgetting

    def forgetting(self: Progress, keep: int) -> Progress:
        known = original(self, keep)
        return replace(known, requests=tuple(r for r in known.requests if keep or not r.ended))

    patch.setattr(Progress, "forgetting", forgetting)


@mutation("control", urgent=0.6, requests=4, chunk_docs=1, windows_in_flight=4)
def two_requests_read_one_collection_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InFlight, "others", lambda self, request_id, namespace: False)


@mutation("control", urgent=0.8, requests=4)
def the_first_accepted_goes_first(patch: pytest.MonkeyPatch) -> None:
    original = queue.active
    alike = lambda p: replace(p, requests=tuple(replace(r, priority=0) for r in p.requests))  # noqa: E731
    patch.setattr(queue, "active", lambda progress: original(alike(progress)))


@mutation("12", urgent=0.8, requests=4, preloaded=0.9, chunk_docs=1, writes=0.1, collation=0.0, parts=0.5)
def a_first_load_that_was_overtaken_stays_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TaskProgress, "merging", lambda self: self)


@mutation("9", pauses=0.05, read_fails=0.3, windows_in_flight=4, chunk_docs=1, attempts=9, preloaded=0.9)
def windows_wait_behind_a_chunk_that_gets_none(patch: pytest.MonkeyPatch) -> None:
    """A request that is paused then never lets go of the streamed keys, and a stop of the engine never ends."""
    patch.setattr(Scan, "behind_a_gap", lambda self, order: False)


@mutation("12", parts=0.8)
def a_part_is_taken_for_the_whole(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TaskProgress, "whole", property(lambda self: self.filter is None))


@mutation("parts", parts=0.9, reread_ids=1, filtered=0.0)
def the_last_of_the_single_ids_is_left_out(patch: pytest.MonkeyPatch) -> None:
    original = Scan._over.__func__  # type: ignore[attr-defined]

    def over(cls: type[Scan], task: TaskProgress, at_once: int) -> Scan:
        return original(cls, replace(task, keys=task.keys[:-1]), at_once)  # type: ignore[no-any-return]

    patch.setattr(Scan, "_over", classmethod(over))


@mutation("parts", parts=0.9, filtered=0.0, preloaded=0.9, writes=0.1)
def the_lower_end_of_a_range_is_left_out(patch: pytest.MonkeyPatch) -> None:
    original = Scan.plan

    def plan(self: Scan, *told: Any, **more: Any) -> None:
        was = self.closed
        original(self, *told, **more)
        first = self.ready[0] if was and self.ready else None
        if (
            first is not None
            and isinstance(first.target, KeyRange)
            and first.target.after != first.target.upto
        ):
            self.ready[0] = replace(first, target=replace(first.target, closed=False))

    patch.setattr(Scan, "plan", plan)
