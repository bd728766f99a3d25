"""`snapshotter.spark_planners`: what Spark started to plan the stream has ended once the stream flows."""

from __future__ import annotations

import importlib.util

import psutil

from snapshotter.spark_planners import PLANNERS
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


def test_spark_has_planners_by_these_names() -> None:
    """Or nothing would ever end them."""
    assert all(importlib.util.find_spec(name) for name in PLANNERS)
