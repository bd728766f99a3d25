"""What the log of a Delta table says, read through Delta's own classes by py4j.

`TableLog.newest` sees commits of other processes on each call, without listing the log (`newest_version`), and without
a Spark job, because Delta keeps the answers in a checksum file beside each commit (where that is missing it reads the
log with a job instead).

**Delta's parts look for their session in the thread they run in**, and some have no other: where a version has a
checkpoint and no checksum (RESTORE leaves one so), a thread without one fails with DELTA_SPARK_SESSION_NOT_SET. So
whatever asks them does it within `active`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)

from streaming.delta.log_checkpoint import stand_upon_it, write_checkpoint
from streaming.delta.log_commits import LogCommits
from streaming.delta.newest_version import NO_TABLE, begun_at_newest, newest
from streaming.delta.operations import measured, merge_operation
from streaming.delta.snapshot import Snapshot
from streaming.delta.table_folder import TableFolder, table_folder, try_writing
from streaming.jvm import packages, python_utils, singleton

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# In Python they have no common base. ConcurrentTransactionException is left out: it means another commit
# under our own application id, so a second engine, which trying again would only hide.
CONFLICTS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
"""Another writer was quicker: worth another attempt."""
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_METADATA = ("id", "name", "description", "format", "schemaString", "partitionColumns")
_STAGED = "_staged_commits"


class TableLog:
    """The log of the table at ``path``, a local path or a URI, and its ``commits``."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._session = spark._jsparkSession
        self._jvm = packages(spark)
        self._utils = python_utils(spark)
        self._path = path
        self.commits = LogCommits(self._jvm, self._delta_log)

    def newest(self) -> Snapshot | None:
        """The newest version; None when no table is there."""
        snapshot = Snapshot(newest(self._spark, self._delta_log()))
        return None if snapshot.version == NO_TABLE else snapshot

    def has_batch(self, app_id: str, batch_id: int) -> bool:
        """Whether the newest version is one where ``app_id`` has committed this batch, or a later one."""
        newest = self.newest()
        return newest is not None and newest.has_batch(app_id, batch_id)

    def folder(self) -> TableFolder:
        """The table's folder. Raises `OutOfReach` where only the JVM reaches it."""
        return table_folder(self._jvm, self._delta_log())

    def try_writing(self, folder: TableFolder, names: Sequence[str]) -> None:
        """`table_folder.try_writing` into the table's ``folder``, under these ``names``."""
        try_writing(self._spark, self._delta_log(), folder, names)

    def checkpoint(self, *, cleans: bool) -> None:
        """`log_checkpoint.write_checkpoint` of the newest version."""
        write_checkpoint(self._spark, self._delta_log(), cleans=cleans)

    def stand_upon_checkpoint(self) -> None:
        """`log_checkpoint.stand_upon_it`."""
        stand_upon_it(self._spark, self._delta_log())

    def oldest_commit(self, newest: int) -> int:
        """The oldest version of which the log has the commit, where it has that of ``newest`` and of each between."""
        low, high = 0, newest
        while low < high:
            middle = (low + high) // 2
            files, path = self.commits.file(middle)
            low, high = (low, middle) if files.exists(path) else (middle + 1, high)
        return low

    def begins_behind(self, ms: int) -> bool:
        """Whether the table's first commit is still there, and was written behind this time (since 1970)."""
        files, path = self.commits.file(0)
        return files.exists(path) and int(files.getFileStatus(path).getModificationTime()) > ms

    def forget(self, first: int, behind: int, before_ms: int) -> int:
        """Remove the commits from version ``first`` on that are older than ``before_ms`` (milliseconds since 1970), but
        none from ``behind`` on, with checksums and checkpoints of these versions; the first that stays. A checkpoint of
        one that stays, or of a later one, must be there. Raises what Hadoop raises."""
        files, path = self.commits.file(first)
        names, folder = self._jvm.org.apache.spark.sql.delta.util.FileNames, path.getParent()
        for version in range(first, behind):
            path = names.unsafeDeltaFile(folder, version)
            if files.exists(path):
                if int(files.getFileStatus(path).getModificationTime()) >= before_ms:
                    return version
                for old in (names.checksumFile, names.checkpointFileSingular):
                    files.delete(old(folder, version), False)
                files.delete(path, False)  # the last, for the oldest one is found by it
        return max(first, behind)

    def oldest_kept(self, before_ms: int) -> int:
        """The oldest version that can be read once files are removed that no version has had since ``before_ms``
        (milliseconds since 1970). Lists the log."""
        none, at = singleton(self._jvm.scala, "None"), self._jvm.java.sql.Timestamp(before_ms)
        return int(self._delta_log().history().getActiveCommitAtTime(at, none, True, True, True).version())

    def set_properties(
        self, wanted: Callable[[Snapshot], Mapping[str, str] | None], user_metadata: str | None = None
    ) -> None:
        """Set the properties that ``wanted`` returns for the version at which the transaction begins; None: no commit.
        Raises one of `CONFLICTS` where somebody else has changed the table meanwhile."""
        delta = self._jvm.org.apache.spark.sql.delta
        with active(self._spark):
            transaction = begun_at_newest(self._spark, self._delta_log())
            begun = transaction.snapshot()
            properties = wanted(Snapshot(begun))
            if properties is None:
                return
            new = self._utils.toScalaMap(dict(properties))
            was = begun.metadata()
            kept = [getattr(was, name)() for name in _METADATA]
            merged = was.configuration().__getattr__("$plus$plus")(new)
            transaction.updateMetadata(was.copy(*kept, merged, was.createdTime()), False)
            operation = getattr(delta, "DeltaOperations$SetTableProperties")(new)
            with configured(self._spark, {} if user_metadata is None else {USER_METADATA: user_metadata}):
                transaction.commit(self._utils.toSeq([]), operation)

    def clear_unfinished(self) -> None:
        """Remove a log in which no commit was ever finished.

        A process that is killed while it creates a table leaves ``_delta_log`` with a temporary file and no version.
        Delta then takes the folder for a table that is broken, and creates none there for ever.
        """
        log = self._delta_log()
        files = log.logPath().getFileSystem(log.newDeltaHadoopConf())
        if not files.exists(log.logPath()):
            return
        names = [status.getPath().getName() for status in files.listStatus(log.logPath())]
        if all(name.startswith(".") or name == _STAGED for name in names):
            files.delete(log.logPath(), True)

    def _delta_log(self) -> Any:
        return self._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._session, self._path)


