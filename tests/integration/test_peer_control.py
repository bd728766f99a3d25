"""What Debezium's tests ask of requests that are stopped, restarted, or fail, on real parts (docs/peer-tests.md)."""

from __future__ import annotations

import pytest

from snapshotter.api import Snapshotter
from snapshotter.core.values.chunks import KeyRange
from snapshotter.core.values.tasks import TaskState
from snapshotter.errors import DefiniteError
from snapshotter.reading.chunk_reader import ReadJob
from snapshotter.testing.kafka import KafkaBroker
from tests.support.engines import SECONDS, STRATEGIES, Gate, Lab, Reads, lab, limits, reads, task_of
from tests.support.selection import rest_thorough

__all__ = ["lab", "reads"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]  # every backfill waits for batches


def states(engine: Snapshotter) -> dict[str, list[TaskState]]:
    """Of every request that this engine knows, how its collections are."""
    run = engine.engine.run_state
    assert run is not None
    return {request.id: [task.state for task in request.tasks] for request in run.standing().requests}


def stop_in_the_middle(lab: Lab, reads: Reads, engine: Snapshotter, name: str, **what: object) -> None:
    """A request by signal, and a stop by signal while its second chunk is being read."""
    first = len(reads.jobs)
    reads.before = gate = Gate(lambda number, job: number == first + 1)
    lab.signal("execute-snapshot", name, data__collections=[lab.name("orders")])
    assert gate.ready.wait(SECONDS)
    lab.signal("stop-snapshot", f"stop-{name}", **what)
    assert engine.wait(name, SECONDS).tasks[0].state is TaskState.STOPPED
    gate.go.set()


@pytest.mark.thorough
def test_a_new_snapshot_after_a_stop_and_a_restart(lab: Lab, reads: Reads) -> None:
    """A stop of everything, and one that names the collection, end a snapshot for good: after a restart nothing of
    either is read. A new one reads everything, with what is inserted beside it."""
    lab.with_options(snapshot__mode="no_data")
    lab.tune = limits(5, 1, commit_rows_target=1_000)
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n} for n in range(15)])
    left = [100, 101]

    def insert(number: int, job: ReadJob) -> None:
        if left:
            orders.insert_one({"_id": left.pop()})

    with lab.running() as engine:
        stop_in_the_middle(lab, reads, engine, "all")
        stop_in_the_middle(lab, reads, engine, "named", data__collections=[lab.name("orders")])
    read, reads.before = len(reads.jobs), insert
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        assert len(reads.jobs) == read
        lab.signal("execute-snapshot", "new", data__collections=[lab.name("orders")])
        assert engine.wait("new", SECONDS).tasks[0].rows >= 15
        engine.catch_up(SECONDS)
        stopped, done = [TaskState.STOPPED], [TaskState.DONE]
        assert states(engine) == {"all": stopped, "named": stopped, "new": done}
    assert not left
    lab.assert_equal("orders")


def test_what_is_done_is_not_read_again_after_a_restart(
    lab: Lab, reads: Reads, kafka: KafkaBroker, topic: str
) -> None:
    """Stopped once the first collection was done, and the second, under a filter, half: only the rest of that is read,
    still under its filter. No restart begins a first load again, whatever was under way, and notifications that were
    sent change nothing of where the engine goes on."""
    lab.with_options(
        snapshot__mode="initial",
        snapshot__include__collection__list=rf"{lab.database}\.shops",
        notification__enabled__channels="log,delta,sink",
        notification__sink__topic__name=topic,
        notification__sink__bootstrap__servers=kafka.bootstrap,
    )
    lab.tune = limits(5, 1, commit_rows_target=1_000)
    lab.collection("shops").insert_one({"_id": 1})
    lab.collection("orders").insert_many([{"_id": n} for n in range(10)])
    lab.collection("people").insert_many([{"_id": n, "even": n % 2 == 0} for n in range(30)])

    def of(name: str) -> int:
        return sum(job.namespace.collection == name for job in reads.jobs)

    reads.before = gate = Gate(lambda number, job: of("people") == 2)
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        engine.execute_snapshot(
            lab.name("orders"),
            lab.name("people"),
            filters={lab.name("people"): '{"even": true}'},
            request_id="q",
        )
        engine.until("orders to be done", lambda: task_of(engine, "q").state is TaskState.DONE, SECONDS)
        gate.stop_here(engine)
        assert task_of(engine, "q", 1).chunks == 2
    assert (of("shops"), of("orders"), of("people")) == (1, 2, 2)
    with lab.running() as engine:
        request = engine.wait("q", SECONDS)
        assert [(t.state, t.rows, t.chunks) for t in request.tasks] == [
            (TaskState.DONE, 10, 2),
            (TaskState.DONE, 15, 3),
        ]
        assert states(engine).keys() == {"initial", "q"}
        assert "STARTED" not in [a.kind for a in engine.engine.announcer.announced]
        engine.catch_up(SECONDS)
    assert (of("shops"), of("orders"), of("people")) == (1, 2, 3)
    assert sorted(row["_id"] for row in lab.rows("people")) == list(range(0, 30, 2))
    lab.assert_equal("orders", "shops")


