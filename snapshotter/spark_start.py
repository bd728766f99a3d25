"""Why a JVM for Spark did not start, asked of Java itself.

Where its JVM ends before it is ready Spark's Python side knows no more than that: what Java has said went past it, to
standard error. A wrong option, no Java at all, and a machine that has no memory to spare look alike; but the last may
pass. So Java is started once more with the same heap, and nothing else, and what it says then is read.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from snapshotter.errors import TransientError

HEAP = "1g"
"""Spark's own, where ``spark.driver.memory`` says nothing."""
_SECONDS = 30
_EXITED = re.compile(r"JAVA_GATEWAY_EXITED|Java gateway process exited")
_NO_MEMORY = re.compile(
    r"(?i)could not reserve enough space|insufficient memory|cannot allocate memory|unable to create native thread"
)


@contextmanager
def memory_named(heap: str | None) -> Iterator[None]:
    """Raises TransientError where what is started within did not start because this machine has no memory for a JVM of
    that ``heap``; any other error as it is."""
    try:
        yield
    except Exception as error:
        if not _EXITED.search(str(error)) or (said := no_memory(heap or HEAP)) is None:
            raise
        raise TransientError(
            f"Spark's JVM did not start: this machine has no memory for a heap of {heap or HEAP} "
            f"(spark.driver.memory): {said}",
            "free memory, or lower spark.driver.memory, and start again",
            condition="memory-short",
        ) from error


def no_memory(heap: str) -> str | None:
    """What Java says of a ``heap`` that it gets no memory for; None where it gets it, or something else is wrong."""
    if (java := java_command()) is None:
        return None
    try:
        asked = [java, f"-Xmx{heap}", "-version"]  # as Spark starts it
        told = subprocess.run(asked, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return None
    except OSError as error:
        return str(error) if _NO_MEMORY.search(str(error)) else None
    lines = [*told.stderr.splitlines(), *told.stdout.splitlines()] if told.returncode else []
    return next((line.strip() for line in lines if _NO_MEMORY.search(line)), None)


def java_command() -> str | None:
    """The Java that Spark takes: that of JAVA_HOME, else the one on PATH; None where there is none there."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java")
