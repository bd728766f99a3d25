"""A checkpoint of a table's log, after which the version in memory stands upon it, without listing the log.

Delta learns of a checkpoint that it has just written by listing the log's folder, which holds a week of commits: with
400,000 files that took 28 s of a processor, every half minute. But all that a version in memory needs to know of a new
checkpoint is its file, and the commits behind it are those that it has already.

Invariants: what stands upon the checkpoint is the version in memory, whichever that is by now, with the same commits
behind the checkpoint; Delta's own lock of it is held meanwhile, for others may commit beside this. Wherever something
is not as expected (checkpoints in parts or with sidecars, another table in the folder, a gap) Delta lists the log.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from streaming.delta.log_checksums import remove_old_checksums
from streaming.delta.newest_version import NO_TABLE, newest
from streaming.delta.table_properties import INTERVAL, LEFT_TO_UPKEEP
from streaming.jvm import packages, python_utils, singleton

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streaming.delta.snapshot import Snapshot


def left_to_us(table: Snapshot) -> dict[str, str] | None:
    """The property by which Delta leaves checkpoints of a ``table``, each of which takes longer than a commit, to us;
    None where somebody has said how often there is to be one."""
    return dict(LEFT_TO_UPKEEP) if table.table_property(INTERVAL) is None else None


def write_checkpoint(session: SparkSession, log: Any, *, cleans: bool) -> None:
    """Write a checkpoint of the newest version of Delta's ``log``, in ``session``; with ``cleans`` let go of what is
    older than the log is to be, as Delta does behind a commit, and of old checksums, which lists the log. Without a
    table nothing is done. Raises what Spark and Hadoop raise, and OSError."""
    jvm = packages(session)
    none, seen = singleton(jvm.scala, "None"), newest(session, log)
    if int(seen.version()) == NO_TABLE:
        return
    # Delta's `checkpoint` is these three, and always cleans.
    written = log.writeCheckpointFiles(seen, none)
    info = singleton(jvm.org.apache.spark.sql.delta, "LastCheckpointInfo")
    log.writeLastCheckpointFile(log, written, info.checksumEnabled(session._jsparkSession))
    if cleans:
        log.doLogCleanup(seen, none)
        remove_old_checksums(str(log.logPath().toString()), int(seen.version()))


def stand_upon_it(session: SparkSession, log: Any) -> None:
    """Let the version in memory stand upon the newest checkpoint that Delta's ``log`` names. A transaction that is in
    flight, and commits later, takes that back, until this is called again: what it began with stands on the one
    before."""
    seen, said = newest(session, log), log.readLastCheckpointFile()
    if int(seen.version()) == NO_TABLE or not said.isDefined():
        return
    if not _stands_upon(session, log, seen, said):
        none = singleton(packages(session).scala, "None")
        log.update(False, none, none)


def _stands_upon(session: SparkSession, log: Any, seen: Any, said: Any) -> bool:
    """The same of the checkpoint of which so much is ``said``, where the newest version was ``seen``; False where that
    is no plain file, or not one of this table."""
    jvm, version = packages(session), int(said.get().version())
    if said.get().parts().isDefined() or said.get().v2Checkpoint().isDefined():
        return False
    path = jvm.org.apache.spark.sql.delta.util.FileNames.checkpointFileSingular(log.logPath(), version)
    files = log.logPath().getFileSystem(log.newDeltaHadoopConf())
    if not files.exists(path):
        return False
    instance = singleton(jvm.org.apache.spark.sql.delta, "CheckpointInstance").apply(path)
    found = python_utils(session).toSeq([files.getFileStatus(path)])
    provider = instance.getCheckpointProvider(log, found, said)
    with _locked(log.snapshotLock()):
        held = log.unsafeVolatileSnapshot()
        if held.metadata().id() != seen.metadata().id() or int(held.version()) < version:
            return False
        segment = held.logSegment()
        if int(segment.checkpointProvider().version()) >= version:
            return True
        later = segment.deltas().takeRight(int(held.version()) - version)
        if not _follow(jvm, later, version, int(held.version())):
            return False
        modified = segment.lastCommitFileModificationTimestamp()
        upon = segment.copy(segment.logPath(), segment.version(), later, provider, modified)
        none = singleton(jvm.scala, "None")
        snapshot = log.createSnapshot(upon, held.tableCommitCoordinatorClientOpt(), none, held.checksumOpt())
        log.installSnapshot(snapshot, int(time.time() * 1_000))
    return True


def _follow(jvm: Any, deltas: Any, version: int, newest_version: int) -> bool:
    """Whether these are the commits behind ``version``, each of them."""
    names = jvm.org.apache.spark.sql.delta.util.FileNames
    paths = [deltas.apply(number).getPath() for number in range(int(deltas.size()))]
    if not all(names.isDeltaFile(path) for path in paths):
        return False
    return [int(names.deltaVersion(path)) for path in paths] == list(range(version + 1, newest_version + 1))


@contextmanager
def _locked(lock: Any) -> Iterator[None]:
    """A lock of Java's, of the thread that serves this one."""
    lock.lock()
    try:
        yield
    finally:
        lock.unlock()
