"""The tables of an engine: who waits for whom."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import bson
from pyspark.sql import SparkSession

from snapshotter.landing.tables import Tables
from snapshotter.testing.processes import wait_until
from streaming.columns import TablePlan
from streaming.decode import observe
from streaming.namespaces import Namespace

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

    tables = Tables(spark, str(tmp_path), lambda: "snapshotter:test:1", sample)
    with ThreadPoolExecutor(1) as readers, tables.landing(ORDERS) as opened:
        plans = [asked[0].result(_PATIENCE_S), opened.plan]
    assert plans == [opened.table.open()] * 2
    assert sampled == [ORDERS]
    assert tables.there() == [ORDERS]
