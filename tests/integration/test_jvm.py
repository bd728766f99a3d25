"""Calls into Spark's JVM: long answers come at once, to whatever thread asks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from pyspark.sql import SparkSession

from streaming.jvm import answer_at_once


def test_the_jvm_answers_every_thread_without_delay(spark: SparkSession) -> None:
    """By its end of the connection that each thread has of its own, which is made by its first call; asking for it
    twice changes nothing."""
    gateway = cast(Any, spark.sparkContext)._gateway

    def without_delay(_: int) -> bool:
        client = gateway.java_gateway_server.getCallbackClient()
        return bool(client.getPerThreadConnection().getSocket().getTcpNoDelay())

    for _ in range(2):
        answer_at_once(spark)
    assert without_delay(0)
    before = len(gateway._gateway_client.deque)
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(without_delay, range(8)))
    assert without_delay(0)
    assert len(gateway._gateway_client.deque) <= before + 4, "a connection is kept once"
