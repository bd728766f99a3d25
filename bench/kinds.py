"""What each kind of process takes, of all that this one has started: CPU time, and memory at its peak.

An engine on a cluster is a Python process, its JVM, an executor on each worker and the Python workers beside it; with
mongod, and a store, on the same machine. On a machine alone the Python workers are the driver's. A thread looks at all
of them once a second. What a process takes behind the last look at it, and all of one that no look has met, is in the
times of the parent that waited for it. Memory is the proportional share (PSS), so pages that forked workers have in
common count once.

What the machine was busy with besides is told as well: somebody else's work spoils a figure.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psutil

from snapshotter.testing.processes import meanwhile

DRIVER_JVM, DRIVER_PYTHON = "driver, JVM", "driver, Python"
DRIVER_WORKERS = "driver, Python workers"
"""What Spark starts in Python beside its driver: planners, and workers where the master is local."""
EXECUTORS, WORKERS = "executors, JVM", "executors, Python"
MONGOD, CLUSTER, STORE = "mongod", "Spark's master and workers", "object store (moto)"
ENGINE, ALL = "engine", "all"
"""Of several kinds at once: the engine's own, and all that count."""
OF_ENGINE = DRIVER_JVM, DRIVER_PYTHON, DRIVER_WORKERS, EXECUTORS, WORKERS
_PYTHON_BELOW = {
    DRIVER_PYTHON: DRIVER_PYTHON,
    DRIVER_JVM: DRIVER_WORKERS,
    DRIVER_WORKERS: DRIVER_WORKERS,
    EXECUTORS: WORKERS,
    WORKERS: WORKERS,
}
"""What a process is, if nothing in its command says so, by the kind of the one that started it."""
_LOOKS_S = 1.0
Key = tuple[int, float]
"""A process, by its number and when it began: numbers come again."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A process at the last look at it: its own core-seconds, and those of its children that it has ``waited`` for."""

    kind: str
    parent: Key | None
    own: float
    waited: float


@dataclass(slots=True)
class Taken:
    """Since the last look at the figures: of each kind core-seconds and the most memory, in bytes; and core-seconds of
    others on this machine, or on the host that it is a guest of."""

    core_seconds: dict[str, float]
    peak_bytes: dict[str, int]
    others_core_seconds: float


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
    if "snapshotter.cli" in command:
        return DRIVER_PYTHON
    return None if above is None else _PYTHON_BELOW.get(above)


def core_seconds(seen: Mapping[Key, Seen], alive: AbstractSet[Key]) -> Counter[str]:
    """What each kind has taken so far, of all processes ever ``seen``. Children that have ended count by what their
    parent knows of them, if that is more than was seen."""
    total: Counter[str] = Counter()
    missed = {key: one.waited for key, one in seen.items()}
    for key, one in seen.items():
        total[one.kind] += one.own
        if key not in alive and one.parent in missed:
            missed[one.parent] -= one.own + one.waited
    for key, seconds in missed.items():
        kind = seen[key].kind
        total[_PYTHON_BELOW.get(kind, kind)] += max(0.0, seconds)
    return total


def _besides() -> float:
    """Core-seconds that the machine has not been idle so far, nor with this very process. What its host gave to others
    (``steal``) is among them."""
    times, own = psutil.cpu_times(), psutil.Process().cpu_times()
    return sum(times) - times.idle - times.iowait - times.guest - times.guest_nice - own.user - own.system


@dataclass(slots=True)
class Watch:
    """All that this process has started. `since` gives the figures, and begins anew."""

    _seen: dict[Key, Seen] = field(default_factory=dict)
    _alive: set[Key] = field(default_factory=set)
    _told: Counter[str] = field(default_factory=Counter)
    _told_besides: float = field(default_factory=_besides)
    _peaks: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self) -> None:
        with self._lock:
            found: dict[int, tuple[Key, str | None]] = {}
            memory: Counter[str] = Counter()
            self._alive.clear()
            for process in psutil.Process().children(recursive=True):  # parents come before their children
                with suppress(psutil.Error):  # it has ended meanwhile
                    key = process.pid, process.create_time()
                    parent, above = found.get(process.ppid(), (None, None))
                    kind = kind_of(" ".join(process.cmdline()), above)
                    found[process.pid] = key, kind
                    if kind is not None:
                        times = process.cpu_times()
                        waited = times.children_user + times.children_system
                        self._seen[key] = Seen(kind, parent, times.user + times.system, waited)
                        self._alive.add(key)
                        memory[kind] += process.memory_full_info().pss
            together = {ENGINE: sum(memory[kind] for kind in OF_ENGINE), ALL: memory.total()}
            self._peaks |= memory | Counter(together)

    def since(self) -> Taken:
        self.look()
        with self._lock:
            total, besides = core_seconds(self._seen, self._alive), _besides()
            taken = {kind: round(total[kind] - self._told[kind], 2) for kind in sorted(total)}
            peaks = dict(sorted(self._peaks.items()))
            others = besides - self._told_besides - sum(taken.values())
            self._told, self._told_besides, self._peaks = total, besides, Counter()
            return Taken(taken, peaks, round(others, 2))


@contextmanager
def watching() -> Iterator[Watch]:
    watch = Watch()
    with meanwhile(watch.look, every=_LOOKS_S):
        yield watch
