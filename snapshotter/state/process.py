"""Who runs: the address of a process, and whether a process on this machine is dead for certain.

A process id alone proves little: ids are used again, and containers have ids of their own (an engine in a
container is often process 1, before and after a restart). So a process is known by its *place* (boot of the
kernel and namespace of process ids), its id, and the moment it started. Where the system does not tell (no
``/proc``), the place is the host's name and the start is unknown; then only an id that is not in use counts
as dead.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

_START_FIELD = 19
"""Of ``/proc/<pid>/stat`` after the command's name: field 22 of the line, in clock ticks since boot."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process: ``host`` and ``pid`` for people, ``place`` and ``started`` for certainty."""

    host: str
    pid: int
    place: str
    started: str | None

    def __str__(self) -> str:
        return f"host {self.host}, process {self.pid}"


def this_process() -> Owner:
    """The process that calls."""
    host = socket.gethostname()
    return Owner(host, os.getpid(), _place(host), _started(os.getpid()))


def is_known_dead(owner: Owner, observer: Owner) -> bool:
    """Whether ``owner`` is dead for certain; False where ``observer``, elsewhere, cannot tell."""
    if owner.place != observer.place:
        return False
    if owner.started is not None:
        return _started(owner.pid) != owner.started
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _place(host: str) -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return host


def _started(pid: int) -> str | None:
    """When the process started; None when none of this id lives, or the system does not tell."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    state, *fields = line.rpartition(")")[2].split()
    return None if state in "ZX" else fields[_START_FIELD - 1]
