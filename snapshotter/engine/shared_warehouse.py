"""Whether a warehouse on a disk is the same folder on every machine that works for Spark.

Executors write tables where the driver commits them: Spark's own writer, and the workers that write READs as files. If
each of them has a disk of its own under that path, versions name files that nobody finds, and nothing complains until
somebody reads. So a cluster is asked, by a task for each of its cores, which looks for a file that the driver
has written there, and writes one that the driver then looks for. On an executor that comes later, without the folder,
tasks fail; if it has a disk of its own there, its files of READs are missed before a commit adds them.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from snapshotter.errors import ConfigurationError
from snapshotter.state.storages import local_path, needs_spark
from snapshotter.worker_code import check_workers
from streaming.delta.table_paths import STATE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX, _WORKERS = ".shared-", "-of-a-worker-"


def check_executors(spark: SparkSession, warehouse: str) -> None:
    """Ask the executors before anything is touched. Raises DefiniteError where their workers run other code, and
    ConfigurationError, which names a machine, where that has another folder under ``warehouse`` than the driver, or may
    not write there."""
    check_workers(spark)
    if needs_spark(warehouse) or str(spark.sparkContext.master).startswith("local"):
        return
    folder = (local_path(warehouse) / STATE).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if (why := why_apart(spark, folder, folder)) is not None:
        raise ConfigurationError(
            f"delta.warehouse = {warehouse} is not one folder for the driver and all executors: {why}",
            "mount one shared volume there on all machines, which Spark's user may write to, or set delta.warehouse to "
            "an object store (docs/object-storage.md)",
        )


def why_apart(spark: SparkSession, here: Path, there: Path) -> str | None:
    """How the driver's folder ``here`` is seen to be another one than ``there`` is for the workers; None where it is
    the same. Nothing is left in either."""
    token, cores = uuid.uuid4().hex, spark.sparkContext.defaultParallelism
    (here / f"{_PREFIX}{token}").write_text(token, encoding="utf-8")
    try:
        look = _looking(there, token, f"{_PREFIX}{token}{_WORKERS}")
        made = spark.range(0, cores, 1, cores).mapInArrow(look, "host string, why string, name string")
        for host, why, name in made.collect():
            if why is not None:
                return f"{host}: {why}"
            if not (here / name).is_file():
                return f"the driver does not see what a worker on {host} has written"
        return None
    finally:
        for file in {*here.glob(f"{_PREFIX}{token}*"), *there.glob(f"{_PREFIX}{token}*")}:
            file.unlink(missing_ok=True)


def _looking(
    folder: Path, token: str, prefix: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that runs on workers, and says what it has found and written, in a file whose name begins with
    ``prefix``."""

    def look(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        name = f"{prefix}{uuid.uuid4().hex}"
        found = {"host": socket.gethostname(), "why": _why_strange(folder, token, name), "name": name}
        schema = pa.schema([pa.field(field, pa.string()) for field in found])
        yield pa.RecordBatch.from_pylist([found], schema=schema)

    return look


def _why_strange(folder: Path, token: str, name: str) -> str | None:
    """Why a worker's folder is not the driver's, or closed to it; if it is not, a file of this ``name`` is in it."""
    try:
        if (folder / f"{_PREFIX}{token}").read_text(encoding="utf-8") != token:
            return "a worker there reads something else than the driver has written"
        (folder / name).write_text(token, encoding="utf-8")
    except FileNotFoundError:
        return "a worker there does not see what the driver has written"
    except OSError as error:
        return f"a worker there may not use it: {error.strerror}"
    return None
