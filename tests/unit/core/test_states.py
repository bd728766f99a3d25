"""`core.values.states`: what may follow what stands in tables, and the documents show these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from snapshotter.core.values import tasks, window
from snapshotter.core.values.outcome import Outcome
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import Origin
from snapshotter.core.values.states import Steps
from snapshotter.core.values.suspension import Suspension
from snapshotter.core.values.tasks import TaskProgress, TaskState
from snapshotter.core.values.window import WindowMisuse, WindowState

from .some import ORDERS, at, bound

DOCS = Path(__file__).parents[3] / "docs" / "PROTOCOL.md"
TABLES: dict[str, Steps[Any]] = {"window": window.STEPS, "task": tasks.STEPS}


def reachable(steps: Steps[Any]) -> set[Any]:
    """All states that some order of steps leads to."""
    found: set[Any] = set()
    left = [steps.first]
    while left:
        state = left.pop()
        if state not in found:
            found.add(state)
            left += [to for ends in steps.table[state].values() for to in ends if to is not None]
    return found


def diagram(steps: Steps[Any]) -> str:
    """As a Mermaid state diagram, one line for each step."""
    return "\n".join(["stateDiagram-v2", f"    [*] --> {steps.first}", *_arrows(steps)])


def _arrows(steps: Steps[Any]) -> Iterator[str]:
    for state, allowed in steps.table.items():
        for step, ends in allowed.items():
            for to in ends:
                yield f"    {state} --> {to or '[*]'}: {step}"
        if not allowed:
            yield f"    {state} --> [*]"


@pytest.mark.parametrize("name", TABLES)
def test_every_state_has_its_row_and_is_reached(name: str) -> None:
    """No state is missing in the table, and none stands there that nothing leads to."""
    steps = TABLES[name]
    states = type(steps.first)
    assert set(steps.table) == set(states) == reachable(steps)


@pytest.mark.parametrize("name", TABLES)
def test_the_documents_show_the_table(name: str) -> None:
    """Its diagram, line by line."""
    assert f"```mermaid\n{diagram(TABLES[name])}\n```" in DOCS.read_text()


RUNNING = TaskProgress(ORDERS, state=TaskState.RUNNING, last=bound("9"))


def steps_of_a_task(task: TaskProgress) -> dict[str, Any]:
    """What each step would do to it."""
    return {
        "opened": lambda: task.opened(bound("9"), 9, ordered_keys=True),
        "begun": lambda: task.begun(table_empty=False),
        "advanced": lambda: task.advanced(bound("9"), Outcome(1, 0)),
        "finished": task.finished,
        "stopped": task.stopped,
        "failed": lambda: task.failed("why"),
        "going on": lambda: task.going_on(1),
    }


@pytest.mark.parametrize("state", TaskState)
def test_a_task_takes_the_steps_of_its_state_and_no_other(state: TaskState) -> None:
    """A step that the table does not have is refused, with the state and what it should be."""
    task = replace(RUNNING, state=state)
    for step, take in steps_of_a_task(task).items():
        if tasks.STEPS.allows(state, step):
            assert tasks.STEPS.leads(state, step, take().state)
        else:
            with pytest.raises(ValueError, match=f"{step} while the task is {state}, expected "):
                take()


@pytest.mark.parametrize("state", WindowState)
def test_only_a_window_that_closes_lands(state: WindowState) -> None:
    """Any may be given up."""
    one = window.Window(
        *(window.WindowId("a", 1), "q", ORDERS, RUNNING.range, None, 0, at(1)),  # type: ignore[arg-type]
        in_stream=True,
        state=state,
    )
    one.ends("given up")
    if state is WindowState.CLOSING:
        one.ends("landed")
    else:
        with pytest.raises(WindowMisuse, match=f"landed while {state}"):
            one.ends("landed")


WRONG = {
    "a frontier without a chunk": replace(RUNNING, frontier=bound("3")),
    "a chunk without a frontier": replace(RUNNING, chunks=1),
    "no end of its scan": replace(RUNNING, last=None),
    "a frontier behind the end": replace(RUNNING, frontier=bound("b"), chunks=1),
    "an error without a failure": replace(RUNNING, error="why"),
    "a failure without an error": replace(RUNNING, state=TaskState.FAILED),
    "a first load that leaves something out": replace(RUNNING, filter="{}", first_load=True),
}


def progress(task: TaskProgress, **fields: Any) -> Progress:
    return Progress(1, at(5), (RequestProgress("q", Origin.SIGNAL, (task,), **fields),))


@pytest.mark.parametrize("task", WRONG.values(), ids=WRONG)
def test_what_cannot_be_is_neither_saved_nor_believed(task: TaskProgress) -> None:
    """The two are pairs: what is refused when it is saved is refused when it is loaded."""
    with pytest.raises(ValueError, match=r"request 'q': shop\.orders"):
        progress(task).to_json()
    there = progress(RUNNING).to_json()
    there["requests"][0]["tasks"][0] = task.to_json()
    with pytest.raises(ValueError, match=r"request 'q': shop\.orders"):
        Progress.from_json(there)


def test_what_else_cannot_be() -> None:
    """A request that has ended and has not; ids to read again of a collection of which nothing lands."""
    with pytest.raises(ValueError, match="has ended in batch 1, and has not ended"):
        progress(RUNNING, ended_in=1).to_json()
    suspension = Suspension("unusable", "no disk", "make room", at(4))
    suspended = replace(Progress(1, at(5)), suspended={ORDERS: suspension})
    assert Progress.from_json(suspended.to_json()) == suspended
    with pytest.raises(ValueError, match="is suspended, and ids of it"):
        suspended.with_reread(ORDERS, (bound("3"),)).to_json()