def record(session: SparkSession, path: str, app_id: str, version: int) -> None:
    """Commit, in ``session``, that batch ``version`` of ``app_id`` has left the table at ``path`` as it was: no file
    comes or goes, so any table takes it. A commit of the same application meanwhile is a conflict."""
    jvm = packages(session)
    delta = jvm.org.apache.spark.sql.delta
    transaction = begun_at_newest(session, delta.DeltaLog.forTable(session._jsparkSession, path))
    transaction.readTxn().addOne(app_id)
    if Snapshot(transaction.snapshot()).has_batch(app_id, version):
        return
    mark = delta.actions.SetTransaction(app_id, version, jvm.scala.Option.apply(int(time.time() * 1_000)))
    measured(session, transaction, {})
    transaction.commit(python_utils(session).toSeq([mark]), merge_operation(session))


def metadata_text(said: Mapping[str, Any]) -> str:
    """A commit's ``userMetadata`` that says this (JSON values)."""
    # Spark substitutes ${...} in settings, which is where a MERGE takes its metadata from.
    return json.dumps(said, separators=(",", ":")).replace("$", "\\u0024")


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Within, Delta's parts find this session."""
    sessions = packages(session).org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


@contextmanager
def configured(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """These settings within, and afterwards what was set before."""
    before = {name: session.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, was in before.items():
            if was is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, was)
