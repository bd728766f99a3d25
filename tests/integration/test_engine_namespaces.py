"""Collections that are dropped, renamed or replaced under an engine: their tables follow, in whole commits."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from snapshotter.api import Snapshotter
from snapshotter.core.values.progress import RequestProgress
from snapshotter.core.values.requests import Origin
from snapshotter.landing.targets import state_tables
from snapshotter.landing.targets.target import LandedCollection
from snapshotter.reading.watermarks import InsertedWatermarks
from tests.support.engines import SECONDS, Lab, Reads, lab, limits, reads

__all__ = ["lab", "reads"]


def fill(lab: Lab, content: str, *names: str, ids: range = range(4)) -> None:
    for name in names:
        lab.collection(name).insert_many([{"_id": n, "from": content} for n in ids])


def rename(lab: Lab, name: str, to: str, *, over: bool = False) -> None:
    lab.collection(name).rename(to, dropTarget=over)


def settle(engine: Snapshotter) -> list[RequestProgress]:
    """Until all that has happened is landed and all that it calls for is read; the requests that renames made."""
    engine.catch_up(SECONDS)
    run = engine.engine.run_state
    assert run is not None
    engine.until("everything asked for to end", lambda: run.machine.finished, SECONDS)
    return [request for request in run.progress.requests if request.origin is Origin.RENAME]


def read_by(requests: list[RequestProgress]) -> list[str]:
    assert not any(request.failed for request in requests)
    return sorted(task.namespace.collection for request in requests for task in request.tasks)


def fail_once(patch: pytest.MonkeyPatch, collection: str) -> list[int]:
    """The landing of a truncated collection fails just before its commit, the first time; the batches where it did."""
    real, failed = state_tables.land_table, []

    def land_table(spark: Any, opened: Any, batch: Any, identity: Any, **how: Any) -> LandedCollection:
        if batch.truncated and batch.namespace.collection == collection and not failed:
            failed.append(identity.batch_id)
            raise AutoReconnect("the network, just before the commit")
        return real(spark, opened, batch, identity, **how)

    patch.setattr(state_tables, "land_table", land_table)
    return failed


def test_tables_follow_drops_and_renames_within_one_batch(
    lab: Lab, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it happens while the engine is stopped, so that one batch shows it: a drop empties the table, what is made
    again under the same ids stays, and what a rename or ``$out`` brings is read by a request of its own. Collections
    of the server's own, and one that came and went, get no table.

    The batch fails when all tables but one have committed. In the repetition they are left alone, and each request
    still runs once.
    """
    lab.with_options(
        "cluster_time",
        snapshot__mode="no_data",
        collection__exclude__list=rf"{lab.database}\.hidden",
        retriable__restart__connector__wait__ms=1,
    )
    there = ("gone", "again", "old", "result")
    with lab.running() as engine:
        fill(lab, "before", *there, "hidden")
        engine.catch_up(SECONDS)
    lab.assert_equal(*there)

    lab.collection("gone").drop()
    lab.collection("again").update_one({"_id": 1}, {"$set": {"from": "just before"}})
    lab.collection("again").drop()
    fill(lab, "again", "again", ids=range(1, 3))
    rename(lab, "old", "new")
    lab.collection("new").update_one({"_id": 3}, {"$set": {"more": True}})
    lab.collection("hidden").aggregate([{"$match": {"_id": {"$gt": 1}}}, {"$out": "result"}])
    rename(lab, "hidden", "shown")
    fill(lab, "brief", "brief")
    lab.collection("brief").drop()
    failed = fail_once(monkeypatch, "again")
    with lab.running() as engine:
        engine.until("the batch to fail", lambda: failed, SECONDS)
        requests = settle(engine)
        started = [a.request_id for a in engine.engine.announcer.announced if a.kind == "STARTED"]
    assert read_by(requests) == ["new", "result", "shown"]
    assert sorted(started) == sorted(request.id for request in requests)
    assert sorted(job.namespace.collection for job in reads.jobs) == read_by(requests)
    tables = {path.name for path in lab.table("any").parent.iterdir()}
    assert tables == {*there, "new", "shown"}
    lab.assert_equal(*tables)
    for name in tables:
        lab.assert_one_commit_a_batch(name)
    for name in there:
        assert [mark["batch"] for mark in lab.commits(name)].count(failed[0]) == 1


def test_what_streamed_before_a_truncation_supersedes_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first load appends what it reads, unless an event put the key into the table since its window was registered.
    A collection that is replaced meanwhile has left no row there."""
    ready, go = threading.Event(), threading.Event()
    real = InsertedWatermarks.low

    def low(writer: InsertedWatermarks, windows: Any) -> Any:
        ready.set()
        assert go.wait(SECONDS)
        return real(writer, windows)

    monkeypatch.setattr(InsertedWatermarks, "low", low)
    lab.with_options(snapshot__mode="initial", collection__exclude__list=rf"{lab.database}\.draft")
    fill(lab, "before", "orders")
    fill(lab, "draft", "draft")
    with lab.running() as engine:
        assert ready.wait(SECONDS)
        lab.collection("orders").update_one({"_id": 1}, {"$set": {"more": True}})
        engine.catch_up(SECONDS)
        assert [row["_id"] for row in lab.rows("orders")] == [1]
        rename(lab, "draft", "orders", over=True)
        engine.catch_up(SECONDS)
        go.set()
        (task,) = engine.wait("initial", SECONDS).tasks
        assert (task.rows, task.superseded) == (4, 0)
        settle(engine)
    lab.assert_equal("orders")


@pytest.mark.thorough
def test_tables_follow_while_they_are_read(lab: Lab, reads: Reads) -> None:
    """A collection is dropped, made again, or replaced in the middle of its backfill: what windows read before is
    superseded, the request ends, and the table is the collection. ``$out`` while the engine runs replaces the table."""
    lab.with_options(snapshot__mode="no_data")
    lab.tune = limits(chunk_docs=4, windows=2, commit_rows_target=1_000)
    names = ("dropped", "again", "replaced")
    fill(lab, "before", *names, ids=range(12))
    fill(lab, "draft", "draft", ids=range(9, 14))
    struck: list[str] = []

    def strike(name: str, *when: str) -> None:
        if name not in when or name in struck:
            return
        struck.append(name)
        if name == "replaced":
            rename(lab, "draft", "replaced", over=True)
        else:
            lab.collection(name).drop()
        if name == "again":
            fill(lab, "again", "again", ids=range(3, 10))

    reads.before = lambda number, job: strike(job.namespace.collection, "again")
    reads.after = lambda number, job, buffer: strike(job.namespace.collection, "dropped", "replaced")
    with lab.running() as engine:
        request = engine.wait(engine.execute_snapshot(*map(lab.name, names)), SECONDS)
        assert [(task.namespace.collection, task.error) for task in request.tasks] == [
            (name, None) for name in names
        ]
        assert read_by(settle(engine)) == ["replaced"]
        assert sorted(struck) == sorted(names)
        assert request.tasks[0].superseded > 0
        lab.assert_equal(*names, "draft")
        lab.collection("again").aggregate([{"$match": {"_id": 7}}, {"$out": "again"}])
        assert read_by(settle(engine)) == ["again", "replaced"]
    lab.assert_equal(*names)
    assert [row["_id"] for row in lab.rows("again")] == [7]
    for name in names:
        lab.assert_one_commit_a_batch(name)
