"""Pause, resume and stop on real parts: what operators decide about a backfill holds, whatever is restarted."""

from __future__ import annotations

import threading
from typing import Any

import bson
import pytest
from pymongo.errors import AutoReconnect

from signals.actions import ExecuteSnapshot
from snapshotter.api import Snapshotter
from snapshotter.core.values.chunks import Bound, KeyRange
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import SnapshotRequest, Wanted
from snapshotter.core.values.tasks import TaskState
from snapshotter.errors import DefiniteError
from snapshotter.reading.catalogue import IdReused
from snapshotter.reading.chunk_reader import ReadJob
from snapshotter.reading.range_find import bound_of
from snapshotter.reporting.status import RequestState, Status
from snapshotter.state.progress_store import ProgressStore
from tests.support.engines import SECONDS, Lab, Reads, lab, limits, reads

__all__ = ["lab", "reads"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]  # every chunk of a backfill waits for batches
DOCUMENTS = 18


def prepared(lab: Lab, strategy: str = "insert_insert") -> Lab:
    """A collection that a backfill reads in six chunks, one at a time."""
    lab.with_options(strategy, snapshot__mode="no_data")
    lab.collection("orders").insert_many([{"_id": n, "total": n} for n in range(DOCUMENTS)])
    lab.tune = limits(3, 1)
    return lab


def signal(lab: Lab, kind: str, name: str, **data: object) -> None:
    lab.signals.insert_one({"_id": name, "type": kind, "data": data})


def request_of(engine: Snapshotter, name: str) -> RequestProgress:
    run = engine.engine.run_state
    assert run is not None
    return next(r for r in run.standing().requests if r.id == name)


def saved(engine: Snapshotter, name: str) -> RequestProgress | None:
    newest = engine.engine.store.newest()
    return newest.request(name) if newest is not None else None


def once(ready: threading.Event, go: threading.Event, at: int) -> Any:
    """Before the ``at``-th chunk is read, say so and wait."""

    def before(number: int, job: ReadJob) -> None:
        if number == at:
            ready.set()
            assert go.wait(SECONDS)

    return before


def test_a_pause_survives_a_restart(lab: Lab, reads: Reads) -> None:
    """Paused in the middle of a backfill: the window in flight lands, the stream goes on, and after a restart nothing
    more is read until it is resumed; then it goes on behind what had landed. The pause delivered again is no pause."""
    prepared(lab)
    ready, go = threading.Event(), threading.Event()
    reads.before = once(ready, go, 3)
    with lab.running() as engine:
        engine.execute_snapshot(lab.name("orders"), request_id="q")
        assert ready.wait(SECONDS)
        signal(lab, "pause-snapshot", "p")
        engine.until("the pause", lambda: request_of(engine, "q").paused, SECONDS)
        go.set()
        engine.until("the window to land", lambda: request_of(engine, "q").tasks[0].chunks == 4, SECONDS)
        engine.until(
            "it to be told", lambda: "PAUSED" in [a.kind for a in engine.engine.announcer.announced], SECONDS
        )
    status = Status.from_json((lab.state / "status.json").read_text()).request("q")
    assert status is not None
    assert status.state is RequestState.PAUSED
    read = len(reads.jobs)
    with lab.running() as engine:
        lab.collection("orders").update_one({"_id": 17}, {"$set": {"total": -1}})
        engine.catch_up(SECONDS)
        assert len(reads.jobs) == read
        assert request_of(engine, "q").paused
        signal(lab, "resume-snapshot", "r")
        done = engine.wait("q", SECONDS)
        assert (done.tasks[0].state, done.tasks[0].chunks) == (TaskState.DONE, 6)
        assert len(reads.jobs) == read + 2
        told = [a.kind for a in engine.engine.announcer.announced]
        assert "RESUMED" in told
        assert "PAUSED" not in told
    lab.assert_equal("orders")


