"""What a first start reads, and how a load that was stopped goes on."""

from __future__ import annotations

import shutil
import threading

from structlog.testing import capture_logs

from snapshotter.core.values.effects import Announce
from tests.support.engines import SECONDS, Lab, Reads, lab, limits, reads
from tests.support.ids import fill_with_twenty

__all__ = ["lab", "reads"]


def test_initial_reads_everything_captured(lab: Lab) -> None:
    """A first start reads all captured collections as one request; one that is empty has ended at once, the signal
    collection is not read, and changes follow. It is told as the initial snapshot that it is."""
    lab.with_options(snapshot__mode="initial", notification__enabled__channels="log")
    fill_with_twenty(lab.collection("twenty"))
    lab.collection("orders").insert_many([{"_id": n, "lines": [{"n": n}]} for n in range(50)])
    lab.client[lab.database].create_collection("empty")
    lab.client[lab.database].create_collection("signals")
    with capture_logs() as logs, lab.running() as engine:
        request = engine.wait("initial", SECONDS)
        assert [task.namespace.collection for task in request.tasks] == ["empty", "orders", "twenty"]
        assert [(task.rows, task.error) for task in request.tasks] == [(0, None), (50, None), (20, None)]
        lab.collection("orders").update_one({"_id": 7}, {"$set": {"paid": True}})
        lab.collection("empty").insert_one({"_id": "first"})
        engine.catch_up(SECONDS)
    lab.assert_equal("orders", "twenty", "empty")
    assert not lab.table("signals").exists()
    told = [log for log in logs if log["event"] == "notification"]
    assert {log["aggregate_type"] for log in told} == {"Initial Snapshot"}
    assert [told[0]["type"], told[-1]["type"]] == ["STARTED", "COMPLETED"]
    read = ["IN_PROGRESS", "TABLE_SCAN_COMPLETED"]
    for name, expected in (("orders", read), ("twenty", read), ("empty", read[1:])):
        mine = [log["type"] for log in told[1:-1] if lab.name(name) in log.values()]
        assert list(dict.fromkeys(mine)) == expected, name
        assert mine[-1:] == expected[-1:], name
    assert sum(log["type"] == "TABLE_SCAN_COMPLETED" for log in told) == 3


def test_initial_is_narrowed_and_no_data_reads_nothing(lab: Lab, reads: Reads) -> None:
    """``snapshot.include.collection.list`` narrows the load, not the stream; with ``no_data`` there is no load."""
    lab.with_options(
        "cluster_time",
        snapshot__mode="initial",
        snapshot__include__collection__list=rf"{lab.database}\.orders",
    )
    for name in ("orders", "people"):
        lab.collection(name).insert_many([{"_id": n} for n in range(3)])
    with lab.running() as engine:
        assert [t.namespace.collection for t in engine.wait("initial", SECONDS).tasks] == ["orders"]
        lab.collection("people").insert_one({"_id": 9})
        engine.catch_up(SECONDS)
    assert {job.namespace.collection for job in reads.jobs} == {"orders"}
    assert [row["_id"] for row in lab.rows("people")] == [9]
    lab.assert_equal("orders")

    shutil.rmtree(lab.state)
    lab.options |= {"snapshot.mode": "no_data", "engine.position.start": "now"}
    del lab.options["snapshot.include.collection.list"]
    count = len(reads.jobs)
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        assert engine.engine.journal.requests == ()
    assert len(reads.jobs) == count


def test_a_load_that_was_stopped_goes_on_at_the_first_unfinished_chunk(lab: Lab, reads: Reads) -> None:
    """After a clean stop in the middle no chunk is read twice, and changes made meanwhile are there, within what had
    landed and beyond it."""
    lab.with_options(snapshot__mode="initial", signal__data__collection=f"{lab.database}.signals")
    lab.tune = limits(chunk_docs=10, windows=2)
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": 0} for n in range(100)])
    landed = threading.Event()

    def listen(announcement: Announce) -> None:
        if announcement.kind == "IN_PROGRESS":
            landed.set()

    engine = lab.engine()
    engine.engine.announcer.listeners.append(listen)
    engine.start()
    engine.until("the first chunk", landed.is_set, SECONDS)
    engine.stop()
    run = engine.engine.run_state
    assert run is not None
    (task,) = run.progress.requests[0].tasks
    assert 0 < task.chunks < 10
    assert len(reads.targets()) == task.chunks, "a clean stop lands what it has read"

    orders.update_many({"_id": {"$in": [0, 5, 95]}}, {"$set": {"v": 1}})
    orders.delete_many({"_id": {"$in": [1, 96]}})
    orders.insert_many([{"_id": n, "v": 1} for n in (-1, 50.5, 1000)])
    with lab.running() as engine:
        (task,) = engine.wait("initial", SECONDS).tasks
        engine.catch_up(SECONDS)
    targets = reads.targets()
    assert len(targets) == len(set(targets)) == task.chunks
    assert [t.after.key for t in targets[1:]] == [t.upto.key for t in targets[:-1]], (
        "chunks join without a gap"
    )
    lab.assert_equal("orders")
    lab.assert_one_commit_a_batch("orders")
