"""A program in which Spark is asked to call Python before an engine asks the JVM to answer at once, as in a notebook
with a `foreachBatch` of its own. It prints whether each of two new threads has its answers without delay, and which of
the old ones."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from streaming.jvm import answer_at_once


def main() -> None:
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    gateway = cast(Any, spark.sparkContext)._gateway

    def without_delay(_: int) -> bool | None:
        of_jvm = gateway.java_gateway_server.getCallbackClient().getPerThreadConnection()
        return None if of_jvm is None else bool(of_jvm.getSocket().getTcpNoDelay())

    ensure_callback_server_started(gateway)
    answer_at_once(spark)
    with ThreadPoolExecutor(2) as threads:
        print(json.dumps({"old": without_delay(0), "new": list(threads.map(without_delay, range(2)))}))
    spark.stop()


if __name__ == "__main__":
    main()