def test_a_stop_lands_nothing_more(lab: Lab, reads: Reads) -> None:
    """Stopped in the middle: the window that is being read is given up, what has landed stays, and what waits in the
    queue never begins. The stream goes on, and a request that comes later is carried out."""
    prepared(lab, "cluster_time")
    ready, go = threading.Event(), threading.Event()
    reads.before = once(ready, go, 3)
    with lab.running() as engine:
        engine.execute_snapshot(lab.name("orders"), request_id="q")
        engine.execute_snapshot(lab.name("orders"), request_id="queued")
        assert ready.wait(SECONDS)
        engine.stop_snapshot()
        # What was being landed at that moment lands: the next window is read meanwhile.
        run = engine.engine.run_state
        assert run is not None
        engine.until("what was landing to land", lambda: run.machine.landing is None, SECONDS)
        rows = len(lab.rows("orders"))
        stopped = engine.wait("q", SECONDS)
        assert stopped.tasks[0].state is TaskState.STOPPED
        assert engine.wait("queued", SECONDS).tasks[0].state is TaskState.STOPPED
        go.set()
        engine.until(
            "the stop to be saved", lambda: (saved(engine, "q") or stopped).ended_in is not None, SECONDS
        )
        lab.collection("orders").insert_one({"_id": 100})
        engine.catch_up(SECONDS)
        assert len(lab.rows("orders")) == rows + 1
        assert len(reads.jobs) == 4
        told = [a.kind for a in engine.engine.announcer.announced if a.request_id == "q"]
        assert told[-2:] == ["ABORTED", "STOPPED"]
        assert "COMPLETED" not in told
        engine.wait(engine.execute_snapshot(lab.name("orders")), SECONDS)
    lab.assert_equal("orders")


def test_a_failed_request_goes_on_where_it_stopped(lab: Lab, reads: Reads) -> None:
    """A chunk that cannot be read while the source is away is read again; one that can never be read fails the request,
    with its reason, and the status says what to do. Resumed by name, after a restart, it reads what had not landed, and
    nothing twice."""
    prepared(lab, "cluster_time")

    def broken(number: int, job: ReadJob) -> None:
        if number in (1, 2):
            raise AutoReconnect("the source is away")
        if number >= 6:
            raise DefiniteError("the disk is on fire")

    reads.before = broken
    with lab.running() as engine:
        failed = engine.wait(engine.execute_snapshot(lab.name("orders"), request_id="q"), SECONDS)
        # The chunk before it may have been landing: its rows are there then, but the frontier stays before it.
        assert failed.tasks[0].state is TaskState.FAILED
        assert failed.tasks[0].chunks in (3, 4)
        assert "on fire" in (failed.tasks[0].error or "")
    status = Status.from_json((lab.state / "status.json").read_text()).request("q")
    assert status is not None
    assert "resume-snapshot for request q" in (status.next_step or "")
    reads.before = lambda number, job: None
    read = len(reads.jobs)
    with lab.running() as engine:
        engine.resume("q")
        done = engine.wait("q", SECONDS)
        assert (done.tasks[0].state, done.tasks[0].chunks, done.tasks[0].error) == (TaskState.DONE, 6, None)
        assert len(reads.jobs) == read + 6 - failed.tasks[0].chunks
    lab.assert_equal("orders")


def test_a_chunk_that_can_never_be_read_fails_its_request_alone(lab: Lab, reads: Reads) -> None:
    """An error that nobody knows is tried again, five times in all; then that request has failed, with its reason, and
    what stands behind it in the queue is carried out. Resumed, it is read whole."""
    prepared(lab, "cluster_time")
    lab.collection("people").insert_one({"_id": 1})

    def odd(number: int, job: ReadJob) -> None:
        if job.namespace == lab.namespace("orders"):
            raise RuntimeError("the reader is out of order")

    reads.before = odd
    with lab.running() as engine:
        for name in ("orders", "people"):
            engine.execute_snapshot(lab.name(name), request_id=name)
        assert engine.wait("people", SECONDS).tasks[0].state is TaskState.DONE
        (failed,) = engine.wait("orders", SECONDS).tasks
        assert (failed.state, failed.chunks) == (TaskState.FAILED, 0)
        assert "the reader is out of order" in (failed.error or "")
        assert sum(job.namespace == lab.namespace("orders") for job in reads.jobs) == 5
        reads.before = lambda number, job: None
        engine.resume("orders")
        (done,) = engine.wait("orders", SECONDS).tasks
        assert (done.state, done.rows, done.error) == (TaskState.DONE, DOCUMENTS, None)
    lab.assert_equal("orders", "people")


