"""The newest version of a table, found without listing its log.

Delta has the version that it saw last in memory, and versions have no gaps. So whether another one has come, also from
another process, is a look at two files: that of the version in memory is still the one that it saw, and there is none
of the next. Delta itself lists the whole log eight times a landing, and a log of months has hundreds of thousands of
files.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from streaming.jvm import packages, singleton

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_TABLE = -1
"""The version of a log without any."""
_NOT_FOUND = "java.io.FileNotFoundException"
LOCAL = "file:"
"""What Hadoop's names of folders on this machine's disks begin with."""
_FILE = "{:020d}.json"


def newest(session: SparkSession, log: Any) -> Any:
    """Delta's object for the newest version that its ``log`` has, in ``session``: what it has in memory, where the file
    of that version is the one that it saw, and none of the next is there. Else the log is listed."""
    held = log.unsafeVolatileSnapshot()
    version = int(held.version())
    if version != NO_TABLE and _is_newest(packages(session), log, held, version):
        return held
    none = singleton(packages(session).scala, "None")
    return log.update(False, none, none)


def _is_newest(jvm: Any, log: Any, held: Any, version: int) -> bool:
    seen = int(held.logSegment().lastCommitFileModificationTimestamp())
    folder = log.logPath()
    if (place := str(folder.toString())).startswith(LOCAL):
        return _is_newest_here(place.removeprefix(LOCAL), seen, version)
    names = jvm.org.apache.spark.sql.delta.util.FileNames
    files = folder.getFileSystem(log.newDeltaHadoopConf())
    try:
        status = files.getFileStatus(names.unsafeDeltaFile(folder, version))
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != _NOT_FOUND:
            raise
        return False
    return int(status.getModificationTime()) == seen and not files.exists(
        names.unsafeDeltaFile(folder, version + 1)
    )


def _is_newest_here(folder: str, seen: int, version: int) -> bool:
    """The same in a ``folder`` of this machine: two looks at a file, where Java takes thirteen calls and a new set of
    Hadoop's settings. ``seen``: when the version's file was written, in milliseconds since 1970."""
    try:
        written = Path(folder, _FILE.format(version)).stat().st_mtime_ns
    except FileNotFoundError:
        return False
    return written // 1_000_000 == seen and not Path(folder, _FILE.format(version + 1)).exists()


def begun_at_newest(session: SparkSession, log: Any) -> Any:
    """A transaction of Delta's on its ``log``, in ``session``, that begins at the newest version. Delta would list the
    log for it."""
    jvm = packages(session)
    seen, none = newest(session, log), singleton(jvm.scala, "None")
    return log.startTransaction(
        none, none if int(seen.version()) == NO_TABLE else jvm.scala.Option.apply(seen)
    )
