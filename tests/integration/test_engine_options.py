"""Options of the engine that no other test looks at, each by what it changes on real parts."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from snapshotter.core.values.tasks import TaskState
from snapshotter.engine.run import Run
from snapshotter.landing.targets import state_tables
from tests.support.engines import SECONDS, Lab, Reads, lab, reads

__all__ = ["lab", "reads"]

pytestmark = pytest.mark.guard


def test_sizes_of_windows_and_commits(lab: Lab, reads: Reads) -> None:
    """``incremental.snapshot.chunk.size`` is exact, ``engine.windows.in.flight`` windows are open at a time, and
    ``engine.commit.target.rows`` rows land together: here windows of seven, three of them read before any has landed,
    in commits of one."""
    lab.with_options(
        "cluster_time",
        snapshot__mode="no_data",
        incremental__snapshot__chunk__size=7,
        engine__windows__in__flight=3,
        engine__commit__target__rows=1,
    )
    lab.collection("orders").insert_many([{"_id": n} for n in range(20)])
    in_flight: list[int] = []

    with lab.running() as engine:
        run = engine.engine.run_state
        assert run is not None
        reads.before = lambda number, job: in_flight.append(len(run.windows))
        request = engine.execute_snapshot(lab.name("orders"))
        engine.wait(request, SECONDS)
        landed = engine.windows(request)
    assert [window.rows for window in landed] == [7, 7, 6]
    assert max(in_flight) == 3
    closed = [mark["metadata"]["windows"] for mark in lab.commits("orders")]
    assert [len(windows) for windows in closed if windows] == [1] * 3
    lab.assert_equal("orders")


def test_batches_do_not_follow_faster_than_asked(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """``engine.trigger.interval.ms``: changes that come one after the other land in batches that begin so far apart."""
    begun: list[float] = []
    foreach_batch = Run.foreach_batch

    def watched(run: Run, frame: Any, batch_id: int) -> None:
        begun.append(time.monotonic())
        foreach_batch(run, frame, batch_id)

    monkeypatch.setattr(Run, "foreach_batch", watched)
    lab.with_options("cluster_time", snapshot__mode="no_data", engine__trigger__interval__ms=3_000)
    with lab.running() as engine:
        for number in range(3):
            lab.collection("orders").insert_one({"_id": number})
            engine.catch_up(SECONDS)
    gaps = [after - before for before, after in pairwise(begun[1:])]
    assert gaps
    assert all(gap > 2.5 for gap in gaps), gaps
    lab.assert_equal("orders")


def test_the_pause_before_a_retry_is_as_long_as_asked(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """``retriable.restart.connector.wait.ms``: each time, not only in the end; ``errors.max.retries`` bounds how
    often."""
    lab.with_options(
        "cluster_time",
        snapshot__mode="no_data",
        retriable__restart__connector__wait__ms=7_000,
        errors__max__retries=3,
    )
    pauses: list[float] = []
    engine = lab.engine()
    monkeypatch.setattr(engine.engine, "_idle", lambda seconds, failure=None: pauses.append(seconds))
    real, failures = state_tables.land_table, iter(range(3))

    def land_table(*arguments: Any, **named: Any) -> Any:
        if next(failures, None) is not None:
            raise AutoReconnect("the network is down")
        return real(*arguments, **named)

    monkeypatch.setattr(state_tables, "land_table", land_table)
    with engine:
        lab.collection("orders").insert_one({"_id": 1})
        engine.catch_up(SECONDS)
    assert pauses == [7.0] * 3
    lab.assert_equal("orders")


def test_a_configured_mode_reads_at_every_start(lab: Lab, reads: Reads) -> None:
    """``snapshot.mode.configuration.based.snapshot.data``: also where a position is known."""
    based = {
        "snapshot.mode": "configuration_based",
        "snapshot.mode.configuration.based.snapshot.data": True,
        "snapshot.mode.configuration.based.start.stream": True,
    }
    lab.with_options("cluster_time").options |= based
    lab.collection("orders").insert_many([{"_id": n} for n in range(5)])
    for name in ("initial", "initial-2"):
        with lab.running() as engine:
            assert engine.wait(name, SECONDS).tasks[0].state is TaskState.DONE
    assert len(reads.jobs) == 2
    lab.assert_equal("orders")


def test_an_engine_may_leave_no_status_behind(lab: Lab) -> None:
    """``engine.status.collection=false``: what becomes of a signal stays with the engine."""
    lab.with_options(snapshot__mode="no_data", engine__status__collection=False)
    lab.collection("orders").insert_one({"_id": 1})
    with lab.running() as engine:
        lab.signal("execute-snapshot", "asked", data__collections=[lab.name("orders")])
        engine.wait("asked", SECONDS)
    assert "signals_status" not in lab.client[lab.database].list_collection_names()