def test_a_stop_in_the_pause_behind_an_error(lab: Lab, reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is judged by what is saved, for the next run knows no more: a request that has failed in the run that broke
    off is one that goes on there, so it is stopped. The status says all the time what is wrong."""
    prepared(lab, "cluster_time")

    def on_fire(number: int, job: ReadJob) -> None:
        raise DefiniteError("the disk is on fire")

    reads.before = on_fire
    save = ProgressStore.save

    def away(store: ProgressStore, progress: Progress) -> None:
        if any(request.failed for request in progress.requests):
            raise AutoReconnect("the storage is away")
        save(store, progress)

    monkeypatch.setattr(ProgressStore, "save", away)
    made = lab.engine()
    idle, errors = made.engine._idle, []

    def pause(seconds: float, failure: Exception | None = None) -> None:
        for _ in range(2):
            idle(1.1, failure)
            errors.append(Status.from_json((lab.state / "status.json").read_text()).error)
        monkeypatch.setattr(ProgressStore, "save", save)
        reads.before = lambda number, job: None
        made.stop_snapshot()

    monkeypatch.setattr(made.engine, "_idle", pause)
    with made:
        (task,) = made.wait(made.execute_snapshot(lab.name("orders"), request_id="q"), SECONDS).tasks
        assert (task.state, task.error) == (TaskState.STOPPED, None)
    assert lab.rows("orders") == []
    assert [error is not None and "the storage is away" in error.message for error in errors] == [True, True]


def test_an_id_means_one_thing(lab: Lab) -> None:
    """The same signal again is known; another content under its id is refused, and said. A pause that meets nothing and
    a log message do no harm."""
    prepared(lab, "cluster_time")
    lab.tune = limits(DOCUMENTS, 1)
    people = lab.name("people")
    lab.collection("people").insert_one({"_id": 1})
    with lab.running() as engine:
        signal_again = ExecuteSnapshot("q", (lab.name("orders"),))
        for _ in range(2):
            engine.engine.execute_snapshot(signal_again)
        assert engine.wait("q", SECONDS).tasks[0].rows == DOCUMENTS
        engine.engine.execute_snapshot(signal_again)
        with pytest.raises(IdReused, match=r"'q'.*says something else"):
            engine.execute_snapshot(people, request_id="q")
        with pytest.raises(IdReused, match="'q'"):
            engine.pause(signal_id="q")
        engine.pause(signal_id="p")
        engine.pause(signal_id="p")
        assert engine.wait(engine.execute_snapshot(people), SECONDS).tasks[0].rows == 1
        assert [r.id for r in engine.engine.run_state.standing().requests][:1] == ["q"]  # type: ignore[union-attr]
    lab.assert_equal("orders", "people")


@pytest.mark.thorough
def test_single_ids_and_a_range(lab: Lab, reads: Reads) -> None:
    """Only they are read: ids that are there (one of them is not), and a range with both of its ends."""
    prepared(lab, "cluster_time")
    orders = lab.namespace("orders")

    def bound(number: int) -> Bound:
        return bound_of(bson.encode({"_id": number}))

    with lab.running() as engine:

        def ask(name: str, part: Wanted) -> RequestProgress:
            request = SnapshotRequest(name, (part,))
            run = engine.engine.run_state
            assert run is not None
            run.take((request,), engine.engine.journal.controls)
            return engine.wait(name, SECONDS)

        keys = ask("keys", Wanted(orders, keys=tuple(map(bound, (7, 999, 3)))))
        assert (keys.tasks[0].state, keys.tasks[0].rows) == (TaskState.DONE, 2)
        assert sorted(row["_id"] for row in lab.rows("orders")) == [3, 7]
        part = ask("range", Wanted(orders, range=KeyRange(bound(10), bound(16), closed=True)))
        assert (part.tasks[0].rows, part.tasks[0].chunks) == (7, 3)
        assert sorted(row["_id"] for row in lab.rows("orders")) == [3, 7, *range(10, 17)]
        nothing = ask("nothing", Wanted(orders, range=KeyRange(bound(500), None, closed=True)))
        assert (nothing.tasks[0].state, nothing.tasks[0].rows) == (TaskState.DONE, 0)
        whole = ask("the rest", Wanted(orders, range=KeyRange(None, bound(9))))
        assert whole.tasks[0].rows == 10
        ask("more", Wanted(orders, range=KeyRange(bound(17), None, closed=True), reconcile=True))
    lab.assert_equal("orders")
