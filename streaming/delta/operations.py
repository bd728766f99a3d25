"""What a table's history shows of our own commits: the operations of Delta's commands, and their metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from streaming.jvm import packages, python_utils, singleton

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_METRICS = (
    *("operationNumSourceRows", "numSourceRows", "numTargetRowsInserted", "numTargetRowsUpdated"),
    *("numTargetRowsMatchedUpdated", "numTargetRowsNotMatchedBySourceUpdated", "numTargetRowsDeleted"),
    *("numTargetRowsMatchedDeleted", "numTargetRowsNotMatchedBySourceDeleted", "numTargetRowsCopied"),
    *("numTargetFilesAdded", "numTargetFilesRemoved", "numTargetDeletionVectorsAdded"),
    *("numTargetDeletionVectorsUpdated", "numTargetDeletionVectorsRemoved", "executionTimeMs"),
)
OF_APPEND = ("numFiles", "numOutputRows", "numOutputBytes")
"""The metrics that an append has."""
OF_OPTIMIZE = (
    *("numAddedFiles", "numRemovedFiles", "numAddedBytes", "numRemovedBytes", "numDeletionVectorsRemoved"),
    *("numTableColumns", "numTableColumnsWithStats", "totalScheduledTasks", "numFilesSkippedWithoutStats"),
)
"""The metrics that an OPTIMIZE has here."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """How many ``files`` of ``size_bytes`` became how many others (``made``, ``made_bytes``), and how many rows that
    were marked are gone (``purged``)."""

    files: int
    size_bytes: int
    made: int
    made_bytes: int
    purged: int

    def figures(self) -> dict[str, int]:
        """Of `OF_OPTIMIZE`."""
        names = "numAddedFiles", "numRemovedFiles", "numAddedBytes", "numRemovedBytes"
        return dict(zip(names, (self.made, self.files, self.made_bytes, self.size_bytes), strict=True))


def measured(
    session: SparkSession, transaction: Any, figures: Mapping[str, int], names: Sequence[str] = _METRICS
) -> None:
    """Give Delta's ``transaction``, of this ``session``, the metrics of these ``names`` (those that a MERGE has), from
    these ``figures``; what they lack is 0."""
    metrics = packages(session).org.apache.spark.sql.execution.metric.SQLMetrics
    context = cast(Any, session.sparkContext)._jsc.sc()
    made = {}
    for name in names:
        made[name] = metrics.createMetric(context, name)
        made[name].set(figures.get(name, 0))
    transaction.registerSQLMetrics(session._jsparkSession, python_utils(session).toScalaMap(made))


def merge_operation(session: SparkSession) -> Any:
    """A MERGE by key, as a table's history shows it."""
    jvm, utils = packages(session), python_utils(session)
    delta, none = jvm.org.apache.spark.sql.delta, singleton(jvm.scala, "None")
    clause = getattr(delta, "DeltaOperations$MergePredicate")
    matched = [clause(jvm.scala.Option.apply("s._op = 'd'"), "delete"), clause(none, "update")]
    new = [clause(jvm.scala.Option.apply("s._op <> 'd'"), "insert")]
    clauses = (utils.toSeq(part) for part in (matched, new, []))
    return getattr(delta, "DeltaOperations$Merge")(none, none, none, none, *clauses)


def optimize_operation(session: SparkSession) -> Any:
    """An OPTIMIZE, as a table's history shows it."""
    jvm, utils = packages(session), python_utils(session)
    none = singleton(jvm.scala, "None")
    made = getattr(jvm.org.apache.spark.sql.delta, "DeltaOperations$Optimize")
    return made(utils.toSeq([]), utils.toSeq([]), False, none, False)


def append_operation(session: SparkSession, user_metadata: str | None) -> Any:
    """An append of rows, with the ``user_metadata`` of its commit; None: that of the session."""
    jvm = packages(session)
    none = singleton(jvm.scala, "None")
    mode = jvm.org.apache.spark.sql.SaveMode.Append
    said = none if user_metadata is None else jvm.scala.Option.apply(user_metadata)
    made = getattr(jvm.org.apache.spark.sql.delta, "DeltaOperations$Write")
    return made(mode, none, none, said, *[none] * 5)
