"""The table of dead letters as operators look at it (`landing.targets.dead_letters` writes it): which there are, one
of them whole, and marking those that have been replayed.

The column ``events`` says what targets of events know of a letter. Those that a replay asks for are told of it by the
engine, with one of its next batches (`landing.targets.replays`):

    null       nothing
    wanted     nothing, and a replay has asked for it
    told       the event: with its batch, where only a state table could not decode it; or by a replay
    refused    nothing, and why: what is kept of it cannot be told

The engine may append meanwhile. What it appends to a table conflicts with no mark of ours; of two that mark letters at
one time the later one tries again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import reduce
from typing import Any

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from snapshotter.landing.frames import frame_of
from streaming.delta.attempts import attempts
from streaming.delta.state_merge import session_of_few

EVENTS = "events"
_LATER = (EVENTS, "hashes")
"""Columns that a table of an earlier version lacks."""
WANTED, TOLD = "wanted", "told"
BEHIND_RENAMES = "+renamed"
"""How ``hashes`` ends where a letter's bytes were stored with renamed fields."""
REFUSED = "refused: "
"""How the text begins that says why a letter is not told."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A row of the table, under its names; ``key`` and ``document_id`` are ``_key`` and ``_id``. ``bytes`` are read
    only where they are asked for; ``stored``: whether there are some."""

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
    events: str | None
    stored: bool
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
        rows = self.rows()
        if rows is None:
            return []
        if ids:
            rows = rows.where(_any_of([F.col("id").startswith(one) for one in ids]))
        if collections:
            rows = rows.where(_any_of([F.col("collection") == one for one in collections]))
        if waiting:
            rows = rows.where(F.col("replayed_at").isNull())
        rows = rows.orderBy(F.col("ts_ms").desc(), "id")
        return self._letters(rows if most is None else rows.limit(most), whole=whole)

    def rows(self) -> DataFrame | None:
        """The table's rows; None where there is no table yet. One of an earlier version says nothing in the
        columns that it lacks, and gets them when it is next written to."""
        if not DeltaTable.isDeltaTable(self._session, self._path):
            return None
        rows = self._session.read.format("delta").load(self._path)
        lacks = {name: F.lit(None).cast("string") for name in _LATER if name not in rows.columns}
        return rows.withColumns({**lacks, "stored": F.col("bytes").isNotNull()})

    def mark(self, ids: Iterable[str], request: str, at_ms: int, wanted: Collection[str] = ()) -> None:
        """Those with these ``ids`` are replayed by the ``request``, since ``at_ms``; of those that are ``wanted``
        targets of events are to be told."""
        marks = {one: WANTED if one in wanted else None for one in ids}
        done = {"replayed_at": F.lit(at_ms), "replayed_by": F.lit(request)}
        self._merge(marks, done | {EVENTS: F.coalesce(F.col("s.events"), F.col("t.events"))})

    def wanted(self, most: int, left_out: Collection[str] = ()) -> list[Letter]:
        """Those that targets of events are to be told of, but for the collections that are ``left_out``; the oldest
        first, at most ``most``."""
        rows = self.rows()
        if rows is None:
            return []
        rows = rows.where(F.col(EVENTS) == WANTED)
        if left_out:
            rows = rows.join(
                frame_of(self._session, pa.table({"collection": [*left_out]})), "collection", "left_anti"
            )
        rows = rows.orderBy("ts_ms", "id").limit(most)
        return self._letters(rows, whole=False)

    def settle(self, outcomes: Mapping[str, str]) -> None:
        """What has become of those that were wanted, by their ids: `TOLD`, or what begins with `REFUSED`."""
        still = F.col("t.events") == WANTED
        self._merge(outcomes, {EVENTS: F.when(still, F.col("s.events")).otherwise(F.col("t.events"))})

    def _merge(self, events: Mapping[str, str | None], done: Mapping[str, Column]) -> None:
        columns = {"id": [*events], EVENTS: pa.array(events.values(), pa.string())}
        marks = frame_of(self._session, pa.table(columns)).alias("s")
        same = F.col("t.id") == F.col("s.id")

        def merge() -> None:
            named = self._session.read.format("delta").load(self._path).columns
            if lacks := [StructField(name, StringType()) for name in _LATER if name not in named]:
                grown = (
                    self._session.createDataFrame([], StructType(lacks)).write.format("delta").mode("append")
                )
                grown.option("mergeSchema", "true").save(self._path)
            table = DeltaTable.forPath(self._session, self._path).alias("t")
            table.merge(marks, same).whenMatchedUpdate(set=dict[str, str | Column](done)).execute()

        attempts(merge)

    def _letters(self, rows: DataFrame, *, whole: bool) -> list[Letter]:
        named = [one for one in fields(Letter) if whole or one.name != "bytes"]
        found = rows.select(*[_column(one) for one in named]).collect()
        return [Letter(**{one.name: row[_column(one)] for one in named}) for row in found]


def _any_of(conditions: Sequence[Column]) -> Column:
    return reduce(lambda one, other: one | other, conditions)
