"""The process that `mongo_spark.py` starts: one Spark session with the connector, one kind of work, several
rounds.

Prints a JSON line a round. Each round has a table of its own, so that the second does the very work of the
first.
"""

import json
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.measurement import timed
from bench.orders import ORDER_DDL
from bench.peers.process import end_with_parent
from bench.spark import session
from bench.writer import writer_of

EVENT = f"""
    _id STRUCT<_data: STRING>, operationType STRING, documentKey STRUCT<_id: STRING>, fullDocument
    STRUCT<{ORDER_DDL}>
"""
_PATIENCE_S = 600


def main(plan: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-mongo-spark-") as folder:
        spark = session("mongo-spark", Path(folder), [Path(jar) for jar in plan["jars"]])
        try:
            for turn in range(1, plan["rounds"] + 1):
                done = _WORK[plan["work"]](spark, {**plan, "turn": turn}, Path(folder) / f"round-{turn}")
                print(json.dumps({"round": turn, "documents": plan["documents"], **done}), flush=True)
        finally:
            spark.stop()


def _options(plan: dict[str, Any]) -> dict[str, str]:
    return {"connection.uri": plan["uri"], "database": plan["db"], "collection": plan["coll"]}


def _copied(spark: SparkSession, plan: dict[str, Any], table: Path) -> tuple[int, float]:
    """Rows, and seconds."""

    def copy() -> None:
        orders = spark.read.format("mongodb").options(**_options(plan)).schema(ORDER_DDL).load()
        orders.write.format("delta").mode("append").save(str(table))

    _, seconds = timed(copy)
    return spark.read.format("delta").load(str(table)).count(), seconds


def _beside(spark: SparkSession, plan: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A copy while a writer makes `rate` changes a second, none of which it gets to see."""
    with writer_of(plan) as writer:
        rows, seconds = _copied(spark, plan, folder / "table")
        report = writer.stop()
    if rows < plan["documents"] - report.events:
        raise RuntimeError(f"the copy has {rows} rows, the collection had {plan['documents']} documents")
    return {
        "documents": rows,
        "seconds": round(seconds, 3),
        "writes_per_second": report.per_second,
    }


def _copy(spark: SparkSession, plan: dict[str, Any], folder: Path) -> dict[str, Any]:
    table = folder / "table"
    rows, seconds = _copied(spark, plan, table)
    if rows != plan["documents"]:
        raise RuntimeError(f"the copy has {rows} rows, the collection {plan['documents']} documents")
    shutil.rmtree(plan["table"], ignore_errors=True)
    shutil.move(table, plan["table"])
    return {"seconds": round(seconds, 3)}


def _stream(spark: SparkSession, plan: dict[str, Any], folder: Path) -> dict[str, Any]:
    table = folder / "table"
    shutil.copytree(plan["table"], table)
    landing = _Landing(spark, table, plan["documents"])
    second, increment = plan["start"]
    start = json.dumps({"$timestamp": {"t": second, "i": increment}})
    events = (
        spark.readStream.format("mongodb")
        .options(**_options(plan))
        .option("change.stream.lookup.full.document", "updateLookup")
        .option("change.stream.publish.full.document.only", "false")
        .option("change.stream.startup.mode", "timestamp")
        .option("change.stream.startup.mode.timestamp.start.at.operation.time", start)
        .schema(EVENT)
        .load()
    )

    def drain() -> None:
        query = (
            events.writeStream.foreachBatch(landing.land)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
        try:
            if not landing.complete.wait(_PATIENCE_S):
                raise RuntimeError(
                    f"{landing.seen} of {plan['documents']} events after {_PATIENCE_S} s: {query.status}"
                )
        finally:
            query.stop()

    _, seconds = timed(drain)
    rows = spark.read.format("delta").load(str(table)).count()
    with MongoClient[dict[str, Any]](plan["uri"]) as client:
        documents = client[plan["db"]][plan["coll"]].count_documents({})
    if rows != documents:
        raise RuntimeError(
            f"the table has {rows} rows after the stream, the collection {documents} documents"
        )
    shutil.rmtree(table)
    return {"seconds": round(seconds, 3)}


class _Landing:
    """The `foreachBatch` that everyone writes: the last event of each key, then MERGE."""

    def __init__(self, spark: SparkSession, table: Path, wanted: int) -> None:
        self.complete = threading.Event()
        self.seen = 0
        self._spark = spark
        self._table = table
        self._wanted = wanted

    def land(self, batch: DataFrame, _: int) -> None:
        batch = batch.persist()  # or every action reads the change stream again
        try:
            self._merge(batch)
            self.seen += batch.count()
        finally:
            batch.unpersist()
        if self.seen >= self._wanted:
            self.complete.set()

    def _merge(self, batch: DataFrame) -> None:
        newest = F.max_by(F.struct("operationType", "fullDocument"), "_id._data").alias("newest")
        # An update whose document is gone by now is followed by its delete: nothing to land from it.
        latest = (
            batch.groupBy(F.col("documentKey._id").alias("key"))
            .agg(newest)
            .select("key", "newest.operationType", "newest.fullDocument.*")
            .where("operationType = 'delete' OR _id IS NOT NULL")
        )
        latest.createOrReplaceTempView("latest")
        columns = latest.columns[2:]
        latest.sparkSession.sql(
            f"MERGE INTO delta.`{self._table}` t USING latest s ON t._id = s.key "
            "WHEN MATCHED AND s.operationType = 'delete' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in columns)} "
            f"WHEN NOT MATCHED AND s.operationType <> 'delete' THEN INSERT ({', '.join(columns)}) "
            f"VALUES ({', '.join(f's.{name}' for name in columns)})"
        )


_WORK = {"copy": _copy, "beside": _beside, "stream": _stream}

if __name__ == "__main__":
    end_with_parent()
    main(json.loads(sys.argv[1]))
