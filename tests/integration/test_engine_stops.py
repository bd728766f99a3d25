"""What a stop meets on real parts, and in what order requests are read."""

from __future__ import annotations

import threading

import pytest

from snapshotter.api import Snapshotter
from snapshotter.core.values.progress import RequestProgress
from snapshotter.core.values.tasks import TaskState
from snapshotter.reading.chunk_reader import ReadJob
from tests.support.engines import SECONDS, Gate, Lab, Reads, lab, limits, reads

__all__ = ["lab", "reads"]

pytestmark = pytest.mark.slow  # every chunk of a backfill waits for batches
DOCUMENTS = 6


def prepared(lab: Lab, *names: str) -> None:
    """Collections of two chunks, of which one is in flight at a time."""
    lab.with_options("insert_insert", snapshot__mode="no_data")
    lab.tune = limits(3, 1)
    for name in names:
        lab.collection(name).insert_many([{"_id": n} for n in range(DOCUMENTS)])


def ask(lab: Lab, name: str, *collections: str, **more: object) -> None:
    lab.signal("execute-snapshot", name, data__collections=[lab.name(c) for c in collections], **more)


def known(engine: Snapshotter, name: str) -> RequestProgress | None:
    run = engine.engine.run_state
    assert run is not None
    return next((r for r in run.standing().requests if r.id == name), None)


def states(engine: Snapshotter, name: str) -> dict[str, TaskState]:
    return {t.namespace.collection: t.state for t in engine.wait(name, SECONDS).tasks}


def test_a_stop_meets_what_it_names_or_all_there_is(lab: Lab, reads: Reads) -> None:
    """One collection of a request is stopped, the other is read to its end. A stop that names nothing meets what is
    paused, and what waits in the queue and was never begun. It is about what exists then: a request that comes later is
    neither stopped nor paused."""
    prepared(lab, "a", "b", "c")
    second = threading.Event()
    gates = [
        Gate(lambda number, job: job.namespace.collection == "a"),
        Gate(lambda number, job: second.is_set()),
    ]

    def before(number: int, job: ReadJob) -> None:
        for gate in gates:
            gate(number, job)

    reads.before = before
    with lab.running() as engine:
        ask(lab, "q", "a", "b")
        assert gates[0].ready.wait(SECONDS)
        lab.signal("stop-snapshot", "s", data__collections=[lab.name("a")])
        engine.until(
            "the stop", lambda: (r := known(engine, "q")) and r.tasks[0].state is TaskState.STOPPED, SECONDS
        )
        gates[0].go.set()
        assert states(engine, "q") == {"a": TaskState.STOPPED, "b": TaskState.DONE}
        second.set()
        ask(lab, "paused", "b", "c")
        ask(lab, "queued", "b")
        assert gates[1].ready.wait(SECONDS)
        engine.until("the second one to be known", lambda: known(engine, "queued"), SECONDS)
        read = len(reads.jobs)
        lab.signal("pause-snapshot", "p")
        engine.until("the pause", lambda: (r := known(engine, "queued")) and r.paused, SECONDS)
        lab.signal("stop-snapshot", "all")
        stopped = {"b": TaskState.STOPPED, "c": TaskState.STOPPED}
        assert states(engine, "paused") == stopped
        assert states(engine, "queued") == {"b": TaskState.STOPPED}
        gates[1].go.set()
        assert len(reads.jobs) == read, "nothing was begun for what was stopped"
        ask(lab, "later", "c")
        assert states(engine, "later") == {"c": TaskState.DONE}
    assert len(lab.rows("b")) == DOCUMENTS
    lab.assert_equal("b", "c")


def test_the_more_urgent_request_goes_first(lab: Lab, reads: Reads) -> None:
    """One that comes while another is read overtakes it: the window in flight lands, then all of the urgent one is
    read, then the rest."""
    prepared(lab, "a", "b")
    gate = Gate(lambda number, job: number == 0)
    reads.before = gate
    with lab.running() as engine:
        ask(lab, "q", "a")
        assert gate.ready.wait(SECONDS)
        ask(lab, "urgent", "b", priority=5)
        engine.until("it to be known", lambda: known(engine, "urgent"), SECONDS)
        gate.go.set()
        for name in ("urgent", "q"):
            assert set(states(engine, name).values()) == {TaskState.DONE}
    assert [job.namespace.collection for job in reads.jobs] == ["a", "b", "b", "a"]
    lab.assert_equal("a", "b")
