"""A first load's tables are made while the stream brings its first batch, and nothing hangs on that."""

from __future__ import annotations

from typing import Any

import pytest
from deltalake import DeltaTable

from snapshotter.engine.run import Run
from snapshotter.testing.processes import wait_until
from streaming.delta.new_files import trial_name
from streaming.delta.state_table import StateTable
from tests.support.engines import SECONDS, Lab, lab

__all__ = ["lab"]


def test_the_table_is_there_before_the_first_batch(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of collections that hold a document; that of an empty one is left to its first row."""
    foreach_batch, empty_had_one = Run.foreach_batch, []

    def late(run: Run, frame: Any, batch_id: int) -> None:
        if batch_id == 0:
            wait_until(lambda: DeltaTable.is_deltatable(str(lab.table("orders"))), "the table")
            empty_had_one.append(lab.table("people").exists())
        foreach_batch(run, frame, batch_id)

    monkeypatch.setattr(Run, "foreach_batch", late)
    lab.collection("people").insert_one({"_id": 1})
    lab.collection("people").delete_one({"_id": 1})
    lab.collection("orders").insert_many([{"_id": n, "n": n} for n in range(5)])
    with lab.with_options("cluster_time", snapshot__mode="initial").running() as engine:
        engine.wait("initial", SECONDS)
        assert empty_had_one == [False]
        lab.assert_equal("orders")


def test_a_table_that_is_there_is_looked_into_before_the_first_batch(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the next start, which has Delta's list of its files by then: what a killed run has left there is gone."""
    lab.collection("orders").insert_many([{"_id": n, "n": n} for n in range(5)])
    lab.with_options("cluster_time", snapshot__mode="initial")
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
    left = lab.table("orders") / trial_name()
    left.write_bytes(b"of a run that was killed")
    foreach_batch, there = Run.foreach_batch, [True]

    def late(run: Run, frame: Any, batch_id: int) -> None:
        if there[-1]:
            wait_until(lambda: not left.exists(), "the table to be looked into")
            there.append(left.exists())
        foreach_batch(run, frame, batch_id)

    monkeypatch.setattr(Run, "foreach_batch", late)
    lab.collection("orders").insert_one({"_id": 5, "n": 5})
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        lab.assert_equal("orders")
    assert there == [True, False]


def test_a_table_that_cannot_be_made_ahead_is_made_when_it_is_read(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What went wrong then is no failure of anything."""
    create, failed = StateTable.create, []

    def once(table: StateTable, *arguments: Any) -> None:
        if not failed:
            failed.append(table.path)
            raise OSError("no space left for this test")
        create(table, *arguments)

    monkeypatch.setattr(StateTable, "create", once)
    lab.collection("orders").insert_many([{"_id": n, "n": n} for n in range(5)])
    with lab.with_options("cluster_time", snapshot__mode="initial").running() as engine:
        engine.wait("initial", SECONDS)
        assert failed == [str(lab.table("orders"))]
        lab.assert_equal("orders")
        assert lab.status().error is None
