"""The tables of an engine: who waits for whom."""

from __future__ import annotations

import json
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event, Lock
from typing import Any, cast

import bson
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from snapshotter.landing.tables import Tables
from snapshotter.landing.targets import state_tables
from snapshotter.landing.targets.target import LandedCollection
from snapshotter.testing.processes import wait_until
from streaming.delta.new_files import job_name
from streaming.delta.state_merge import transaction
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.observe import observe
from streaming.layouts.columns.plan import TablePlan
from streaming.namespaces import Namespace
from tests.support.engines import SECONDS, Lab, lab
from tests.support.state_tables import state_schema

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


class WatchedLock:
    """A table's lock that tells when somebody has to wait for it."""

    def __init__(self) -> None:
        self._lock, self.waited_for = Lock(), Event()

    def __enter__(self) -> None:
        if self._lock.locked():
            self.waited_for.set()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_what_is_left_goes_by_a_commit_that_is_no_landing(spark: SparkSession, tmp_path: Path) -> None:
    """A reader's first chunk clears what a killed run has left in the folder, also while its table is landed: the
    commit before that waits, and does not carry the landing's mark."""
    plan = observe(bson.encode({"_id": 1, "v": 1}))
    tables = Tables(spark, str(tmp_path), lambda: "snapshotter:test:1", COLUMNS, lambda _: plan)
    opened, lock = tables.of(ORDERS), WatchedLock()
    opened.lock = cast(Any, lock)
    with ThreadPoolExecutor(1) as readers:
        with tables.landing(ORDERS) as landing:
            left = Path(landing.table.path) / f"{job_name()}-1.parquet"
            left.touch()
            rows = spark.createDataFrame([("Na1", None, 1, None, 5, None, "c")], state_schema(plan))
            with transaction(landing.table._session, "snapshotter:test:1", 0, '{"landing": "mine"}'):
                asked = readers.submit(tables.folder, ORDERS)
                wait_until(lambda: asked.done() or lock.waited_for.is_set(), "the reader to ask")
            landing.table.land(rows, batch_id=0, metadata={}, how="append", key_ranges=None)
        folder = asked.result(_PATIENCE_S)
        assert folder is not None
        assert folder.location == landing.table.path
    commits = DeltaTable(landing.table.path).history()
    marked = [c["operation"] for c in commits if "landing" in json.loads(c.get("userMetadata", "{}"))]
    assert marked == ["WRITE"]
    assert commits[0]["operation"] == "SET TBLPROPERTIES"
    assert not left.exists()


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
