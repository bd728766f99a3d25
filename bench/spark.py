"""One Spark session for a benchmark process: all cores of the machine, Delta, and settings fit for small
local tables.

The same for us, the references and the peers that run on Spark, so that a ratio never comes from a setting.
The heap is fixed: a figure that needs more memory for more documents shows itself by failing.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

from snapshotter.spark_session import COLLECTOR

HEAP = "2g"


def session(name: str, work: Path, jars: Sequence[Path] = (), *, cores: int = 2) -> SparkSession:
    """A new session, its files under `work`. The caller stops it."""
    # Workers that run another interpreter than ours would miss our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.Builder()
        .master(f"local[{cores}]")
        .appName(name)
        .config("spark.driver.memory", HEAP)
        .config("spark.driver.extraJavaOptions", f"-Xss4m {COLLECTOR}")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.local.dir", str(work / "spark"))
        .config("spark.sql.warehouse.dir", str(work / "warehouse"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.databricks.delta.snapshotPartitions", str(cores))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    )
    if jars:
        builder = builder.config("spark.jars", ",".join(str(jar) for jar in jars))
    return configure_spark_with_delta_pip(builder).getOrCreate()


@contextmanager
def environment_kept() -> Iterator[None]:
    """What a session within sets in this process's environment is gone afterwards: a program that is started later is
    to run as users run it, and not with the Python that was named here."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def scratch(name: str) -> Iterator[tuple[SparkSession, Path]]:
    """A session, and a folder for its tables; both are gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    spark = session(name, folder)
    try:
        yield spark, folder
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
