"""`core.values.controls`: what operators have decided, as facts that a restart can apply again."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from snapshotter.core.values.commands import Pause, Resume, Stop
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.memory import KEPT, Handled, Memory, Moment
from snapshotter.core.values.outcome import Outcome
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import Origin
from snapshotter.core.values.tasks import TaskState
from tests.support.taken import after

from .some import ITEMS, ORDERS, bound, request

Q1 = RequestProgress.accepted(request("q1", ORDERS, ITEMS))
Q2 = RequestProgress.accepted(request("q2", ORDERS))
RUNNING = Q2.with_task(Q2.tasks[0].opened(bound("k9"), 9, ordered_keys=True).begun(table_empty=True))
FAILED = RUNNING.with_task(RUNNING.tasks[0].advanced(bound("k2"), Outcome(1, 0)).failed("reset"))


def states(it: RequestProgress) -> list[str]:
    return [str(task.state) for task in it.tasks]


def test_a_command_is_about_what_exists_now() -> None:
    """Not about requests that come later, whether it named them or meant all."""
    for named in (None, frozenset({"q1", "q2"})):
        controls = after(after(Controls(), Pause("p1", named), [Q1]), Stop("s1", named), [Q1])
        assert controls.stopped == {("q1", ORDERS), ("q1", ITEMS)}
        assert controls.paused == {"q1"}
        assert controls.applied(Q2) == Q2


def test_a_stop_names_requests_and_collections() -> None:
    """Both must fit; what has ended stays as it ended."""
    only = after(Controls(), Stop("s1", namespaces=frozenset({ITEMS})), [Q1, FAILED])
    assert states(only.applied(Q1)) == ["waiting", "stopped"]
    assert only.applied(FAILED) == FAILED
    assert after(Controls(), Stop("s1", frozenset({"q2"})), [Q1, FAILED]).stopped == frozenset()


def test_applied_again_nothing_changes() -> None:
    """A restart applies it to whatever state it finds, older or newer."""
    controls = after(Controls(), Stop("s1", frozenset({"q1"})), [Q1])
    controls = after(controls, Resume("r1", frozenset({"q2"})), [FAILED])
    for before in (Q1, FAILED):
        once = controls.applied(before)
        assert controls.applied(once) == once


def test_only_one_that_is_named_goes_on_after_a_failure() -> None:
    """Each time once, however often the fact is applied; one that fails again needs to be told again."""
    assert after(Controls(), Resume("r0"), [FAILED]).applied(FAILED) == FAILED
    controls = after(Controls(), Resume("r1", frozenset({"q2"})), [FAILED])
    again = controls.applied(FAILED)
    assert (states(again), again.tasks[0].frontier) == (["running"], bound("k2"))
    failed = again.with_task(again.tasks[0].failed("reset"))
    assert controls.applied(failed) == failed
    controls = after(controls, Resume("r2", frozenset({"q2"})), [failed])
    assert controls.applied(failed).tasks[0].resumed == 2


def test_one_that_goes_on_and_is_stopped_ends_anew() -> None:
    """Between two saved states; it must not be taken for one that ended long ago, and be forgotten."""
    ended = replace(FAILED, ended_in=3)
    controls = after(Controls(), Resume("r1", frozenset({"q2"})), [ended])
    controls = after(controls, Stop("s1"), [controls.applied(ended)])
    stopped = controls.applied(ended)
    assert (states(stopped), stopped.ended_in) == (["stopped"], None)
    assert Progress(4, requests=(stopped,)).forgetting(0).requests == (replace(stopped, ended_in=4),)


def test_a_command_counts_once() -> None:
    """Delivered again, a pause does not undo the resume that came after it."""
    controls = after(after(Controls(), Pause("p1", digest="d"), [Q1]), Resume("r1"), [Q1])
    assert after(controls, Pause("p1", digest="d"), [Q1]) == controls
    assert dict(controls.taken) == {"p1": "d", "r1": ""}


def test_commands_are_remembered_for_the_time_that_is_stated() -> None:
    """However many come within it; those that are older give way to newer ones, beyond a number."""
    old, young = ({f"{age}{n}": age for n in range(KEPT)} for age in ("old", "young"))
    controls = Controls().remembering(old, Moment(1_000, 60)).remembering(young, Moment(1_060, 60))
    assert len(controls.taken) == 2 * KEPT
    controls = controls.remembering({"new": ""}, Moment(1_061, 60))
    assert list(controls.taken) == [*young, "new"]
    assert [controls.taken.younger(Moment(now, 60)) for now in (1_120, 1_121, 1_122)] == [KEPT + 1, 1, 0]
    assert controls.remembering({}, Moment(9_999, 60)) is controls


def test_a_fact_stays_until_an_older_state_shows_it() -> None:
    """The newest state may be undone by a replay, which starts from the one before."""
    controls = after(Controls(), Stop("s1"), [RUNNING])
    before, later = Progress(requests=(RUNNING,)), Progress(requests=(controls.applied(RUNNING),))
    assert controls.settled(before, later).stopped == controls.stopped
    assert controls.settled(later, later).stopped == frozenset()
    going = after(Controls(), Resume("r1", frozenset({"q2"})), [FAILED])
    before, later = Progress(requests=(FAILED,)), Progress(requests=(going.applied(FAILED),))
    assert going.settled(before, later).resumed == going.resumed
    assert going.settled(later, later).resumed == {}


def test_a_pause_stays_until_the_request_has_ended() -> None:
    """It belongs to the request; what no state knows any more was forgotten long ago."""
    controls = after(Controls(), Pause("p1"), [RUNNING])
    paused = Progress(requests=(controls.applied(RUNNING),))
    assert controls.settled(paused, paused).paused == {"q2"}
    done = Progress(requests=(RUNNING.with_task(RUNNING.tasks[0].finished()),))
    assert controls.settled(paused, done).paused == {"q2"}
    assert controls.settled(done, done).paused == frozenset()
    assert controls.settled(Progress(), Progress()).paused == frozenset()


def test_a_resume_reaches_what_a_replay_will_make_again() -> None:
    """A repair is made by a batch, under a name that a replay gives it again. Between the two nobody knows it, and a
    pause that held it must not outlive the resume."""
    repair = replace(Q2, id="repair/1.63/shop.orders", origin=Origin.REPAIR)
    paused = after(Controls(), Pause("p1"), [repair])
    assert paused.applied(repair).paused
    for named in (None, frozenset({repair.id})):
        assert not after(paused, Resume("r1", named), []).applied(repair).paused


def test_what_has_ended_is_not_paused() -> None:
    """The last window of a paused request may be its last chunk."""
    done = RUNNING.with_task(RUNNING.tasks[0].finished())
    controls = Controls(paused=frozenset({"q2"}))
    assert controls.applied(RUNNING).paused
    assert not controls.applied(done).paused
    assert done.tasks[0].state is TaskState.DONE


TASKS = st.tuples(st.text(max_size=3), st.sampled_from([ORDERS, ITEMS]))


@given(
    st.builds(
        Controls,
        st.frozensets(st.text(max_size=3)),
        st.frozensets(TASKS),
        st.dictionaries(TASKS, st.integers(1, 9)),
        st.builds(
            Memory,
            st.dictionaries(
                st.text(max_size=3), st.builds(Handled, st.text(max_size=3), st.integers(0, 2**40))
            ),
        ),
    )
)
def test_it_survives_json(controls: Controls) -> None:
    """Through the text that is written to storage."""
    assert Controls.from_json(json.loads(json.dumps(controls.to_json()))) == controls
