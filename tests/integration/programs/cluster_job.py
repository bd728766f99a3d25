"""A driver for the cluster's own test: MASTER_URL TABLE. Waits for a line on stdin between its two jobs."""

import sys
from collections.abc import Iterator

from snapshotter.spark_session import spark_builder


def who_runs_this(_: Iterator[int]) -> Iterator[str]:
    """Executed on workers, which must be able to import the packages."""
    import os

    import signals
    import snapshotter
    import streaming

    assert all(package.__file__ for package in (signals, snapshotter, streaming))
    yield os.environ["SPARK_EXECUTOR_DIRS"]  # each executor has its own


def main(master: str, table: str) -> None:
    """Count a cached table, twice, and write it as Delta."""
    spark = spark_builder(
        "cluster-job", {"spark.executor.memory": "600m", "spark.driver.memory": "1g"}, master
    )
    workers = set(spark.sparkContext.parallelize(range(64), 64).mapPartitions(who_runs_this).collect())
    rows = spark.range(0, 1000, 1, 8).cache()
    print("workers", len(workers), "rows", rows.count(), flush=True)
    sys.stdin.readline()
    print("rows", rows.count(), flush=True)
    rows.write.format("delta").save(table)
    print("delta", spark.read.format("delta").load(table).count(), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
