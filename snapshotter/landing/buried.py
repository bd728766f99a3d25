"""The table of dead letters as operators look at it (`landing.targets.dead_letters` writes it): which there are, one
of them whole, and marking those that have been replayed.

The engine may append meanwhile. What it appends to a table conflicts with no mark of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import reduce
from typing import Any

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from snapshotter.landing.frames import frame_of
from streaming.delta.state_merge import session_of_few


@dataclass(frozen=True, slots=True)
class Letter:
    """A row of the table, under its names; ``key`` and ``document_id`` are ``_key`` and ``_id``. ``bytes`` are read
    only where they are asked for."""

    id: str
    ts_ms: int
    stage: str
    collection: str | None
    operation: str | None
    key: str | None = field(metadata={"column": "_key"})
    document_id: str | None = field(metadata={"column": "_id"})
    cluster_time: int | None = field(metadata={"column": "_cluster_time"})
    resume_token: str | None
    batch: int
    request: str | None
    window: str | None
    error: str
    size: int
    sha256: str | None
    replayed_at: int | None
    replayed_by: str | None
    bytes: bytes | None = None

    def to_json(self) -> dict[str, Any]:
        """By the names of the columns, without the bytes."""
        return {_column(one): getattr(self, one.name) for one in fields(self) if one.name != "bytes"}


def _column(one: Any) -> str:
    return str(one.metadata.get("column", one.name))


class BuriedLetters:
    """Those in the table at ``path``, which may not be there yet."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._session = session_of_few(spark)
        self._path = path

    def find(
        self,
        ids: Sequence[str] = (),
        collections: Sequence[str] = (),
        *,
        waiting: bool = False,
        most: int | None = None,
        whole: bool = False,
    ) -> list[Letter]:
        """The newest first, at most ``most``: with these ``ids`` (or what an id begins with), of these ``collections``;
        none given is all. ``waiting``: only what has not been replayed. ``whole``: with their bytes."""
        if not DeltaTable.isDeltaTable(self._session, self._path):
            return []
        rows = self._session.read.format("delta").load(self._path)
        if ids:
            rows = rows.where(_any_of([F.col("id").startswith(one) for one in ids]))
        if collections:
            rows = rows.where(_any_of([F.col("collection") == one for one in collections]))
        if waiting:
            rows = rows.where(F.col("replayed_at").isNull())
        named = [one for one in fields(Letter) if whole or one.name != "bytes"]
        rows = rows.orderBy(F.col("ts_ms").desc(), "id")
        found = (
            (rows if most is None else rows.limit(most)).select(*[_column(one) for one in named]).collect()
        )
        return [Letter(**{one.name: row[_column(one)] for one in named}) for row in found]

    def mark(self, ids: Iterable[str], request: str, at_ms: int) -> None:
        """Those with these ``ids`` are replayed by the ``request``, since ``at_ms``."""
        marks = frame_of(self._session, pa.table({"id": pa.array(list(ids), pa.string())}))
        table = DeltaTable.forPath(self._session, self._path).alias("t")
        done: dict[str, str | Column] = {"replayed_at": F.lit(at_ms), "replayed_by": F.lit(request)}
        same = F.col("t.id") == F.col("s.id")
        table.merge(marks.alias("s"), same).whenMatchedUpdate(set=done).execute()


def _any_of(conditions: Sequence[Column]) -> Column:
    return reduce(lambda one, other: one | other, conditions)
