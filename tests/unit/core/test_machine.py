"""`core.machine`: what the traces do not show: refusals that change nothing, and rules at their edges.

The traces (tests/traces) tell whole stories; the simulation (tests/simulation) judges whole histories.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from snapshotter.core.machine import Machine
from snapshotter.core.values import effects as eff
from snapshotter.core.values import inputs as inp
from snapshotter.core.values.commands import Pause, Resume, Stop
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.requests import SnapshotRequest, Wanted
from snapshotter.core.values.tries import FIRST
from snapshotter.core.values.window import WindowId, WindowMisuse, WindowState
from tests.support.taken import taken

from .some import (
    ITEMS,
    ORDERS,
    W1,
    W2,
    W3,
    arrived,
    at,
    bound,
    chunk,
    closing,
    ids,
    machine,
    only,
    request,
    scanning,
    seen,
    state,
)


def at_state(wanted: WindowState) -> Machine:
    """A machine whose first window is in this state."""
    it = scanning()
    steps: list[inp.Input] = [
        inp.LowWritten(W1, at(12)),
        inp.ChunkRead(W1, at(13), 2),
        inp.HighWritten(W1, at(14)),
    ]
    for step in steps[: list(WindowState).index(wanted)]:
        it.step(step)
    return it


ANSWERS: dict[str, tuple[inp.Input, WindowState]] = {
    "low": (inp.LowWritten(W1, at(12)), WindowState.REGISTERED),
    "read": (inp.ChunkRead(W1, at(13), 2), WindowState.OPEN),
    "high": (inp.HighWritten(W1, at(14)), WindowState.READ),
}


@pytest.mark.parametrize("wanted", WindowState)
@pytest.mark.parametrize("answer", ANSWERS)
def test_every_answer_in_every_state_of_a_window(wanted: WindowState, answer: str) -> None:
    """One state takes it; in every other it is refused, and nothing has changed."""
    it = at_state(wanted)
    before = state(it)
    happened, allowed = ANSWERS[answer]
    if wanted is allowed:
        it.step(happened)
        assert it.windows[W1].state is not wanted
    else:
        with pytest.raises(WindowMisuse, match=f"while {wanted}"):
            it.step(happened)
        assert state(it) == before


REFUSED: dict[str, tuple[Callable[[], Machine], inp.Input, str]] = {
    "a batch that progress covers": (scanning, arrived(1, 20), "progress is of batch 1"),
    "a batch while another lands": (
        lambda: _after(scanning(), arrived(2, 20)),
        arrived(3, 30),
        "batch 2 is being landed",
    ),
    "a landing that was not asked for": (scanning, inp.BatchLanded(2), "no batch is being landed"),
    "the landing of another batch": (
        lambda: _after(scanning(), arrived(2, 20)),
        inp.BatchLanded(3),
        "batch 2 is being landed",
    ),
    "a landing without an outcome": (
        lambda: _after(_with_closing(), arrived(2, 20, observations=seen(W1))),
        inp.BatchLanded(2),
        "without an outcome of a/1",
    ),
    "buffers lost while nothing lands": (
        scanning,
        inp.BuffersLost(2, frozenset()),
        "no batch is being landed",
    ),
    "a collection nobody asked for": (
        scanning,
        inp.CollectionOpened("q1", ITEMS, None),
        r"no task for shop\.items in request 'q1'",
    ),
    "a collection opened twice": (scanning, inp.CollectionOpened("q1", ORDERS, None), "the task is running"),
    "a failure of no task": (scanning, inp.CollectionFailed("q9", ORDERS, "no"), "request 'q9'"),
    "a plan that goes back": (
        scanning,
        inp.ChunksPlanned("q1", ORDERS, (bound("k3"),), exhausted=False),
        "none were asked for|do not rise",
    ),
}


def _after(it: Machine, *steps: inp.Input) -> Machine:
    for step in steps:
        it.step(step)
    return it


def _with_closing() -> Machine:
    it = scanning()
    closing(it, W1)
    return it


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_and_changes_nothing(name: str) -> None:
    """The caller's mistake is named; the machine stays as it was."""
    make, happened, message = REFUSED[name]
    it = make()
    before = state(it)
    with pytest.raises(ValueError, match=message):
        it.step(happened)
    assert state(it) == before


@pytest.mark.parametrize(
    "late",
    [
        inp.LowWritten(WindowId("a", 9), at(12)),
        inp.ChunkRead(WindowId("old", 1), at(12), 2),
        inp.HighWritten(WindowId("a", 9), at(12)),
        inp.WindowFailed(WindowId("old", 1), "late"),
        inp.ChunksPlanned("q9", ORDERS, (), exhausted=True),
        inp.SignalsTaken((request("q1", ITEMS),), Controls()),
    ],
    ids=lambda late: type(late).__name__,
)
def test_what_comes_late_is_passed_over(late: inp.Input) -> None:
    """Answers for windows given up, plans of tasks that ended, requests known by their id."""
    it = scanning()
    before = state(it)
    assert it.step(late) == ()
    assert state(it) == before


