"""``snapshotter prepare``: what a machine, or an image, can have before the first engine starts.

Spark is started once, and does a little of what engines do: it writes a table, merges into it, reads it, and does so
from a stream. Then Ivy has the jars of Delta, so that no start needs a network, and Java, when it ends, has written its
archive of the classes that were used (`snapshotter.class_archive`).

It is a process of its own: a JVM is told at its start that it is to write an archive. The settings go to it by standard
input, since they may have secrets in them. The archive is written under another name and then renamed, so an engine
that starts meanwhile finds all of it or none.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from snapshotter.class_archive import QUIET
from snapshotter.errors import DefiniteError
from snapshotter.spark_session import JAVA_OPTIONS, spark_builder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SECONDS = 600
_SAID = 2_000
_NEXT = (
    "cure what is said there, and run it again; engines work without an archive, too. Java writes none where a folder "
    "with files in it is on its class path (SPARK_CONF_DIR, HADOOP_CONF_DIR, conf in SPARK_HOME)"
)


def prepare(archive: Path, settings: Mapping[str, str], *, kafka: bool = False) -> None:
    """Bring the jars and make the ``archive``, in place of the one that is there. ``settings`` are Spark's, as an
    engine has them; ``kafka``: with Spark's connector. Raises DefiniteError where Spark fails."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="new-", dir=archive.parent) as folder:
        new = Path(folder, archive.name)
        given = {name: value for name, value in settings.items() if name != "spark.master"}
        given["spark.local.dir"] = f"{folder}/local"
        given[JAVA_OPTIONS] = " ".join(
            [settings.get(JAVA_OPTIONS, ""), f'"-XX:ArchiveClassesAtExit={new}"', QUIET]
        ).strip()
        # Its output ends with the JVM's, which writes the archive at its end.
        asked = json.dumps({"folder": folder, "settings": given, "kafka": kafka})
        command = [sys.executable, "-P", "-m", __name__]
        try:
            done = subprocess.run(
                command, input=asked, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as late:
            raise DefiniteError(f"Spark took longer than {_SECONDS} s", _NEXT) from late
        if done.returncode or not new.is_file():
            said = f"{done.stdout}\n{done.stderr}".strip()[-_SAID:]
            raise DefiniteError(
                f"Spark did not come to its end, or Java wrote no archive of classes: {said}",
                _NEXT,
            )
        new.replace(archive)


def _use_what_engines_use(folder: str, settings: Mapping[str, str], *, kafka: bool) -> None:
    from delta.tables import DeltaTable

    spark = spark_builder("snapshotter-prepare", settings, "local[2]", kafka=kafka)
    table = f"{folder}/table"
    spark.range(100).selectExpr("id", "cast(id as string) text").write.format("delta").save(table)

    def merge(rows: DataFrame, _batch: int) -> None:
        target = DeltaTable.forPath(spark, table).alias("T")
        given = rows.selectExpr("value + 50 as id", "'new' as text").alias("S")
        same = target.merge(given, "T.id = S.id").whenMatchedUpdateAll()
        same.whenNotMatchedInsertAll().execute()

    stream = spark.readStream.format("rate").load().writeStream.foreachBatch(merge)
    query = stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    merge(spark.range(100).selectExpr("id as value"), 0)
    read = spark.read.format("delta").load(table).repartition(2)
    read.mapInArrow(lambda batches: batches, read.schema).cache().count()
    spark.stop()


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    _use_what_engines_use(asked["folder"], asked["settings"], kafka=asked["kafka"])
