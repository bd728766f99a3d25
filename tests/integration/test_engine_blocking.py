"""Blocking snapshots on real parts: the stream waits, collections are read as of one moment, the stream goes on."""

from __future__ import annotations

import threading

import pytest

from snapshotter.api import Snapshotter
from snapshotter.core.values.tasks import TaskState
from snapshotter.engine.source_pacing import HOLD_SECONDS
from snapshotter.errors import DefiniteError
from snapshotter.reading.chunk_reader import ReadJob
from snapshotter.reporting.status import RequestState, Status
from streaming.namespaces import Namespace
from tests.support.engines import SECONDS, Lab, Reads, lab, limits, reads
from tests.support.tables import rows

__all__ = ["lab", "reads"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]  # every chunk of a backfill waits for batches
DOCUMENTS = 12


def prepared(lab: Lab, strategy: str = "insert_insert", mode: str = "no_data", **options: object) -> Lab:
    """Two collections that a snapshot reads in four chunks each."""
    lab.with_options(strategy, snapshot__mode=mode, **options)
    for name in ("orders", "people"):
        lab.collection(name).insert_many([{"_id": n, "total": n} for n in range(DOCUMENTS)])
    lab.tune = limits(3, 2)
    return lab


def kinds(engine: Snapshotter, request: str) -> list[str]:
    return [a.kind for a in engine.engine.announcer.announced if a.request_id == request]


def test_a_blocking_snapshot_reads_while_the_stream_waits(lab: Lab, reads: Reads) -> None:
    """Asked for in the signal collection. Both collections are read whole, side by side, as of the position at which
    the stream stands; a change that comes meanwhile lands after all of it, and nothing of our own is written beside
    the signals."""
    prepared(lab)
    lab.tune = limits(3, 6)  # four chunks of one collection leave room for another
    found: dict[str, int] = {}
    begun: set[Namespace] = set()
    side_by_side = threading.Event()

    def told() -> Status:
        return Status.from_json((lab.state / "status.json").read_text())

    def events() -> int:
        return told().events_total

    def change(number: int, job: ReadJob) -> None:
        if number == 0:
            lab.collection("orders").update_one({"_id": 11}, {"$set": {"total": -1}})
            lab.collection("orders").insert_one({"_id": 100})
            found["signals"] = lab.signals.count_documents({})
            found["events"] = events()
        is_first = job.namespace not in begun
        begun.add(job.namespace)
        if len(begun) == 2:
            side_by_side.set()
        elif is_first:
            found["side by side"] = side_by_side.wait(SECONDS)

    reads.before = change
    with lab.running() as engine:
        lab.signals.insert_one(
            {
                "_id": "b",
                "type": "execute-snapshot",
                "data": {"data-collections": [lab.name(".*")], "type": "BLOCKING"},
            }
        )
        done = engine.wait("b", SECONDS)
        assert [t.state for t in done.tasks] == [TaskState.DONE] * 2
        assert found["side by side"], "the second collection was read after the first"
        assert all(part.exact for job in reads.jobs for part in job.ranges)
        assert found["signals"] == 1
        assert kinds(engine, "b")[-1] == "COMPLETED"
        engine.catch_up(SECONDS)
        engine.until("the changes to be counted", lambda: events() >= found["events"] + 2, SECONDS)
        status = told().request("b")
        assert status is not None
        assert (status.type, status.state) == ("blocking", RequestState.COMPLETED)
    lab.assert_equal("orders", "people")
    assert all(r["_op"] == "r" for r in rows(lab.table("people")))


def test_incremental_requests_rest_meanwhile(lab: Lab, reads: Reads) -> None:
    """One that is under way lands what it has in flight, and goes on when the blocking one has ended."""
    prepared(lab, "cluster_time")
    ready, go = threading.Event(), threading.Event()

    def before(number: int, job: ReadJob) -> None:
        if number == 1:
            ready.set()
            assert go.wait(SECONDS)

    reads.before = before
    with lab.running() as engine:
        engine.execute_snapshot(lab.name("orders"), request_id="slow")
        assert ready.wait(SECONDS)
        engine.execute_snapshot(lab.name("people"), blocking=True, request_id="b")
        go.set()
        engine.wait("b", SECONDS)
        engine.wait("slow", SECONDS)
    kind = [part.exact for job in reads.jobs for part in job.ranges]
    first, last = kind.index(True), len(kind) - kind[::-1].index(True)
    assert kind[first:last] == [True] * 4, "nothing else is read beside it"
    assert kind[last:], "the other one goes on"
    lab.assert_equal("orders", "people")


