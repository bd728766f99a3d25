"""Calls into Spark's JVM: long answers come at once, to whatever thread asks."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from streaming.jvm import answer_at_once

PROGRAM = Path(__file__).parent / "programs" / "jvm_answers.py"


def test_the_jvm_answers_every_thread_without_delay(spark: SparkSession) -> None:
    """By its end of the connection that each thread has of its own, which is made by its first call; asking for it
    twice changes nothing. A thread that has one already is among them."""
    gateway = cast(Any, spark.sparkContext)._gateway

    def without_delay(_: int) -> bool:
        client = gateway.java_gateway_server.getCallbackClient()
        return bool(client.getPerThreadConnection().getSocket().getTcpNoDelay())

    def asked_for_twice() -> bool:
        assert gateway.jvm.java.lang.System.nanoTime(), "this thread has a connection"
        for _ in range(2):
            answer_at_once(spark)
        before = len(gateway._gateway_client.deque)
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(without_delay, range(8)))
        assert len(gateway._gateway_client.deque) <= before + 4, "a connection is kept once"
        return without_delay(0)

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(asked_for_twice).result()


@pytest.mark.slow
def test_an_engine_may_be_started_where_spark_has_called_python_before() -> None:
    """PySpark then has put another client into the JVM, which does not know the connections of older threads: these
    stay as they are, and new ones are answered at once."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"old": None, "new": [True, True]}
