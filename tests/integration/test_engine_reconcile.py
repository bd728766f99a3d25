"""What a reconciling request mends on real parts: rows of documents that went while no engine followed the stream."""

from __future__ import annotations

import shutil

import pytest

from snapshotter.api import Snapshotter
from snapshotter.core.values.tasks import TaskProgress, TaskState
from tests.support.engines import SECONDS, Lab, Reads, lab, limits, reads

__all__ = ["lab", "reads"]

pytestmark = pytest.mark.guard


def ask(lab: Lab, engine: Snapshotter, name: str, **part: object) -> TaskProgress:
    """By a signal in the collection."""
    names = [lab.name("orders")]
    lab.signal("execute-snapshot", name, data__collections=names, reconcile=True, **part)
    (task,) = engine.wait(name, SECONDS).tasks
    assert (task.state, task.error) == (TaskState.DONE, None)
    return task


@pytest.mark.slow
def test_a_new_checkpoint_over_an_old_table_is_reconciled(lab: Lab, reads: Reads) -> None:
    """Documents deleted between two checkpoints leave their rows, at both ends of the table and in its middle: single
    ids, then a range, then all of it are reconciled, and nothing else goes, though documents come and go while windows
    read. In the end the table equals the collection."""
    lab.with_options("insert_insert", snapshot__mode="initial")
    lab.tune = limits(chunk_docs=4, windows=2)
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": 0} for n in range(20)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        engine.catch_up(SECONDS)
    orders.delete_many({"_id": {"$in": [0, 1, 5, 9, 10, 18, 19]}})
    shutil.rmtree(lab.state)
    lab.options |= {"snapshot.mode": "no_data", "engine.position.start": "now"}

    def after(number: int, *read: object) -> None:
        orders.insert_one({"_id": 100 + number, "v": 1})
        orders.delete_one({"_id": 12})

    with lab.running() as engine:
        engine.catch_up(SECONDS)
        assert len(lab.rows("orders")) == 20
        keys = ask(lab, engine, "keys", keys=[5, 6, 77])
        assert (keys.rows, keys.deleted) == (1, 1)
        part = ask(lab, engine, "part", range={"min": 9, "max": 11})
        assert (part.rows, part.deleted) == (1, 2)
        assert {0, 1, 18, 19} <= {row["_id"] for row in lab.rows("orders")}
        reads.after = after
        whole = ask(lab, engine, "whole")
        assert whole.deleted == 4
        engine.catch_up(SECONDS)
    lab.assert_equal("orders")
    lab.assert_one_commit_a_batch("orders")