def test_a_blocking_snapshot_goes_on_after_a_restart(lab: Lab, reads: Reads) -> None:
    """It fails in the middle, and the engine is started again: it goes on behind what has landed. No initial load
    begins once more, though the mode has one."""
    prepared(lab, "cluster_time", mode="initial")
    lab.tune = limits(4, 2)
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        first = len(reads.jobs)

        def broken(number: int, job: ReadJob) -> None:
            if number == first + 2:
                raise DefiniteError("the disk is on fire")

        reads.before = broken
        engine.execute_snapshot(lab.name("orders"), lab.name("people"), blocking=True, request_id="b")
        failed = engine.wait("b", SECONDS)
        assert TaskState.FAILED in {t.state for t in failed.tasks}
        lab.collection("people").delete_one({"_id": 5})
        engine.catch_up(SECONDS)
    landed = {t.namespace: t.chunks for t in failed.tasks}
    assert 0 < sum(landed.values()) < 6
    read = len(reads.jobs)
    with lab.running() as engine:
        engine.resume("b")
        done = engine.wait("b", SECONDS)
        assert [(t.state, t.chunks) for t in done.tasks] == [(TaskState.DONE, 3)] * 2
        assert len(reads.jobs) - read <= 6 - sum(landed.values())
        run = engine.engine.run_state
        assert run is not None
        assert {r.id for r in run.standing().requests} == {"initial", "b"}
        engine.catch_up(SECONDS)
    lab.assert_equal("orders", "people")


def test_a_stop_reaches_a_blocking_snapshot(lab: Lab, reads: Reads) -> None:
    """Inserted into the signal collection while the stream waits: long before the stream would go on by itself."""
    prepared(lab)
    ready, go = threading.Event(), threading.Event()

    def before(number: int, job: ReadJob) -> None:
        if number == 1:
            ready.set()
            assert go.wait(SECONDS)

    reads.before = before
    with lab.running() as engine:
        engine.execute_snapshot(lab.name("orders"), blocking=True, request_id="b")
        assert ready.wait(SECONDS)
        lab.signals.insert_one({"_id": "s", "type": "stop-snapshot", "data": {}})
        stopped = engine.wait("b", HOLD_SECONDS / 2)
        assert stopped.tasks[0].state is TaskState.STOPPED
        go.set()
        lab.collection("orders").insert_one({"_id": 100})
        engine.catch_up(SECONDS)
    assert 100 in {r["_id"] for r in rows(lab.table("orders"))}


@pytest.mark.thorough
def test_blocking_snapshots_one_after_the_other_while_changes_come(lab: Lab, reads: Reads) -> None:
    """Three that are asked for at once, the last one with a filter, beside a stream that goes on: each is carried out
    alone, in its turn, and nothing is lost."""
    prepared(lab, "cluster_time")

    def change(number: int, job: ReadJob) -> None:
        lab.collection("orders").insert_one({"_id": 100 + number, "total": number})
        lab.collection("people").update_one({"_id": number % DOCUMENTS}, {"$inc": {"total": 100}})

    reads.before = change
    with lab.running() as engine:
        for name in ("one", "two"):
            engine.execute_snapshot(lab.name("orders"), lab.name("people"), blocking=True, request_id=name)
        few = {lab.name("people"): '{"_id": {"$lt": 5}}'}
        engine.execute_snapshot(lab.name("people"), filters=few, blocking=True, request_id="three")
        done = [engine.wait(name, SECONDS) for name in ("one", "two", "three")]
        engine.catch_up(SECONDS)
        ends = [a.request_id for a in engine.engine.announcer.announced if a.kind == "COMPLETED"]
    assert ends == ["one", "two", "three"]
    assert all(task.rows + task.superseded >= DOCUMENTS for request in done[:2] for task in request.tasks)
    assert [task.rows + task.superseded for task in done[2].tasks] == [5]
    lab.assert_equal("orders", "people")
