"""The one place that knows how a Spark session for Delta tables is put together.

Why not `configure_spark_with_delta_pip` alone: it resolves 33 jars through Ivy at every start, of which 28
are older copies of what Spark ships already (Hadoop, Parquet, Jackson...). Here the first start on a machine
downloads Delta's own five (`snapshotter.spark_jars`).

Invariants:
- whatever the caller sets wins over a default, except that lists of jars, extensions and Java options are
  joined;
- Python workers run this very interpreter, so that they see the same packages, and find none in the folder that they
  are started in;
- the session's time zone is UTC: a BSON date is an instant, and must not depend on where it is shown.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from snapshotter.class_archive import java_options
from snapshotter.spark_jars import PACKAGES, delta_settings, ivy_folder, one_download
from snapshotter.spark_python import INTERPRETER, name_python
from snapshotter.spark_start import launch, memory_named

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAFE_PATH = "PYTHONSAFEPATH"
"""Python's switch that keeps the folder it is started in off the search path, from 3.11."""
WORKER_DAEMON = "snapshotter.worker_daemon"
# A worker that has decoded large documents gives their memory back: what is larger than a megabyte is mapped by itself
# (glibc moves that bound up to 32 MB otherwise), and Arrow keeps no pool of its own. The JVM's many threads share two
# arenas instead of having one each. Decoding is as fast so (bench/README.md).
FRUGAL = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(8 << 20),
    "OPENBLAS_NUM_THREADS": "1",  # NumPy's, which nothing here uses: workers are forked beside it
}
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_WAREHOUSE = "spark.sql.warehouse.dir"
# G1, which Java takes by itself, begins to mark its whole heap whenever Spark asks for one of its pages: they are
# "humongous" to it (bench/README.md).
COLLECTOR = "-XX:+UseParallelGC"
# Without its native library, which few machines have, Hadoop starts a program for each mode that it sets on a local
# file and each link that it asks about, 26 of them a batch: a third of the time so (bench/README.md).
LAUNCHER = "-Djdk.lang.Process.launchMechanism=VFORK"
_COLLECTOR = re.compile(r"-XX:\+Use\w*GC\b")
# Java's first compiler alone, for a JVM that lives for a minute: what the second one makes is worth its time only from
# the third backlog on (decision 63). Alone Java gives the first a fifth of the room for code, which Spark soon fills.
BRIEF = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
_COMPILER = re.compile(r"-XX:[+-]?(Tiered|ReservedCodeCacheSize|CompilationMode)|-Xint\b|-Xcomp\b")
# How Spark writes the files of a local checkpoint. By itself it does it through Hadoop's FileContext, which runs
# `readlink` sixteen times a batch for the same: a look whether the file is there, then a rename. (That one start alone
# writes there is up to the engine's lock.) On HDFS only FileContext's renames are atomic.
LOCAL_CHECKPOINTS = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing"
    ".FileSystemBasedCheckpointFileManager"
}
# What Spark keeps of the newest jobs and queries for its pages (by itself a thousand each), and how it tells of plans
# there. It sorts them to forget the oldest, and a description takes longer than some of our queries (bench/README.md).
UNSEEN = {
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.ui.retainedExecutions": "100",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
}
_PAGES = re.compile(r"(?im)^\s*spark\.(ui|eventLog)\.enabled[\s=:]+true\s*$")
JOINED = {
    "spark.jars": ",",
    PACKAGES: ",",
    "spark.jars.excludes": ",",
    "spark.sql.extensions": ",",
    JAVA_OPTIONS: " ",
}
_NO_NEWS = (
    # A MERGE's source is to be broadcast to two of its three joins; the third can't.
    "org.apache.spark.sql.catalyst.analysis.HintErrorLogger",
    # Rows that have landed are freed, and nobody asks for them again.
    "org.apache.spark.rdd.MapPartitionsRDD",
    # A batch takes as long as it takes, and the next one begins at once.
    "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor",
    # A stream that is stopped may be writing down its next batch, and is interrupted in it: a page of stack trace.
    "org.apache.hadoop.util.Shell",
)


def spark_builder(
    app_name: str,
    settings: Mapping[str, str] | None = None,
    master: str | None = None,
    *,
    kafka: bool = False,
    brief: bool = False,
) -> SparkSession:
    """Build the session with Delta and our defaults, or get the one that runs: settings that need a new JVM then have
    no effect. `app_name` is what Spark shows.

    `settings` are Spark's own names, as strings. `master` None leaves the choice to `spark.master` in the
    settings, or to the environment (`spark-submit`). `kafka`: with Spark's Kafka connector.
    `brief`: for a process that ends by itself before long.
    """
    from pyspark.sql import SparkSession  # takes half a second, and `snapshotter --help` does not need it

    given = dict(settings or {})
    master = master or given.get("spark.master")
    name_python(workers_here=master is not None and runs_here(master))
    builder = SparkSession.builder.appName(app_name)
    if master:
        builder = builder.master(master)
        if runs_here(master):
            # Without it Spark looks up the host's name, and warns when that is a loopback address.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with _environment(), ExitStack() as downloading:
        settings_now = partial(session_settings, given, master, kafka=kafka, brief=brief)
        merged = settings_now()
        if PACKAGES in merged:
            downloading.enter_context(one_download(ivy_folder(given)))
            merged = settings_now()  # somebody else may have brought them
        with memory_named(merged.get("spark.driver.memory")):
            launch({"spark.app.name": app_name, **({"spark.master": master} if master else {}), **merged})
            downloading.close()
            for name, value in merged.items():
                builder = builder.config(name, value)
            spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(merged["spark.log.level"])
    _quick_to_end(cast(Any, spark.sparkContext)._accumulatorServer)
    _quieten(spark)
    return spark


