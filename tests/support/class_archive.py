"""Java's classes of Spark and Delta, parsed and verified once for a whole run instead of in each of its JVMs.

A class-data archive (JEP 350) takes a third off the time in which a cold JVM has started Spark, written a table and
merged into it. Tests start some two hundred of them, so the first that needs one makes the archive, by a small program
that uses what engines use. Java itself checks that an archive fits its version and class path, and goes without one
that does not.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Most of a short life is a cold JVM. Without its own size, the code cache of C1 alone is full after a minute.
C1 = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
_FOLDER = Path(__file__).parents[2] / ".pytest_cache" / "java"
_SECONDS = 300


@cache
def quick_java() -> str:
    """Java's options for a life of a minute or two: one quick compiler, one thread that collects, known classes."""
    return f"{C1} -XX:SharedArchiveFile={_archive()} -Xlog:cds=off -Xlog:cds+dynamic=off"


def _archive() -> Path:
    """Where the archive is; made by whichever process comes first, while the others wait for it."""
    versions = "-".join(metadata.version(name) for name in ("pyspark", "delta-spark"))
    file = _FOLDER / f"spark-{versions}.jsa"
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            _make(file)
    return file


def _make(file: Path) -> None:
    new = file.with_suffix(".new")
    with tempfile.TemporaryDirectory(prefix="snapshotter-classes-") as folder:
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(new), folder],
            cwd=Path(__file__).parents[2],
            env={name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    if done.returncode or not new.exists():
        raise RuntimeError(f"no class archive was made:\n{done.stdout}\n{done.stderr}")
    new.rename(file)


def _use_what_engines_use(archive: str, folder: str) -> None:
    """Write a table, merge into it, read it, and do so from a stream; Java writes the archive when it ends."""
    from delta.tables import DeltaTable

    from snapshotter.spark_session import spark_builder

    spark = spark_builder(
        "classes",
        {
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.local.dir": f"{folder}/local",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": f"{C1} -XX:ArchiveClassesAtExit={archive} -Xlog:cds*=off",
        },
        master="local[2]",
    )
    table = f"{folder}/table"
    spark.range(100).selectExpr("id", "cast(id as string) text").write.format("delta").save(table)

    def merge(rows: DataFrame, _batch: int) -> None:
        target = DeltaTable.forPath(spark, table).alias("t")
        given = rows.selectExpr("value + 50 as id", "'new' as text").alias("s")
        same = target.merge(given, "t.id = s.id").whenMatchedUpdateAll()
        same.whenNotMatchedInsertAll().execute()

    stream = spark.readStream.format("rate").load().writeStream.foreachBatch(merge)
    query = stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    merge(spark.range(100).selectExpr("id as value"), 0)
    read = spark.read.format("delta").load(table).repartition(2)
    read.mapInArrow(lambda batches: batches, read.schema).cache().count()
    spark.stop()


if __name__ == "__main__":
    _use_what_engines_use(*sys.argv[1:])
