"""How much memory a process and all of its children take: their proportional share of what they have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

from snapshotter.testing.processes import meanwhile

_EVERY_SECONDS = 0.25


@dataclass(slots=True)
class Peaks:
    """The most that was seen, in bytes: of the JVM, and of all Python processes together."""

    java: int = 0
    python: int = 0

    def beside(self, heap_bytes: int) -> int:
        """What there was beside a Java heap of that size."""
        return max(0, self.java - heap_bytes) + self.python


@contextmanager
def watched(pid: int) -> Iterator[Peaks]:
    """Looks at the process and its children all the while."""
    peaks = Peaks()

    def look() -> None:
        java = python = 0
        with suppress(psutil.Error):
            for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
                with suppress(psutil.Error):  # it has ended meanwhile
                    taken = process.memory_full_info().pss
                    if "java" in process.name():
                        java += taken
                    else:
                        python += taken
        peaks.java, peaks.python = max(peaks.java, java), max(peaks.python, python)

    with meanwhile(look, every=_EVERY_SECONDS):
        yield peaks
