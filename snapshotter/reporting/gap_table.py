"""Gaps as rows of a Delta table, ``gaps`` beside the engine's state: what was missed, why, and whether it is healed.

One row a gap, written when it opens and again when it closes. Announcements come at least once, so a row is merged by
the gap's number.

Columns: ``number``, ``cause``, ``policy`` ("heal" or "continue"), ``since`` and ``upto`` (the cluster times between
which nothing was seen, as timestamps; the increments are in ``positions``), ``collections`` (whose tables are in
doubt), ``error``, ``found_at``, ``closed_at`` (the position by which all were compared; null while the gap is open).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import functions as F

from snapshotter.core.rules.announcements import GAP_CLOSED, GAP_OPENED
from snapshotter.core.values.effects import Announce
from streaming.delta.state_merge import session_of_few

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

FOLDER = "gaps"
_NUMBER = "number"
_TEXTS = (_NUMBER, "cause", "policy", "since", "upto", "collections", "error", "found_ms", "closed")
_SCHEMA = ", ".join(f"{name} STRING" for name in _TEXTS)


class GapTable:
    """The table at ``path``, made by the first gap. ``spark`` is asked for the session then."""

    def __init__(self, spark: Callable[[], SparkSession], path: str) -> None:
        self._spark = spark
        self._path = path

    def on_announcement(self, announced: Announce) -> None:
        """Write the row of a gap that has opened or closed. Raises what Spark raises: it will be announced again."""
        if announced.kind in (GAP_OPENED, GAP_CLOSED):
            self.write(announced.data)

    def write(self, gap: Mapping[str, str]) -> None:
        """``gap``: the data of its announcement."""
        session = session_of_few(self._spark())
        row = session.createDataFrame([tuple(gap.get(name) or None for name in _TEXTS)], _SCHEMA)
        table = row.select(
            F.col("number").cast("long").alias("number"),
            "cause",
            "policy",
            _time("since"),
            _time("upto"),
            F.split("collections", ",").alias("collections"),
            F.create_map(F.lit("since"), F.col("since"), F.lit("upto"), F.col("upto")).alias("positions"),
            "error",
            F.timestamp_millis(F.col("found_ms").cast("long")).alias("found_at"),
            _time("closed").alias("closed_at"),
        )
        builder = DeltaTable.createIfNotExists(session).location(self._path).addColumns(table.schema)
        merge = (
            builder.execute()
            .alias("t")
            .merge(table.alias("s"), F.col(f"t.{_NUMBER}") == F.col(f"s.{_NUMBER}"))
        )
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def _time(name: str) -> Column:
    """A cluster time, as "seconds.increment", as a timestamp."""
    return F.timestamp_seconds(F.substring_index(name, ".", 1).cast("long")).alias(name)
