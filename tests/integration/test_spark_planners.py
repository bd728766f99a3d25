"""`snapshotter.spark_planners`: what Spark starts to plan the stream is there before, and has ended once that flows."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from structlog.testing import capture_logs

from snapshotter.spark_planners import PLANNERS, end_planners, start_planners
from snapshotter.testing.mongodb import MongoDeployment
from snapshotter.testing.processes import wait_until
from streaming.source.registration import plan_ahead, register_at
from tests.support.engines import SECONDS, Lab, lab

__all__ = ["lab"]

MAKER, PLANNER = (f"pyspark.sql.worker.{name}" for name in ("create_data_source", "plan_data_source_read"))


def processes() -> Iterator[tuple[psutil.Process, str]]:
    """The Python processes of this process's Spark, each with the module that it was started for, as Spark names it."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            for module in process.cmdline()[-1:]:
                yield process, module


def modules() -> set[str]:
    return {module for _, module in processes()}


def test_planners_end_with_the_first_batch(lab: Lab) -> None:
    """What runs the stream stays, and so do the workers. The next run has its source made and planned again, as the
    first one has."""
    orders = lab.collection("orders")
    for number in range(2):
        orders.insert_one({"_id": number})
        with lab.running() as engine:
            engine.wait("initial", SECONDS)
            engine.catch_up(SECONDS)
            wait_until(lambda: not modules() & PLANNERS, "the planners' end")
            assert {"pyspark.sql.streaming.python_streaming_source_runner", "pyspark.worker"} <= modules()
        lab.assert_equal("orders")


def planners() -> set[tuple[int, str]]:
    return {(process.pid, module) for process, module in processes() if module in PLANNERS}


def test_a_stream_finds_those_that_were_started_ahead(
    spark: SparkSession, mongodb: MongoDeployment, tmp_path: Path
) -> None:
    """It starts none. (Which data sources there are Spark asks once in its life.)"""
    end_planners(spark)
    plan_ahead(spark)
    ahead = planners()
    assert {module for _, module in ahead} >= {MAKER, PLANNER}
    source = register_at(spark, {"mongodb.connection.string": mongodb.uri})
    stream = spark.readStream.format(source).option("collection.include.list", "nowhere.nothing").load()
    writing = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = writing.start()
    try:
        wait_until(lambda: query.lastProgress or query.exception(), "its first batch")
        assert query.exception() is None
        assert planners() == ahead
    finally:
        query.stop()
        end_planners(spark)


def test_those_that_are_just_starting_end_as_well(spark: SparkSession) -> None:
    """Who ends them waits for who starts them, or they would stay for as long as the JVM lives."""
    with capture_logs() as logs:
        start_planners(spark)
        end_planners(spark)
    assert not [thread for thread in threading.enumerate() if thread.name == "planners-ahead"]
    assert logs == []
    wait_until(lambda: not modules() & PLANNERS, "the planners' end")


def test_planners_that_do_not_start_keep_nobody_from_anything() -> None:
    """The stream starts what is not there; what has gone wrong is told."""
    with capture_logs() as logs:
        start_planners(None)  # type: ignore[arg-type]
        end_planners(None)  # type: ignore[arg-type]
    said = [entry["event"] for entry in logs]
    assert said == ["Spark's planners are not there ahead", "Spark's planners are left as they are"]


class Dies(DataSource):
    @classmethod
    def name(cls) -> str:
        return "dies"

    def schema(self) -> str:
        import os

        os._exit(1)


def test_one_that_has_died_keeps_none_alive(spark: SparkSession) -> None:
    """Spark lists it for a while, as if it were at work."""
    spark.dataSource.register(Dies)
    with pytest.raises(Exception, match="exited unexpectedly"):
        spark.read.format("dies").load()
    assert MAKER in modules()
    end_planners(spark)
    wait_until(lambda: MAKER not in modules(), "the planners' end")


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
