"""A collection and its state table, loaded by what the product loads with, and compared by each reader that `verify`
has: they find the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from snapshotter.verification.collection import Source
from snapshotter.verification.comparison import Sides, VerifyResult
from snapshotter.verification.verify import _sides, verify_collection
from streaming.delta.further_columns import NOTHING_FURTHER, FurtherColumns
from streaming.delta.state_table import StateTable
from streaming.keys.ranges import key_ranges
from streaming.keys.shard_keys import ShardKey
from streaming.layout import AnyLayout
from streaming.layouts.columns.layout import COLUMNS
from streaming.namespaces import Namespace

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pyspark.sql import DataFrame, SparkSession

READERS = ("spark", "duckdb")


class Pair:
    """Both. ``layout``, ``further`` and ``shard_key`` are set before the first document is loaded."""

    def __init__(
        self, spark: SparkSession, client: MongoClient[Any], uri: str, database: str, path: str
    ) -> None:
        self.spark, self.uri, self.path = spark, uri, path
        self.namespace = Namespace(database, "things")
        self.collection = client[database]["things"]
        self.layout: AnyLayout = COLUMNS
        self.further: FurtherColumns = NOTHING_FURTHER
        self.shard_key: ShardKey = ()
        self.plan: Any = None
        self._batches = 0

    def raw(self) -> bytes:
        """All documents of the collection."""
        return b"".join(self.collection.find_raw_batches(sort=[("_id", 1)]))

    def load(
        self,
        plan: Any = None,
        tamper: Callable[[DataFrame], DataFrame] = lambda rows: rows,
        documents: bytes | None = None,
    ) -> None:
        """Land all documents of the collection, or these, under a plan learned from them unless one is given."""
        raw = self.raw() if documents is None else documents
        self.plan = self.layout.observe(raw) if plan is None else plan
        self._table().create(self.plan)
        decoded = self.layout.decoder(self.plan, self.shard_key).decode(raw).batch
        self._land(tamper(self._rows(decoded, "c")), "append", None)

    def change(self, documents: Mapping[str, bytes | None]) -> None:
        """Land changes by key; None is a delete."""
        decoder = self.layout.decoder(self.plan, self.shard_key)
        decoded = decoder.decode_documents([*documents], [*documents.values()]).batch
        gone = [key for key, document in documents.items() if document is None]
        rows = self._rows(decoded, "u").withColumn(
            "_op", F.when(F.col("_key").isin(gone), "d").otherwise("u")
        )
        self._land(rows, "merge", key_ranges(documents))

    def sql(self, statement: str) -> None:
        """Change the table behind the product's back; ``{}`` is its name."""
        self.spark.sql(statement.format(f"delta.`{self.path}`"))

    def evolve(self) -> None:
        """Give the table what the plan has by now."""
        table = self._table()
        table.open()
        self.plan = table.evolve(self.plan)

    def sides(self, reader: str) -> Sides:
        """As one of `READERS` sees them."""
        spark = self.spark if reader == "spark" else None
        source = Source(self.uri, self.namespace, None, self.shard_key)
        return _sides(spark, source, self.path, self.layout)

    def verify_by(self, reader: str, **options: Any) -> VerifyResult:
        """By one of `READERS`."""
        spark = self.spark if reader == "spark" else None
        return verify_collection(spark, self.uri, self.namespace, self.path, self.layout, **options)

    def verify(self, **options: Any) -> VerifyResult:
        """By all of them."""
        by_spark, without = (self.verify_by(reader, **options) for reader in READERS)
        assert without == by_spark
        return by_spark

    def _table(self) -> StateTable:
        return StateTable(self.layout, self.spark, self.path, self.namespace, "test", further=self.further)

    def _rows(self, decoded: pa.RecordBatch, op: str) -> DataFrame:
        extra = {
            "_cluster_time": F.lit(1).cast("long"),
            "_source_ts": F.current_timestamp(),
            "_op": F.lit(op),
        }
        return self.spark.createDataFrame(pa.Table.from_batches([decoded])).withColumns(extra)

    def _land(self, rows: DataFrame, how: Any, ranges: Any) -> None:
        table = self._table()
        table.open()
        self._batches += 1
        table.land(rows, batch_id=self._batches, metadata={}, how=how, key_ranges=ranges)


@pytest.fixture
def pair(
    spark: SparkSession, mongo_client: MongoClient[Any], mongo_uri: str, database: str, tmp_path: Path
) -> Pair:
    """A new one."""
    return Pair(spark, mongo_client, mongo_uri, database, str(tmp_path / "table"))