def test_nothing_is_asked_for_before_the_first_batch() -> None:
    """Only it tells how far tables reach; then the largest id is read at or after its end."""
    it = machine()
    assert it.step(taken(it, request())) == ()
    assert it.step(arrived(0, 10))[1:] == (eff.OpenCollection("q1", ORDERS, None, at(10)),)


def test_far_behind_no_window_is_opened() -> None:
    """Its streamed keys would pile up; planning goes on, and catching up opens them."""
    it = scanning(windows_in_flight=1)
    closing(it, W1)
    it.step(arrived(2, 20, observations=seen(W1), behind=True))
    assert only(eff.WriteLow, it.step(inp.BatchLanded(2, {W1: inp.Outcome(2, 0)}))) == []
    assert [e.window for e in only(eff.WriteLow, it.step(arrived(3, 30)))] == [W2]


def test_land_save_announce() -> None:
    """In this order, in one tuple, and buffers are dropped last."""
    it = _with_closing()
    it.step(arrived(2, 20, observations=seen(W1)))
    said = it.step(inp.BatchLanded(2, {W1: inp.Outcome(1, 1)}))
    kinds = [type(effect) for effect in said]
    assert kinds[:3] == [eff.SaveProgress, eff.Announce, eff.Discard]
    saved = only(eff.SaveProgress, said)[0].progress
    task = saved.requests[0].tasks[0]
    assert (saved.batch_id, saved.position) == (2, at(20))
    assert (task.frontier, task.rows, task.superseded) == (bound("k2"), 1, 1)


def test_the_buffer_of_a_window_that_is_being_landed_stays() -> None:
    """Its task may fail meanwhile: the rows land, the frontier does not move, and then the buffer is dropped."""
    it = _with_closing()
    it.step(arrived(2, 20, observations=seen(W1)))
    said = it.step(inp.WindowFailed(W2, "not allowed", definite=True))
    assert [e.window for e in only(eff.Discard, said)] == [W2, W3]
    said = it.step(inp.BatchLanded(2, {W1: inp.Outcome(2, 0)}))
    assert [e.window for e in only(eff.Discard, said)] == [W1]
    assert it.progress.requests[0].tasks[0].frontier is None


def test_a_window_that_could_have_closed_already_asks_for_a_batch() -> None:
    """Its watermark was seen before it was acknowledged, or the commit was full: an idle stream brings none."""
    it = scanning()
    it.step(inp.LowWritten(W1, at(12)))
    it.step(inp.ChunkRead(W1, at(13), 2))
    it.step(arrived(2, 20, observations=seen(W1)))
    it.step(inp.BatchLanded(2))
    assert only(eff.MakeBatch, it.step(inp.HighWritten(W1, at(14))))
    it = scanning(commit_rows_target=1)
    closing(it, W1, W2)
    it.step(arrived(2, 20, observations=seen(W1, W2)))
    said = it.step(inp.BatchLanded(2, {W1: inp.Outcome(2, 0)}))
    assert only(eff.MakeBatch, said)


def test_a_second_landing_of_a_batch_takes_in_nothing_new() -> None:
    """Windows registered since have their floor at its end; the unreached range of the first plan holds."""
    it = scanning(windows_in_flight=1, empty_tables=frozenset({ORDERS}))
    closing(it, W1)
    first = only(eff.LandBatch, it.step(arrived(2, 20, observations=seen(W1))))[0]
    second = only(eff.LandBatch, it.step(inp.BuffersLost(2, frozenset({W1}))))[0]
    assert first.closings[0].proven_new
    assert (second.closings, second.unreached, second.keep) == ((), first.unreached, first.keep)


def test_a_second_attempt_is_not_proven_new() -> None:
    """Events of its range have landed since the first."""
    it = scanning(empty_tables=frozenset({ORDERS}))
    it.step(inp.WindowFailed(W1, "reset"))
    closing(it, W2, W3)
    landing = only(eff.LandBatch, it.step(arrived(2, 20, observations=seen(W2, W3))))[0]
    assert [(c.window.id, c.proven_new) for c in landing.closings] == [(W3, False), (W2, True)]


def test_ids_that_cannot_be_read_again_are_tried_once_a_batch() -> None:
    """An error that stays must not spin."""
    it = machine()
    it.step(arrived(0, 10, incomplete={ORDERS: (bound("k1"),)}))
    assert only(eff.WriteLow, it.step(inp.BatchLanded(0))) == [eff.WriteLow(W1, ORDERS)]
    assert it.step(inp.WindowFailed(W1, "reset")) == (eff.Discard(W1, ORDERS, landed=False, why="reset"),)
    assert only(eff.WriteLow, it.step(arrived(1, 20))) == [eff.WriteLow(W2, ORDERS)]
    assert not it.finished