def _quick_to_end(accumulators: Any) -> None:
    """Nobody here counts by Spark's accumulators. Whoever takes them looks once a second whether it is to end, which a
    session's end need not wait for; and prints the stack of an end of file where the JVM ends first, of which whoever
    calls that hears anyway."""
    shutdown = accumulators.shutdown
    accumulators.shutdown = threading.Thread(target=shutdown, name="accumulators-end", daemon=True).start
    accumulators.handle_error = lambda *_: None


@contextmanager
def _environment() -> Iterator[None]:
    """Environment variables for a JVM that is started within: it hands them to every Python that it starts, also beside
    the executors. This process has them only meanwhile."""
    ours = {name: value for name, value in {SAFE_PATH: "1", **FRUGAL}.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


def _quieten(spark: SparkSession) -> None:
    """Switch off Spark's warnings about what is done on purpose."""
    log4j = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    for name in _NO_NEWS:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.ERROR)


def session_settings(
    given: Mapping[str, str], master: str | None, *, kafka: bool = False, brief: bool = False
) -> dict[str, str]:
    """All settings of a session: the defaults, Delta's, and on top of them the `given` ones. `master`, `kafka` and
    `brief` as in `spark_builder`."""
    merged = {**defaults(master), **delta_settings(ivy_folder(given), kafka=kafka)}
    if not _PAGES.search(
        "\n".join([_spark_defaults(), *(f"{name} {value}" for name, value in given.items())])
    ):
        merged |= UNSEEN
    for name, value in given.items():
        if name in JOINED and merged.get(name):
            merged[name] = f"{merged[name]}{JOINED[name]}{value}"
        else:
            merged[name] = value
    given_to_java = _given_to_java(merged)
    # Two collectors chosen, and Java does not start.
    if master and runs_here(master) and not any(map(_COLLECTOR.search, given_to_java)):
        merged[JAVA_OPTIONS] += f" {COLLECTOR}"
    if brief and not any(map(_COMPILER.search, given_to_java)):
        merged[JAVA_OPTIONS] += f" {BRIEF}"
    if archived := java_options(given_to_java):
        merged[JAVA_OPTIONS] += f" {archived}"
    return merged


def _given_to_java(settings: Mapping[str, str]) -> list[str]:
    """Java's options, from wherever somebody may have chosen some."""
    variables = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
    return [
        *(os.environ.get(name, "") for name in variables),
        settings[JAVA_OPTIONS],
        settings.get("spark.driver.defaultJavaOptions", ""),
        _spark_defaults(),
    ]


def _spark_defaults() -> str:
    """The text of `spark-defaults.conf`, which Spark reads beside what it is given here."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (home and Path(home) / "conf")
    file = Path(folder, "spark-defaults.conf") if folder else None
    return file.read_text(encoding="utf-8") if file is not None and file.is_file() else ""


def runs_here(master: str) -> bool:
    """Whether driver and executors share this machine's loopback interface."""
    return master.startswith(("local", "spark://127.0.0.1", "spark://localhost"))


def defaults(master: str | None) -> dict[str, str]:
    """What a small machine needs; each line can be set otherwise."""
    cores = str(core_count(master))
    java = f"-Xss4m {LAUNCHER}" if sys.platform == "linux" else "-Xss4m"
    settings = {
        # Their defaults of 200 and 50 make every commit of a small table hundreds of tasks.
        "spark.sql.shuffle.partitions": cores,
        "spark.databricks.delta.snapshotPartitions": cores,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # A MERGE compiles some eighty classes. With room for them, and names without numbers, the next one finds
        # them again, already compiled by the JVM.
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.sql.codegen.useIdInClassName": "false",
        # A union of frames of one partition each would be one partition: chunks would be appended on one core.
        "spark.sql.unionOutputPartitioning": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Parquet's writer looks at its pages and row groups after a hundred rows, and compresses a page as a whole,
        # outside the heap: a page of documents of 1 MB had 100 MB.
        "spark.hadoop.parquet.page.size.row.check.min": "4",
        "spark.hadoop.parquet.block.size.row.check.min": "4",
        # PySpark tells the JVM of each line that makes a column or a frame where it stands: half of a landing's calls.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Chunk reads and the stream's own batches share the executors fairly.
        "spark.scheduler.mode": "FAIR",
        # Spark prints the options of sources; by itself it masks those whose names have "url" in them.
        "spark.sql.redaction.options.regex": "(?i)url|connection.string|jaas|keystore|truststore",
        f"spark.executorEnv.{SAFE_PATH}": "1",
        **{f"spark.executorEnv.{name}": value for name, value in FRUGAL.items()},
        "spark.driver.memory": "2g",
        # Spark's own regular expressions overflow a thread's default stack on long plans and error texts.
        JAVA_OPTIONS: java,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
    }
    if _WAREHOUSE not in _spark_defaults():
        # Our tables have paths, so Spark's own folder stays empty; but it makes one, and by itself where we are called.
        settings[_WAREHOUSE] = Path(tempfile.gettempdir(), f"snapshotter-spark-{os.getuid()}").as_uri()
    if master and runs_here(master):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.python.daemon.module": WORKER_DAEMON,
            f"spark.executorEnv.{INTERPRETER}": sys.executable,
        }
    return settings


def core_count(master: str | None) -> int:
    """The cores a local master names (`local[2]`), else those of this machine."""
    if (
        master
        and master.startswith("local[")
        and (number := master[6:].split("]")[0].split(",")[0]).isdigit()
    ):
        return int(number)
    if master == "local":
        return 1
    return os.cpu_count() or 1
