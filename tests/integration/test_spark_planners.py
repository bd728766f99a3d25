"""`snapshotter.spark_planners`: what Spark started to plan the stream has ended once the stream flows."""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from snapshotter.spark_planners import PLANNERS, end_planners
from snapshotter.testing.processes import wait_until
from tests.support.engines import SECONDS, Lab, lab

__all__ = ["lab"]


def modules() -> set[str]:
    """Those that the Python processes of this process's Spark were started for, as Spark names them."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        try:
            found.update(process.cmdline()[-1:])
        except psutil.Error:
            continue
    return found


def test_planners_end_with_the_first_batch(lab: Lab) -> None:
    """What runs the stream stays, and so do the workers. The next run has its source made and planned again, as the
    first one has."""
    orders = lab.collection("orders")
    for number in range(2):
        orders.insert_one({"_id": number})
        with lab.running() as engine:
            engine.catch_up(SECONDS)
            found = modules()
            assert "pyspark.sql.streaming.python_streaming_source_runner" in found
            assert "pyspark.worker" in found
            assert not found & PLANNERS
        lab.assert_equal("orders")


def test_one_that_plans_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    """Somebody else's source is being made in the same JVM."""
    begun, goes_on = tmp_path / "begun", tmp_path / "goes on"

    class Slow(DataSource):
        @classmethod
        def name(cls) -> str:
            return "slow"

        def schema(self) -> str:
            import time

            begun.touch()
            while not goes_on.exists():
                time.sleep(0.01)
            return "n int"

    spark.dataSource.register(Slow)
    with ThreadPoolExecutor() as pool:
        made = pool.submit(lambda: spark.read.format("slow").load().columns)
        try:
            wait_until(begun.exists, "the source to be asked")
            end_planners(spark)
        finally:
            goes_on.touch()
        assert made.result(SECONDS) == ["n"]


def test_spark_has_planners_by_these_names() -> None:
    """Or nothing would ever end them."""
    assert all(importlib.util.find_spec(name) for name in PLANNERS)
