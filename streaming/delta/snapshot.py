"""One version of a Delta table, as Delta's own object tells it by py4j; it is asked within `delta_log.active`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from streaming.delta.java_adds import JavaAdds, in_order
from streaming.json_text import from_text

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


class Snapshot:
    """One version of a table, around Delta's own object: from `delta_log.TableLog`, or what a transaction began at."""

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
        """Delta's id of the table: a new table at the same path has a new one."""
        return str(self._snapshot.metadata().id())

    @property
    def partitions(self) -> frozenset[str]:
        """The columns by which its files lie in partitions."""
        columns = self._snapshot.metadata().partitionColumns()
        return frozenset(str(columns.apply(at)) for at in range(columns.size()))

    def adds(self) -> JavaAdds:
        """The version's data files, as Delta's own objects with their statistics, in the order of their lowest keys."""
        return JavaAdds(self._snapshot, self.data_files() if self.files else None)

    def data_files(self) -> Any:
        """The same as a list of Java's. A Spark job."""
        return in_order(self._snapshot.allFiles()).collectAsList()

    def files_where(self, condition: Column | str, at_most: int) -> list[Any]:
        """Delta's own objects of files of which ``condition`` holds, in Spark's SQL or as a column, on what Delta tells
        of each; of more than ``at_most`` some."""
        wanted = condition if isinstance(condition, str) else condition._jc
        found = self._snapshot.allFiles().where(wanted).limit(at_most)
        return list(found.collect())

    @property
    def marked_rows(self) -> int | None:
        """How many rows are marked in deletion vectors; None where that takes a Spark job to find out."""
        checksum = _option(self._snapshot.checksumOpt())
        counted = None if checksum is None else _option(checksum.numDeletedRecordsOpt())
        return None if counted is None else int(counted)

    @property
    def commits(self) -> int:
        """How many commits a reader has to go through behind the newest checkpoint of the log."""
        return int(self._snapshot.logSegment().deltas().size())

    @property
    def remembers_ms(self) -> int:
        """For how long the table remembers that a file was removed."""
        return int(self._snapshot.deltaLog().tombstoneRetentionMillis(self._snapshot.metadata()))

    @property
    def checkpoint(self) -> int:
        """The version of the newest checkpoint that it is known by; below 0: of none."""
        return int(self._snapshot.logSegment().checkpointProvider().version())

    @property
    def goes_back_ms(self) -> int:
        """For how long the log keeps the table's commits."""
        return int(self._snapshot.deltaLog().deltaRetentionMillis(self._snapshot.metadata()))

    def paths(self, session: SparkSession) -> set[str]:
        """The paths of its data files, and of those that it remembers to be removed. Two Spark jobs."""
        files = self._snapshot.allFiles(), self._snapshot.tombstones()
        return {row[0] for some in files for row in DataFrame(some.toDF(), session).select("path").collect()}

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

    def has_batch(self, app_id: str, batch_id: int) -> bool:
        """Whether ``app_id`` committed this batch, or a later one."""
        recorded = self.recorded(app_id)
        return recorded is not None and recorded >= batch_id

    @property
    def features(self) -> frozenset[str]:
        """The table features that readers or writers must know, by Delta's names."""
        names = self._snapshot.protocol().readerAndWriterFeatureNames().mkString(",")
        return frozenset(names.split(",")) if names else frozenset()

    @property
    def properties(self) -> frozenset[str]:
        """The names of the table's properties."""
        names = self._snapshot.metadata().configuration().keySet().mkString("\n")
        return frozenset(names.split("\n")) if names else frozenset()

    def table_property(self, name: str) -> str | None:
        return cast("str | None", _option(self._snapshot.metadata().configuration().get(name)))


def _option(value: Any) -> Any:
    return value.get() if value.isDefined() else None
