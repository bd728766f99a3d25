"""What each kind of process takes, of all that this one has started: CPU time, and memory at its peak.

An engine on a cluster is a Python process, its JVM, an executor on each worker and the Python workers beside it; with
mongod, and a store, on the same machine. A thread looks at all of them once a second (a process that ends between two
looks keeps what it had at the last). Memory is the proportional share (PSS), so pages that forked workers have in
common count once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psutil

from snapshotter.testing.processes import meanwhile

DRIVER_JVM, DRIVER_PYTHON = "driver, JVM", "driver, Python"
EXECUTORS, WORKERS = "executors, JVM", "executors, Python"
MONGOD, CLUSTER, STORE = "mongod", "Spark's master and workers", "object store (moto)"
_LOOKS_S = 1.0
Key = tuple[int, float]
"""A process, by its number and when it began: numbers come again."""


def kind_of(command: str, above: str | None) -> str | None:
    """What a process is that was started with this ``command`` by one of the kind ``above``; None where it is none of
    those that count."""
    program = command.split(" ", 1)[0].rsplit("/", 1)[-1]
    if program.startswith("mongod"):
        return MONGOD
    if program == "java":
        if "CoarseGrainedExecutorBackend" in command:
            return EXECUTORS
        return (
            CLUSTER
            if ".deploy.master.Master" in command or ".deploy.worker.Worker" in command
            else DRIVER_JVM
        )
    if "moto.server" in command:
        return STORE
    if "snapshotter.cli" in command or above in (DRIVER_JVM, DRIVER_PYTHON):
        return DRIVER_PYTHON
    return WORKERS if above in (EXECUTORS, WORKERS) else None


@dataclass(slots=True)
class Taken:
    """Of each kind: core-seconds since the last look at the figures, and the most memory, in bytes, since then."""

    core_seconds: dict[str, float]
    peak_bytes: dict[str, int]


@dataclass(slots=True)
class Watch:
    """All that this process has started. `since` gives the figures, and begins anew."""

    _seen: dict[Key, tuple[str, float]] = field(default_factory=dict)
    _told: Counter[str] = field(default_factory=Counter)
    _peaks: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self) -> None:
        with self._lock:
            kinds: dict[int, str | None] = {}
            memory: Counter[str] = Counter()
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):  # it has ended meanwhile
                    command, parent = " ".join(process.cmdline()), process.ppid()
                    kind = kinds[process.pid] = kind_of(command, kinds.get(parent))
                    if kind is not None:
                        times = process.cpu_times()
                        self._seen[process.pid, process.create_time()] = kind, times.user + times.system
                        memory[kind] += process.memory_full_info().pss
            self._peaks |= memory

    def since(self) -> Taken:
        self.look()
        with self._lock:
            total: Counter[str] = Counter()
            for kind, seconds in self._seen.values():
                total[kind] += seconds
            taken = {kind: round(total[kind] - self._told[kind], 2) for kind in sorted(total)}
            peaks = dict(sorted(self._peaks.items()))
            self._told, self._peaks = total, Counter()
            return Taken(taken, peaks)


@contextmanager
def watching() -> Iterator[Watch]:
    watch = Watch()
    with meanwhile(watch.look, every=_LOOKS_S):
        yield watch
