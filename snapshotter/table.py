"""The table of a collection, as programs and notebooks name it: where it lies, and its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streaming.delta.table_paths import state_path, under
from streaming.namespaces import Namespace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Table:
    """The state table of ``collection`` (``database.collection``), which lies at ``path``. ``session`` gives the Spark
    session that reads it, where none is named."""

    collection: str
    path: str
    session: Callable[[], SparkSession] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, collection: str, warehouse: str, session: Callable[[], SparkSession] | None = None) -> Table:
        """The table of ``collection`` in a ``warehouse``, read by what ``session`` gives. Raises ValueError for what is
        no name of a collection."""
        return cls(collection, under(warehouse, state_path(Namespace.parse(collection))), session)

    def rows(
        self, spark: SparkSession | None = None, *, version: int | None = None, positions: bool = False
    ) -> DataFrame:
        """The rows of the documents that the collection has: with soft deletes its table holds others as well, where
        ``_deleted`` is true. ``spark`` reads them: the engine's own session if None, or the one that is active here.
        ``version``: of an older version (`snapshotter table show` says which). ``positions``: with what
        ``_cluster_time`` says in a form for people: ``_position``, as the engine writes and takes positions, and
        ``_position_at``, the second that it lies in."""
        from pyspark.sql import SparkSession
        from pyspark.sql import functions as F

        from streaming.column_names import CLUSTER_TIME
        from streaming.delta.further_values import live

        session = spark or (self.session() if self.session is not None else SparkSession.active())
        reader = session.read.format("delta")
        found = live((reader if version is None else reader.option("versionAsOf", version)).load(self.path))
        if not positions:
            return found
        seconds = F.shiftright(CLUSTER_TIME, 32)
        increment = F.col(CLUSTER_TIME).bitwiseAND(F.lit((1 << 32) - 1))
        return found.withColumns(
            {"_position": F.concat_ws(".", seconds, increment), "_position_at": F.timestamp_seconds(seconds)}
        )

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path
