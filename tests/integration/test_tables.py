"""The tables of an engine: who waits for whom."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import bson
import pytest
from pyspark.sql import SparkSession

from snapshotter.landing.tables import Tables
from snapshotter.landing.targets import state_tables
from snapshotter.landing.targets.target import LandedCollection
from snapshotter.testing.processes import wait_until
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.observe import observe
from streaming.layouts.columns.plan import TablePlan
from streaming.namespaces import Namespace
from tests.support.engines import SECONDS, Lab, lab

__all__ = ["lab"]

ORDERS = Namespace("shop", "orders")
_PATIENCE_S = 60


def test_a_landing_keeps_no_chunk_waiting_for_the_plan(spark: SparkSession, tmp_path: Path) -> None:
    """Also the one that makes the table: whoever asked meanwhile reads chunks as soon as it is made, while the landing
    is still under way. The collection is sampled once."""
    sampled: list[Namespace] = []
    asked: list[Future[TablePlan]] = []

    def sample(namespace: Namespace) -> TablePlan:
        sampled.append(namespace)
        asked.append(readers.submit(tables.plan, ORDERS))
        wait_until(asked[0].running, "the reader to ask")
        return observe(bson.encode({"_id": 1, "v": 1}))

    tables = Tables(spark, str(tmp_path), lambda: "snapshotter:test:1", COLUMNS, sample)
    with ThreadPoolExecutor(1) as readers, tables.landing(ORDERS) as opened:
        plans = [asked[0].result(_PATIENCE_S), opened.plan]
    assert plans == [opened.table.open()] * 2
    assert sampled == [ORDERS]
    assert tables.there() == [ORDERS]


def test_tables_are_found_by_their_names(spark: SparkSession, tmp_path: Path) -> None:
    """Wherever the warehouse is: its path is no pattern. What else lies there, nobody takes for a table."""
    for folder in ("plain", "wh {x} [y]", "a*", "q?", "{a,b}", "a,b", "back\\slash", "100%25"):
        warehouse = tmp_path / folder
        tables = Tables(spark, str(warehouse), lambda: "snapshotter:test:1", COLUMNS, lambda _: TablePlan())
        assert tables.there() == []
        (warehouse / "state" / "shop" / "orders").mkdir(parents=True)
        assert tables.there() == [ORDERS], folder
    for stray in ("tmp dir/x", "shop/~zz", "shop/lost+found", "_temporary/0"):
        (warehouse / "state" / stray).mkdir(parents=True)
    (warehouse / "state" / "notes.txt").touch()
    (warehouse / "state" / "shop" / "notes").touch()
    assert tables.there() == [ORDERS]


def test_the_tables_of_a_batch_land_side_by_side(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each landing of a batch that touches three tables begins before any of them has ended: they wait for each other
    here."""
    names = ("orders", "people", "stock")
    lab.with_options("cluster_time", snapshot__mode="no_data")
    with lab.running() as engine:
        engine.catch_up(SECONDS)
    for name in names:
        lab.collection(name).insert_many([{"_id": n} for n in range(3)])
    real, together = state_tables.land_table, Barrier(len(names), timeout=_PATIENCE_S)
    met: list[int] = []

    def land_table(spark: Any, opened: Any, batch: Any, identity: Any, **how: Any) -> LandedCollection:
        met.append(together.wait())
        return real(spark, opened, batch, identity, **how)

    monkeypatch.setattr(state_tables, "land_table", land_table)
    with lab.running() as engine:
        engine.catch_up(SECONDS)
    assert sorted(met) == [0, 1, 2]
    lab.assert_equal(*names)
