"""A collection and its table compared by Spark: both are read beside its executors, which group what they found by key.

It reads any table, of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from snapshotter.core.values.chunks import KeyRange
from snapshotter.landing.frames import frame_of
from snapshotter.verification import collection, rows
from snapshotter.verification.collection import Source
from snapshotter.verification.comparison import (
    FIGURES,
    JUDGED,
    RECHECKED_MAX,
    Contents,
    VerifyResult,
    by_key,
    found,
)
from streaming.column_names import KEY, quoted
from streaming.delta.delta_log import TableLog
from streaming.delta.further_values import live
from streaming.delta.table_properties import PLAN_PROPERTY
from streaming.layout import AnyLayout, TablePlan

Mapped = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What ``mapInArrow`` takes."""

_CONTENTS = f"`{KEY}` STRING, content BINARY"


class SparkSides:
    """As `comparison.Sides`."""

    def __init__(self, spark: SparkSession, source: Source, table_path: str, layout: AnyLayout) -> None:
        self._spark, self._source, self._path, self._layout = spark, source, table_path, layout

    def compare(self, keys: frozenset[str] | None) -> VerifyResult:
        """As `Sides.compare`, in one job."""
        counts = Observation()
        judged = self._spark.sql(
            JUDGED, collection=self._documents(keys, whole=False), table=self._rows(keys, whole=False)
        )
        observed = judged.observe(counts, *(F.expr(sum_).alias(name) for name, sum_ in FIGURES.items()))
        wrong = observed.where("kind is not null").select(KEY)
        differing = wrong.mapInArrow(_first_of_each_partition, wrong.schema)
        names = [row[0] for row in differing.collect()]
        return found(counts.get, names)

    def whole(self, keys: frozenset[str]) -> tuple[Contents, Contents]:
        """As `Sides.whole`."""
        return _collected(self._documents(keys, whole=True)), _collected(self._rows(keys, whole=True))

    def _documents(self, keys: frozenset[str] | None, whole: bool) -> DataFrame:
        ranges = collection.split(self._source, 4 * self._spark.sparkContext.defaultParallelism)
        read = _source_reader(self._source, ranges, keys, whole)
        return self._spark.range(0, len(ranges), 1, len(ranges)).mapInArrow(read, _CONTENTS)

    def _rows(self, keys: frozenset[str] | None, whole: bool) -> DataFrame:
        """Of rows that are not marked as deleted. A table that is not there has none."""
        newest = TableLog(self._spark, self._path).newest()
        if newest is None:
            return self._spark.createDataFrame([], _CONTENTS)
        plan = rows.plan_of(self._layout, newest.table_property(PLAN_PROPERTY), self._path)
        table = live(self._spark.read.format("delta").load(self._path))
        if keys is not None:
            asked = frame_of(self._spark, pa.table({KEY: pa.array(sorted(keys), pa.string())}))
            table = table.join(F.broadcast(asked), KEY, "left_semi")
        # By other names: `mapInArrow` takes a column called "*" for all of them.
        columns = [
            F.col(quoted(name)).alias(f"c{number}") for number, name in enumerate(rows.columns_of(plan))
        ]
        return table.select(*columns).mapInArrow(_table_reader(self._layout, plan, whole), _CONTENTS)


def _source_reader(
    source: Source, ranges: tuple[KeyRange, ...], keys: frozenset[str] | None, whole: bool
) -> Mapped:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from collection.contents(source, ranges[index], keys, whole)

    return read


def _table_reader(layout: AnyLayout, plan: TablePlan, whole: bool) -> Mapped:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield rows.contents(batch, layout, plan, whole)

    return read


def _first_of_each_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Bounds what a driver must hold when everything differs."""
    left = RECHECKED_MAX
    for batch in batches:
        yield batch.slice(0, left)
        left -= min(left, batch.num_rows)


def _collected(contents: DataFrame) -> Contents:
    return by_key((key, bytes(content)) for key, content in contents.collect())
