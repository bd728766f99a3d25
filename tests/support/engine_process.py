"""An engine as operators run it: ``snapshotter run -c FILE`` in a process of its own, which may be killed.

The process stands under a guardian, so that neither it nor its JVM outlives a test run. What it logs is kept, and is
the message of whatever fails here.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil

from snapshotter.cli.common import open_state
from snapshotter.cli.signal_commands import build_action, send
from snapshotter.configuration.settings import Settings
from snapshotter.reporting.status import RequestReport, Status
from snapshotter.testing.processes import GuardedProcess, wait_until
from tests.support.class_archive import quick_java

T = TypeVar("T")
_COMMAND = "import sys; from snapshotter.cli import main; sys.exit(main())"
# The guardian ends the whole group with its first process. So that one is a shell, which stays a while when the engine
# was killed: only then can it be seen whether the JVM ends by itself.
_SHELL = '"$@"; code=$?; [ $code -eq 137 ] && exec sleep 120; exit $code'
_SECONDS = 600.0
_SMALL = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "engine.trigger.interval.ms": "100",
}


class EngineFailed(AssertionError):
    """The engine did not do what was waited for; the message ends with the last of its log."""


@dataclass(slots=True)
class EngineProcess:
    """One engine of one name, started as often as a test likes. ``folder`` holds its settings, logs and warehouse."""

    folder: Path
    options: Mapping[str, str]
    process: GuardedProcess | None = None
    starts: int = 0
    signals_sent: int = 0
    settings: Settings = field(init=False)

    def __post_init__(self) -> None:
        # Once: whoever waits for what is on disk asks for its place fifty times a second.
        self.settings = Settings.from_options(self._all(), environ={})

    @property
    def file(self) -> Path:
        return self.folder / "engine.json"

    @property
    def state(self) -> Path:
        return Path(self.settings.state_location())

    @property
    def log(self) -> Path:
        return self.folder / f"engine-{self.starts}.log"

    def start(self, *arguments: str) -> EngineProcess:
        """``snapshotter run`` with these arguments; returns at once."""
        assert self.process is None or not self.process.alive, "it is running already"
        self.write()
        self.starts += 1
        self.process = GuardedProcess(
            [
                "sh",
                "-c",
                _SHELL,
                "sh",
                sys.executable,
                "-c",
                _COMMAND,
                "run",
                "-c",
                str(self.file),
                *arguments,
            ],
            folder=self.folder / "scratch",
            output=self.log,
            env={
                **os.environ,
                "SNAPSHOTTER_LOG_LEVEL": "info",
                "SNAPSHOTTER_LOG_FILE": str(self.spark_log),
            },
            name="the engine",
        )
        return self

    def write(self) -> None:
        """Its configuration, as `file`."""
        self.file.write_text(json.dumps({"name": self.options["name"], "config": self._all()}))

    @property
    def spark_log(self) -> Path:
        """Where Spark and Java write, and all that is logged."""
        return self.folder / "spark.log"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.alive

    def kill(self, *, alone: bool) -> None:
        """SIGKILL, and wait until all it had started is gone. ``alone``: only the Python process is killed, and its JVM
        and workers must end by themselves; else all of them at once, as when their machine is lost."""
        process, main = self._started(), self._main()
        family = [main, *main.children(recursive=True)]
        if alone:
            main.kill()
            names = [p.pid for p in _living(family)]
            wait_until(lambda: not _living(family), f"the engine's {names} to end after it")
        for one in _living(family):  # the JVM is in a session of its own, where no signal to the group comes
            with suppress(psutil.NoSuchProcess):
                one.kill()
        process.kill()
        wait_until(lambda: not _living(family), "the killed processes to be gone")

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Nothing of it runs meanwhile: SIGSTOP, and SIGCONT, for it and all it has started."""
        main = self._main()
        family = [main, *main.children(recursive=True)]
        for process in _living(family):
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        try:
            yield
        finally:
            for process in _living(family):
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    def stop_where(self, what: str, there: Callable[[], bool]) -> None:
        """SIGSTOP its Python process where it is ``there``, and leave it so: what its JVM is about goes on."""
        main = self._main()

        def stopped() -> bool:
            if not there():
                return False
            main.suspend()
            if there():
                return True
            main.resume()
            return False

        self.until(what, stopped)

    def kill_java(self) -> None:
        """SIGKILL for its JVM alone."""
        for process in self._main().children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # one of Spark's Pythons has ended meanwhile
                if process.name() == "java":
                    process.kill()

    def terminate(self, seconds: float = _SECONDS) -> int:
        """SIGTERM, as a service manager sends it to the main process; returns the exit code."""
        self._main().send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds: float = _SECONDS) -> int:
        """Until it ends by itself; returns the exit code."""
        process = self._started()
        self._until(lambda: not process.alive, "the engine to end", seconds)
        assert process.exit_code is not None
        return process.exit_code

    def until(self, what: str, ready: Callable[[], T | None], seconds: float = _SECONDS) -> T:
        """Wait for a condition while it runs; fails with its log when it ends before."""

        def look() -> T | None:
            found = ready()
            if not found and not self.alive:
                raise EngineFailed(f"the engine ended while waiting for {what}\n{self._started().tail(60)}")
            return found

        return self._until(look, what, seconds)

    def _until(self, ready: Callable[[], T | None], what: str, seconds: float) -> T:
        try:
            return wait_until(ready, what, seconds=seconds, every=0.02)
        except TimeoutError as error:
            raise EngineFailed(f"{error}\n{self._started().tail(60)}") from error

    def execute_snapshot(self, *collections: str, kind: str = "incremental") -> str:
        """Send a signal as the command line does; returns its id."""
        self.signals_sent += 1
        request_id = f"{self.options['name']}-{self.signals_sent}"
        settings = self.settings
        send(settings, open_state(settings), build_action(list(collections), None, kind, request_id))
        return request_id

    # What it left on disk, read without asking it

    def batches(self) -> list[int]:
        """Batches whose progress is saved."""
        return sorted(int(path.stem) for path in self._files("progress", "[0-9]*.json"))

    def progress(self) -> dict[str, Any] | None:
        """The newest progress saved."""
        batches = self.batches()
        if not batches:
            return None
        found: dict[str, Any] = json.loads((self.state / "progress" / f"{batches[-1]:012d}.json").read_text())
        return found

    def status(self) -> Status | None:
        path = self.state / "status.json"
        return Status.from_json(path.read_text()) if path.exists() else None

    def request(self, request_id: str) -> RequestReport | None:
        status = self.status()
        return status.request(request_id) if status is not None else None

    def app_id(self) -> str:
        """The application id that the tables record its batches under."""
        text = (self.state / "checkpoint" / "metadata").read_text()
        return f"snapshotter:{self.options['name']}:{json.loads(text)['id']}"

    def table(self, database: str, collection: str) -> Path:
        return Path(self.settings.warehouse()) / "state" / database / collection

    def files_of_progress(self, kind: str) -> int:
        """How many steps of a kind are durable so far: table "commits", saved "progress", planned "offsets"."""
        if kind == "commits":
            found = Path(self.settings.warehouse()).glob("state/*/*/_delta_log/[0-9]*.json")
            return sum(1 for _ in found)
        if kind == "progress":
            return max(self.batches(), default=-1)
        return max((int(path.name) for path in self._files("checkpoint/offsets", "[0-9]*")), default=-1)

    def _files(self, folder: str, pattern: str) -> Iterator[Path]:
        return (self.state / folder).glob(pattern)

    def _all(self) -> dict[str, str]:
        java = quick_java()
        quick = {"spark.driver.extraJavaOptions": java, "spark.executor.extraJavaOptions": java}
        return {**_SMALL, **quick, "delta.warehouse": str(self.folder / "warehouse"), **self.options}

    def _main(self) -> psutil.Process:
        """The engine's own process, below the shell."""
        process = self._started()

        def found() -> list[psutil.Process]:
            if not process.alive:
                raise EngineFailed(f"the engine has ended already\n{process.tail(60)}")
            return psutil.Process(process.pid).children()

        return wait_until(found, "the engine's process")[0]

    def _started(self) -> GuardedProcess:
        assert self.process is not None, "it was never started"
        return self.process


def _living(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if _lives(process)]


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:  # it went between the two questions
        return False
