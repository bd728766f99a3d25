"""The JVM of a Spark: how it is started, how it is ended at once, and why it did not start, asked of Java itself.

It runs in a session of its own. A signal to our process group, as a terminal sends it for Ctrl+C and `timeout` when
time is up, is for us: Spark is ended by us, once what it does for us has been done. It ends with us in any case,
because it reads its standard input, which only we hold. What it prints goes to the log file, where there is one
(`snapshotter.log_file`): its own words, those of Ivy and of Java, and whatever a library writes there, are not for
whoever watches an engine.

Where the JVM ends before it is ready Spark's Python side knows no more than that: what Java has said went past it, to
standard error. A wrong option, no Java at all, and a machine that has no memory to spare look alike; but the last may
pass. So Java is started once more with the same heap, and nothing else, and what it says then is read.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from snapshotter import log_file
from snapshotter.errors import TransientError
from streaming.error_text import said_by

HEAP = "1g"
"""Spark's own, where ``spark.driver.memory`` says nothing."""
_SECONDS = 30
_TIDY_SECONDS = 1.0
_EXITED = re.compile(r"JAVA_GATEWAY_EXITED|Java gateway process exited")
_NO_MEMORY = re.compile(
    r"(?i)could not reserve enough space|insufficient memory|cannot allocate memory|unable to create native thread"
)


def launch(settings: Mapping[str, str]) -> None:
    """Start a JVM for a Spark of these ``settings``, unless this process has one, or is `spark-submit`'s."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, value)
    place = log_file.opened()
    log_file.tells()
    with nullcontext() if place is None else place.open("ab") as output:
        how: dict[str, Any] = {"start_new_session": True}
        if output is not None:
            how |= {"stdout": output, "stderr": subprocess.STDOUT}
        gateway = launch_gateway(conf, how)  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def end_at_once() -> bool:
    """End this process's JVM, and what it has started, in the midst of what they do; nothing where there is none. It
    has a moment to remove its temporary files. False where there is one that is not ours to end (`spark-submit`'s)."""
    from pyspark import SparkContext

    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return SparkContext._gateway is None
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_TIDY_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return True


@contextmanager
def memory_named(heap: str | None) -> Iterator[None]:
    """Raises TransientError where what is started within did not start because this machine has no memory for a JVM of
    that ``heap``; any other error as it is."""
    try:
        yield
    except Exception as error:
        if not _EXITED.search(said_by(error)) or (said := no_memory(heap or HEAP)) is None:
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