def test_an_error_in_one_of_three_collections(lab: Lab, reads: Reads) -> None:
    """A chunk of the first cannot be read, while another one of its is in flight: the other two are read to their ends,
    and so is a request that comes later; no row turns up in another table. Resumed by name, the first is read too."""
    lab.with_options("insert_delete", snapshot__mode="no_data")
    lab.tune = limits(5, 4, commit_rows_target=1_000)
    names = ("a", "b", "c")
    for name in names:
        lab.collection(name).insert_many([{"_id": f"{name}{n:02}", "of": name} for n in range(15)])

    def broken(number: int, job: ReadJob) -> None:
        behind_the_first = any(isinstance(t, KeyRange) and t.after for t in (p.target for p in job.ranges))
        if job.namespace.collection == "a" and behind_the_first:
            raise DefiniteError("the disk is on fire")

    reads.before = broken
    with lab.running() as engine:
        failed = engine.wait(engine.execute_snapshot(*map(lab.name, names), request_id="q"), SECONDS)
        done, not_done = TaskState.DONE, TaskState.FAILED
        assert [task.state for task in failed.tasks] == [not_done, done, done]
        assert "on fire" in (failed.tasks[0].error or "")
        later = engine.wait(engine.execute_snapshot(lab.name("c"), lab.name("b")), SECONDS)
        assert [(task.state, task.rows) for task in later.tasks] == [(done, 15), (done, 15)]
        lab.assert_equal("b", "c")
        reads.before = lambda number, job: None
        engine.resume("q")
        assert [task.state for task in engine.wait("q", SECONDS).tasks] == [done, done, done]
    assert {row["of"] for row in lab.rows("a")} == {"a"}
    lab.assert_equal(*names)


@pytest.mark.parametrize("strategy", rest_thorough(STRATEGIES[:2], ["insert_insert"]))
def test_the_signal_collection_is_dropped_in_a_window(lab: Lab, reads: Reads, strategy: str) -> None:
    """Its open documents go without an event of their own: the backfill ends well all the same, changes made meanwhile
    are there, and signals that come afterwards are handled."""
    lab.with_options(strategy, snapshot__mode="no_data")
    lab.tune = limits(5, 4, commit_rows_target=1_000)
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": 0} for n in range(15)])

    def drop(number: int, *read: object) -> None:
        if number == 0:
            lab.signals.drop()
            orders.update_one({"_id": 3}, {"$set": {"v": 1}})
            orders.delete_one({"_id": 4})

    reads.after = drop
    with lab.running() as engine:
        run = engine.engine.run_state
        task = engine.wait(engine.execute_snapshot(lab.name("orders")), SECONDS).tasks[0]
        assert (task.state, task.error) == (TaskState.DONE, None)
        lab.signal("execute-snapshot", "later", data__collections=[lab.name("orders")])
        assert engine.wait("later", SECONDS).tasks[0].rows == 14
        assert engine.engine.run_state is run, "no restart"
    lab.assert_equal("orders")
