"""Spark's Kafka sink, as topics are fed by it: records with their schemas where these are asked for, in their order.

All records of a topic are sent by one task, in the order of the stream. So a partition of a topic has them in that
order, whatever the number of its partitions, and so has each key. A schema is the same in all records of a topic: it is
put around them here, by Spark, and lies in no table.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from snapshotter.errors import DefiniteError
from snapshotter.outbox.table import ORDER
from snapshotter.outbox.topics_config import TopicsConfig
from snapshotter.spark_jars import kafka_package
from streaming.connect import schemas

_TOPIC = "\N{SYMBOL FOR NULL}"
"""Stands for a topic's name in a schema; no name of a topic has it."""
EVENT, TRANSACTION, HEARTBEAT = "event", "transaction", "heartbeat"
_KEYS = {
    EVENT: schemas.key_schema(_TOPIC),
    TRANSACTION: schemas.TRANSACTION_KEY,
    HEARTBEAT: schemas.HEARTBEAT_KEY,
}
_VALUES = {
    EVENT: schemas.envelope_schema(_TOPIC),
    TRANSACTION: schemas.TRANSACTION_VALUE,
    HEARTBEAT: schemas.HEARTBEAT_VALUE,
}
_CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"


class KafkaSink:
    """Sends records as ``config`` says."""

    def __init__(self, config: TopicsConfig) -> None:
        self._config = config
        self._options = {f"kafka.{name}": value for name, value in config.client().items()}

    def send(self, records: DataFrame) -> None:
        """All of these rows of the outbox are at the brokers when this returns. Raises what Spark raises: then any part
        of them may be there."""
        config = self._config
        key = _with_schema("key", _KEYS) if config.key_schemas else F.col("key")
        value = _with_schema("value", _VALUES) if config.value_schemas else F.col("value")
        cores = records.sparkSession.sparkContext.defaultParallelism
        ordered = records.repartition(cores, "topic").sortWithinPartitions("topic", *ORDER)
        sent = ordered.select("topic", key.alias("key"), value.alias("value"))
        sent.write.format("kafka").options(**self._options).save()


def check_session(spark: SparkSession) -> None:
    """Raises DefiniteError where this session has no Kafka connector."""
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # type: ignore[union-attr]
    try:
        loader.loadClass(_CLASS)
    except Exception as error:
        raise DefiniteError(
            "Spark's Kafka connector is not in this Spark session, and engine.topics.enabled needs it",
            f"start the session with spark.jars.packages={kafka_package()}",
            condition="wrong-libraries",
        ) from error


def _with_schema(column: str, by_kind: dict[str, schemas.Schema]) -> Column:
    """The column with its schema before it; null stays null."""
    found = F.lit(None).cast("binary")
    for kind, schema in by_kind.items():
        parts = schemas.opening(schema).split(_TOPIC)
        found = F.when(F.col("kind") == kind, _around(column, *parts)).otherwise(found)
    return found


def _around(column: str, before: str, after: str | None = None) -> Column:
    opening = (
        _bytes(before)
        if after is None
        else F.concat(_bytes(before), F.col("topic").cast("binary"), _bytes(after))
    )
    return F.concat(opening, F.col(column), _bytes("}"))


def _bytes(text: str) -> Column:
    return F.lit(bytearray(text.encode()))
