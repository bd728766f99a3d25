"""A real Spark standalone cluster on loopback, from the pip package alone: a master and some small workers.

    with start_spark_cluster(workers=2) as cluster:
        spark = spark_builder("tests", cluster.settings(), master=cluster.master_url)
        cluster.kill_worker(0)

A session of a cluster needs a process of its own where another session runs already: there is one Spark
context a process.

Invariants: what `start_spark_cluster` returns has all its workers registered; killing a worker ends its
executors with it, as the loss of a machine would; cleaning up is that of `processes`.
"""

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from snapshotter.testing import processes
from snapshotter.testing.processes import GuardedProcess, ServerStartError, wait_until

_MASTER_CLASS = "org.apache.spark.deploy.master.Master"
_WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
_MASTER_UP = re.compile(r"Starting Spark master at (spark://\S+)")
_WORKER_UP = re.compile(r"Successfully registered with master")


class SparkCluster:
    """A cluster that lives in `folder`; `workers` are its processes, in the order of their numbers. Each worker has so
    many `cores` and so much `memory` (as Spark writes it: "1g")."""

    def __init__(self, folder: Path, *, cores: int, memory: str) -> None:
        self.master_url = ""
        self.workers: list[GuardedProcess] = []
        self._folder = folder
        self._cores = cores
        self._memory = memory
        self._master: GuardedProcess | None = None

    def settings(self) -> dict[str, str]:
        """Settings for a session: one executor a worker, with all of its cores and memory."""
        return {"spark.executor.cores": str(self._cores), "spark.executor.memory": self._memory}

    def start_master(self) -> None:
        """Start the master on a port that Spark chooses; `master_url` names it."""
        self._master = self._start("master", [_MASTER_CLASS, "--host", "127.0.0.1", "--port", "0"])
        self.master_url = _wait_for(self._master, _MASTER_UP)

    def start_worker(self) -> GuardedProcess:
        """Start one worker more, and wait until the master has it."""
        name = f"worker{len(self.workers)}"
        size = ["--cores", str(self._cores), "--memory", self._memory]
        place = ["--host", "127.0.0.1", "--work-dir", str(self._folder / name / "work")]
        worker = self._start(name, [_WORKER_CLASS, *size, *place, self.master_url])
        self.workers.append(worker)
        _wait_for(worker, _WORKER_UP)
        return worker

    def kill_worker(self, number: int) -> None:
        """End a worker and its executors as the loss of their machine would."""
        self.workers[number].kill()

    def stop(self) -> None:
        """End everything and remove its folder; may be called again."""
        for process in [*self.workers, self._master]:
            if process is not None:
                process.kill()
        processes.remove_folder(self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self, name: str, arguments: list[str]) -> GuardedProcess:
        folder = self._folder / name
        folder.mkdir()
        spark_class = _spark_home() / "bin" / "spark-class"
        environment = {
            **os.environ,
            "SPARK_HOME": str(_spark_home()),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "PYSPARK_PYTHON": sys.executable,
        }
        return GuardedProcess(
            [str(spark_class), *arguments, "--webui-port", "0"],
            folder=folder,
            output=folder / "output.log",
            env=environment,
            name=f"Spark {name}",
        )


def start_spark_cluster(workers: int = 2, *, cores: int = 1, memory: str = "1g") -> SparkCluster:
    """Start a master and `workers` workers of `cores` cores and `memory` (as Spark writes it) each.

    Returns when all are registered; raises ServerStartError or TimeoutError, and leaves nothing running then.
    """
    cluster = SparkCluster(processes.temporary_folder("spark"), cores=cores, memory=memory)
    try:
        cluster.start_master()
        for _ in range(workers):
            cluster.start_worker()
    except BaseException:
        cluster.stop()
        raise
    return cluster


def _spark_home() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ServerStartError("no Spark to start a cluster from: pip install pyspark")
    return Path(spec.origin).parent


def _wait_for(process: GuardedProcess, pattern: re.Pattern[str]) -> str:
    """Wait until the process has printed `pattern`; returns its group, or the match."""

    def found() -> re.Match[str] | None:
        if not process.alive:
            raise ServerStartError(f"{process.name} ended with code {process.exit_code}:\n{process.tail()}")
        return pattern.search(process.output.read_text(errors="replace")) if process.output.exists() else None

    match = wait_until(found, f"{process.name} to print '{pattern.pattern}'", seconds=90)
    return match.group(match.lastindex or 0)
