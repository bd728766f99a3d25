"""Java's classes of Spark and Delta, parsed and verified once for a whole run instead of in each of its JVMs.

A class-data archive (JEP 350) takes a third off the time in which a cold JVM has started Spark, written a table and
merged into it. Tests start some two hundred of them, so the first that needs one makes the archive, as `snapshotter
prepare` does, but for Java as it is in tests.
"""

from __future__ import annotations

import fcntl
from functools import cache
from pathlib import Path

from snapshotter.class_archive import QUIET, place
from snapshotter.preparation import prepare

# Most of a short life is a cold JVM. Without its own size, the code cache of C1 alone is full after a minute.
C1 = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
_FOLDER = Path(__file__).parents[2] / ".pytest_cache" / "java"


@cache
def quick_java() -> str:
    """Java's options for a life of a minute or two: one quick compiler, one thread that collects, known classes."""
    return f"{C1} -XX:SharedArchiveFile={_archive()} {QUIET}"


def _archive() -> Path:
    """Where the archive is; made by whichever process comes first, while the others wait for it."""
    file = place({"XDG_CACHE_HOME": str(_FOLDER)})
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            prepare(file, {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": C1})
    return file