def test_a_chunk_makes_single_ids_give_way() -> None:
    """No id is in two windows: the ids stay on the list, and those that no chunk holds are read at once."""
    it = scanning(incomplete={ORDERS: (bound("k1"), bound("k9"))}, windows_in_flight=3)
    assert [w.target for w in it.windows.values()] == [
        chunk(None, "k2"),
        chunk("k2", "k4"),
        chunk("k4", "k6"),
        ids("k9"),
    ]
    assert [b.key for _, b in it.progress.rereads] == ["k1", "k9"]


def test_an_earlier_runs_first_load_goes_on_where_its_table_ends() -> None:
    """The engine is asked how far that is, and events up to there land."""
    before = scanning(empty_tables=frozenset({ORDERS})).progress
    it = machine(progress=before)
    assert [t.namespace for t in it.first_loads()] == [ORDERS]
    landing = only(eff.LandBatch, it.step(arrived(2, 20, landed_upto={ORDERS: "k3"})))[0]
    assert landing.unreached == {ORDERS: eff.Unreached("k3", "k6")}


def test_what_is_in_flight_closes_at_once_when_the_engine_stops() -> None:
    """A commit is sized for a backfill that goes on; who waits for the end of one waits for all windows together."""
    it = scanning(commit_rows_target=2, rows_in_flight=6)
    closing(it, W1, W2, W3)
    it.step(inp.Draining())
    landing = only(eff.LandBatch, it.step(arrived(2, 20, observations=seen(W1, W2, W3))))[0]
    assert [c.window.id for c in landing.closings] == [W1, W2, W3]


def test_a_request_has_ended_once_that_is_saved_and_announced() -> None:
    """An empty collection is done as soon as it is opened; who runs once must still wait for the batch that says so."""
    it = machine()
    it.step(taken(it, request()))
    it.step(arrived(0, 10))
    it.step(inp.BatchLanded(0))
    it.step(inp.CollectionOpened("q1", ORDERS, None))
    assert it.progress.requests[0].ended
    assert not it.finished
    it.step(arrived(1, 11))
    it.step(inp.BatchLanded(1))
    assert it.finished


def test_a_new_run_begins_with_nothing_in_flight() -> None:
    """Windows and plans live in memory; progress alone is handed on."""
    it = machine(progress=Progress())
    assert it.quiet
    assert it.finished
    assert it.beginning() == ()


@pytest.mark.parametrize(
    "late",
    [inp.CollectionOpened("q1", ORDERS, bound("k9")), inp.CollectionFailed("q1", ORDERS, "not allowed")],
    ids=lambda late: type(late).__name__,
)
def test_an_answer_to_a_request_that_is_forgotten_is_passed_over(late: inp.Input) -> None:
    """It was stopped while the answer was on its way, and so many have ended since that nobody knows it any more."""
    it = machine(ended_requests_kept=0)
    it.step(taken(it, request("q1", ORDERS)))
    assert only(eff.OpenCollection, it.step(arrived(0, 10)))
    it.step(taken(it, Stop("s1")))
    it.step(inp.BatchLanded(0))
    it.step(arrived(1, 11))
    it.step(inp.BatchLanded(1))
    assert it.progress.requests == ()
    assert it.step(late) == ()
    with pytest.raises(ValueError, match="no task"):
        it.step(late)


def test_a_pause_leaves_nothing_waiting_in_flight() -> None:
    """A chunk that fails while its request is paused gets no window; those behind it cannot close, and are given up."""
    it = scanning()
    closing(it, W2)
    assert only(eff.WriteLow, it.step(taken(it, Pause("p1")))) == []
    said = it.step(inp.WindowFailed(W1, "reset"))
    assert [e.window for e in only(eff.Discard, said)] == [W1, W2]
    assert it.quiet
    said = it.step(taken(it, Resume("r1")))
    again = [it.windows[e.window] for e in only(eff.WriteLow, said)]
    assert [(w.target, w.tries) for w in again] == [
        (chunk(None, "k2"), FIRST.failing()), (chunk("k2", "k4"), FIRST.again()),
    ]  # fmt: skip


def test_what_reconciles_says_so_when_it_closes() -> None:
    """Whoever lands it decides what goes."""
    it = machine()
    wanted = Wanted(ORDERS, keys=(bound("k1"),), reconcile=True)
    it.step(taken(it, SnapshotRequest("q1", (wanted,))))
    (asked,) = only(eff.OpenCollection, it.step(arrived(0, 10)))
    assert asked.reconcile
    it.step(inp.BatchLanded(0))
    it.step(inp.CollectionOpened("q1", ORDERS, None))
    it.step(arrived(1, 11))
    it.step(inp.BatchLanded(1))
    closing(it, W1)
    landing = only(eff.LandBatch, it.step(arrived(2, 20, observations=seen(W1))))[0]
    assert [(c.window.target, c.reconcile, c.proven_new) for c in landing.closings] == [
        (ids("k1"), True, False)
    ]
