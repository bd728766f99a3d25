"""The machine, where chunks fail: attempts, outages, tasks that fail and go on."""

from __future__ import annotations

from snapshotter.core.machine import Machine
from snapshotter.core.values import effects as eff
from snapshotter.core.values import inputs as inp
from snapshotter.core.values.commands import Resume
from snapshotter.core.values.outcome import Uncounted
from snapshotter.core.values.tasks import TaskState
from snapshotter.core.values.window import WindowId
from tests.support.taken import taken

from .some import ORDERS, W1, W2, W3, arrived, at, bound, closing, only, scanning, seen, state


def failing(it: Machine, window: WindowId | None, times: int, *, passing: bool = False) -> WindowId | None:
    """The chunk of this window fails so many times; the window that it has then, None if it has none."""
    for _ in range(times):
        assert window is not None
        asked = only(eff.WriteLow, it.step(inp.WindowFailed(window, "gone", passing=passing)))
        window = asked[0].window if asked else None
    return window


def test_attempts_are_counted_and_then_the_task_fails() -> None:
    """Two here; the other windows of the task go with it, and a batch is asked for, to save that."""
    it = scanning()
    said = it.step(inp.WindowFailed(W1, "reset"))
    assert only(eff.WriteLow, said) == [eff.WriteLow(W3, ORDERS)]
    said = it.step(inp.WindowFailed(W3, "reset"))
    assert [e.window for e in only(eff.Discard, said)] == [W3, W2]
    assert only(eff.MakeBatch, said)
    task = it.progress.requests[0].tasks[0]
    assert (task.state, task.error, it.quiet) == (TaskState.FAILED, "reset", True)


def test_a_source_that_is_away_is_waited_for_longer() -> None:
    """As often as the stream tries to reach it."""
    it = scanning(attempts=2, attempts_away=4, windows_in_flight=1)
    window = failing(it, W1, 3, passing=True)
    assert failing(it, window, 1, passing=True) is None
    assert it.progress.requests[0].tasks[0].state is TaskState.FAILED


def test_an_outage_is_not_held_against_a_chunk() -> None:
    """What else fails, in its midst or after it, is counted by itself."""
    it = scanning(attempts=2, attempts_away=4, windows_in_flight=1)
    window = failing(it, W1, 3, passing=True)
    window = failing(it, window, 1)
    assert it.progress.requests[0].tasks[0].state is TaskState.RUNNING
    assert failing(it, window, 1) is None
    assert it.progress.requests[0].tasks[0].state is TaskState.FAILED


def test_an_outage_is_over_once_a_window_is_whole() -> None:
    """The next one is waited for as long again; failures of the chunk's own stay counted."""
    it = scanning(attempts=2, attempts_away=4, windows_in_flight=1)
    window = failing(it, failing(it, W1, 1), 3, passing=True)
    for outage in range(2):
        it.step(inp.LowWritten(window, at(12)))
        it.step(inp.ChunkRead(window, at(13), 2))
        it.step(inp.HighWritten(window, at(14)))
        window = failing(it, window, 3, passing=True)
        assert it.progress.requests[0].tasks[0].state is TaskState.RUNNING, f"outage {outage}"
    assert failing(it, window, 1) is None
    assert it.progress.requests[0].tasks[0].state is TaskState.FAILED


def test_a_first_load_that_goes_on_after_its_failure_appends_nothing() -> None:
    """What streamed meanwhile has landed ahead of it, and lands from here on."""
    it = scanning(empty_tables=frozenset({ORDERS}), attempts=1)
    closing(it, W1)
    it.step(arrived(2, 20, observations=seen(W1)))
    it.step(inp.BatchLanded(2, {W1: inp.Outcome(2, 0)}))
    it.step(inp.WindowFailed(W2, "reset"))
    assert only(eff.LandBatch, it.step(arrived(3, 21)))[0].unreached == {}
    it.step(inp.BatchLanded(3))
    said = it.step(taken(it, Resume("r1", frozenset({"q1"}))))
    assert isinstance(said[0], eff.SaveControls)
    assert [e.after for e in only(eff.PlanChunks, said)] == [bound("k2")]
    landing = only(eff.LandBatch, it.step(arrived(4, 22)))[0]
    assert landing.unreached == {}


def test_a_plan_from_before_a_failure_answers_nobody() -> None:
    """The scan was begun anew, and has asked for a plan of its own."""
    it = scanning(attempts=1, windows_in_flight=2)
    closing(it, W1)
    it.step(arrived(2, 20, observations=seen(W1)))
    it.step(inp.BatchLanded(2, {W1: inp.Outcome(2, 0)}))
    it.step(inp.WindowFailed(W2, "reset"))
    (asked,) = only(eff.PlanChunks, it.step(taken(it, Resume("r1", frozenset({"q1"})))))
    assert (asked.after, asked.resumed) == (bound("k2"), 1)
    before = state(it)
    assert it.step(inp.ChunksPlanned("q1", ORDERS, (bound("k1"),), exhausted=True)) == ()
    assert state(it) == before


def test_what_lands_of_a_task_that_has_just_failed_is_counted() -> None:
    """Its rows are in the table. Where it goes on they are read again, found unchanged, and not counted twice."""
    it = scanning(attempts=1, windows_in_flight=2)
    closing(it, W1)
    it.step(arrived(2, 20, observations=seen(W1)))
    it.step(inp.WindowFailed(W2, "reset"))
    it.step(inp.BatchLanded(2, {W1: inp.Outcome(2, 0)}))
    (task,) = it.progress.requests[0].tasks
    assert (task.state, task.frontier, task.inserted) == (TaskState.FAILED, None, 2)
    assert task.counting(Uncounted("q1", inp.Outcome(2, 0, unchanged=2), bound("k2"))).inserted == 2


def test_a_lost_window_takes_its_task_with_it_when_it_was_the_last_attempt() -> None:
    """Several windows lost at once are no problem then."""
    it = scanning(attempts=1)
    closing(it, W1, W2)
    it.step(arrived(2, 20, observations=seen(W1, W2)))
    said = it.step(inp.BuffersLost(2, frozenset({W1, W2})))
    assert only(eff.LandBatch, said)[0].closings == ()
    assert sorted(e.window for e in only(eff.Discard, said)) == [W1, W2, W3]
    it.step(inp.BatchLanded(2))
    assert it.finished
