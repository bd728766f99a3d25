"""`landing.frames.for_batches`: how the frames of a micro-batch are planned."""

from __future__ import annotations

from pyspark.sql import SparkSession

from snapshotter.landing.frames import for_batches

ADAPTIVE, PARTITIONS = "spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions"


def test_a_batch_is_planned_once_and_in_few_partitions(spark: SparkSession) -> None:
    """In the session of its query alone: what others plan, in theirs, is as it was."""
    session, before = spark.newSession(), spark.conf.get(ADAPTIVE)
    session.conf.set(ADAPTIVE, "true")
    for_batches(session)
    assert session.conf.get(ADAPTIVE) == "false"
    assert spark.conf.get(ADAPTIVE) == before
    given = spark.sparkContext.getConf().get(PARTITIONS)
    assert session.conf.get(PARTITIONS) == (given or str(spark.sparkContext.defaultParallelism))


def test_what_spark_was_started_with_stays(spark: SparkSession) -> None:
    """Somebody has chosen it: here how many partitions a shuffle has, as in every session of `spark_builder`."""
    given = spark.sparkContext.getConf().get(PARTITIONS)
    assert given is not None
    session = spark.newSession()
    session.conf.set(PARTITIONS, "7")
    for_batches(session)
    assert session.conf.get(PARTITIONS) == "7"
