"""Updates without their documents: many at a time, and more than can be read one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pymongo import UpdateOne

from snapshotter.core.values.chunks import KeyList
from snapshotter.core.values.limits import Limits
from tests.support.engines import SECONDS, Lab, Reads, lab, quiet_rereads, reads

__all__ = ["lab", "reads"]

pytestmark = pytest.mark.guard


def test_many_updates_without_documents_are_kept_up_with(lab: Lab, reads: Reads) -> None:
    """Several windows of ids are in flight at a time. Of more ids than are kept the collection is read, once, and the
    list stays short however many updates come; changes that come meanwhile are not lost."""
    lab.with_options(snapshot__mode="initial", capture__mode="change_streams")
    lab.tune = lambda config: replace(config, limits=Limits(reread_ids=50, reread_windows=3, rereads_max=400))
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": 0} for n in range(1_000)])
    waiting: list[int] = []
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        engine.catch_up(SECONDS)
        run = engine.engine.run_state
        assert run is not None
        reads.before = lambda number, job: waiting.append(len(run.progress.rereads))
        first = len(reads.jobs)
        orders.update_many({"_id": {"$lt": 300}}, {"$set": {"v": 1}})
        engine.catch_up(SECONDS)
        quiet_rereads(engine)
        lists = [job.ranges for job in reads.jobs[first:] if isinstance(job.ranges[0].target, KeyList)]
        assert sum(map(len, lists)) >= 6
        assert max(map(len, lists)) > 1, "windows of one collection share a job"
        assert not [r for r in run.standing().requests if r.id.startswith("reread/")]
        lab.assert_equal("orders")
        orders.bulk_write([UpdateOne({"_id": n}, {"$set": {"v": 2}}) for n in range(900)])
        orders.delete_many({"_id": {"$gte": 990}})
        engine.catch_up(SECONDS)
        (whole,) = [r for r in run.standing().requests if r.id.startswith("reread/")]
        orders.update_many({"_id": {"$lt": 20}}, {"$set": {"v": 3}})
        assert not engine.wait(whole.id, SECONDS).failed
        engine.catch_up(SECONDS)
        quiet_rereads(engine)
    assert max(waiting) <= 400
    lab.assert_equal("orders")
    lab.assert_one_commit_a_batch("orders")
