"""What the log of a Delta table says, read through Delta's own classes by py4j.

`TableLog.newest` lists the log again on each call, so that commits of other processes are seen. A call takes
some ten milliseconds and no Spark job, because Delta keeps the answers in a checksum file beside each commit
(where that is missing it reads the log with a job instead).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.types import StructType

from streaming.json_text import from_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_TABLE = -1
_STAGED = "_staged_commits"


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of a table: the operation by Delta's name, its metrics, the writer's ``userMetadata``."""

    version: int
    operation: str
    metrics: Mapping[str, str]
    user_metadata: str | None

    def count(self, metric: str) -> int:
        """A metric as a number; 0 when the operation does not have it."""
        return int(self.metrics.get(metric, "0"))


class Snapshot:
    """One version of a table, around Delta's own object: from `TableLog`, or what a transaction began at."""

    def __init__(self, snapshot: Any) -> None:
        self._snapshot = snapshot
        self.version = int(snapshot.version())

    @property
    def files(self) -> int:
        """How many data files the version has; 0 when there is no row (more may hold none either)."""
        checksum = _option(self._snapshot.checksumOpt())
        return int((self._snapshot.numOfFiles if checksum is None else checksum.numFiles)())

    @property
    def size(self) -> int:
        """Bytes of the version's data files."""
        checksum = _option(self._snapshot.checksumOpt())
        return int(self._snapshot.sizeInBytes() if checksum is None else checksum.tableSizeBytes())

    @property
    def table_id(self) -> str:
        """Another table at the same place has another one."""
        return str(self._snapshot.metadata().id())

    def data_files(self) -> list[Any]:
        """The version's data files, as Delta's own objects with their statistics. A Spark job."""
        found = self._snapshot.allFiles().collect()
        return [found[at] for at in range(len(found))]

    @property
    def schema(self) -> StructType:
        return StructType.fromJson(from_text(self._snapshot.schema().json()))

    def recorded(self, app_id: str) -> int | None:
        """The newest ``txnVersion`` that ``app_id`` committed, or None when it never did."""
        checksum = _option(self._snapshot.checksumOpt())
        listed = None if checksum is None else _option(checksum.setTransactions())
        if listed is None:
            return cast("int | None", _option(self._snapshot.transactions().get(app_id)))
        marks = (listed.apply(at) for at in range(listed.size()))
        return next((int(mark.version()) for mark in marks if mark.appId() == app_id), None)

    @property
    def features(self) -> frozenset[str]:
        """The table features that readers or writers must know, by Delta's names."""
        names = self._snapshot.protocol().readerAndWriterFeatureNames().mkString(",")
        return frozenset(names.split(",")) if names else frozenset()

    def table_property(self, name: str) -> str | None:
        return cast("str | None", _option(self._snapshot.metadata().configuration().get(name)))


class TableLog:
    """The log of the table at ``path``, a local path or a URI."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._session = spark._jsparkSession
        self._jvm = cast(Any, spark._jvm)  # py4j has no types
        self._path = path

    def newest(self) -> Snapshot | None:
        """The newest version; None when no table is there."""
        none = singleton(self._jvm.scala, "None")
        snapshot = Snapshot(self._delta_log().update(False, none, none))
        return None if snapshot.version == _NO_TABLE else snapshot

    def commits_down(self, newest: int, oldest: int = 0) -> Iterator[Commit]:
        """The commits ``newest``, ``newest - 1``, … down to ``oldest``, as far as the log still has them."""
        log = self._delta_log()
        files = log.logPath().getFileSystem(log.newDeltaHadoopConf())
        for version in range(newest, oldest - 1, -1):
            path = self._jvm.org.apache.spark.sql.delta.util.FileNames.unsafeDeltaFile(log.logPath(), version)
            if not files.exists(path):
                return
            yield self._commit(version, files.open(path))

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

    def _commit(self, version: int, stream: Any) -> Commit:
        reader = self._jvm.java.io.BufferedReader(self._jvm.java.io.InputStreamReader(stream, "UTF-8"))
        try:
            # Delta writes the commit's information in the first line; other writers may not.
            while (line := reader.readLine()) is not None:
                information = from_text(line).get("commitInfo")
                if information is not None:
                    return Commit(
                        version,
                        information.get("operation", ""),
                        information.get("operationMetrics") or {},
                        information.get("userMetadata"),
                    )
        finally:
            reader.close()
        return Commit(version, "", {}, None)

    def _delta_log(self) -> Any:
        return self._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._session, self._path)


def singleton(package: Any, name: str) -> Any:
    """Scala's object of this name in a package of py4j's."""
    return getattr(package, f"{name}$").__getattr__("MODULE$")


def _option(value: Any) -> Any:
    return value.get() if value.isDefined() else None
