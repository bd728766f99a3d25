"""How an engine's query names its source to Spark.

Spark starts three Pythons, one after the other, before a query brings its first batch: one makes the source, one says
how far a batch goes, one plans how it is read. Each would import all of the source, a third of a second or more. The
first one only asks for the columns, and the last one only passes the reader on; so what is registered here knows the
columns, and its reader finds the source itself when it is first asked for something. The options are checked by then,
as any source's: an engine's were checked before.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from streaming.source.schema import SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from streaming.source.change_stream import MongoChangesReader

NAME = "mongodb-changes"


class LateReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a source with these ``options``, made where something is asked of it: each method is that of
    `change_stream.MongoChangesReader`, and raises ConfigurationError besides for options that are wrong."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)
        self._made: MongoChangesReader | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return self._reader().initialOffset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return self._reader().getDefaultReadLimit()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._reader().prepareForTriggerAvailableNow()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return self._reader().latestOffset(start, limit)

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        return self._reader().reportLatestOffset()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return self._reader().partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reader().read(partition)

    def commit(self, end: dict[str, int]) -> None:
        self._reader().commit(end)

    def stop(self) -> None:
        self._reader().stop()

    def _reader(self) -> MongoChangesReader:
        if self._made is None:
            from streaming.source.change_options import ChangeOptions  # as the module says
            from streaming.source.change_stream import MongoChangesReader

            self._made = MongoChangesReader(ChangeOptions.parse(self._options))
        return self._made


class Nothing(DataSourceReader):
    """What a source has for whoever does not stream it."""

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:  # noqa: ARG002
        return iter(())


def register_at(spark: SparkSession, secrets_of: Mapping[str, str]) -> str:
    """Register a source that knows the options ``secrets_of``, and return the name of its format, which no other source
    has. Spark prints a source's options wherever it prints a plan (logs, events, its pages); this one needs none that
    holds a password."""
    own_name = f"{NAME}-{secrets.token_hex(4)}"

    class SourceAt(DataSource):
        # Spark's processes get this class by value, with what its methods name.

        def __init__(self, options: Mapping[str, str]) -> None:
            super().__init__({**options, **secrets_of})

        @classmethod
        def name(cls) -> str:
            return own_name

        def schema(self) -> StructType:
            return SCHEMA

        def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
            from streaming.source.registration import Nothing  # as below

            return Nothing()

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, ARG002
            from streaming.source.registration import LateReader  # not needed to make it

            return LateReader(self.options)

    spark.dataSource.register(SourceAt)
    return own_name


def plan_ahead(spark: SparkSession) -> None:
    """Have Spark make a source, and plan how it is read, although there is nothing in it: a stream that starts behind
    that finds the Pythons that do so there. Raises what Spark says."""
    frame = spark.read.format(register_at(spark, {})).load()
    frame._jdf.queryExecution().toRdd().getNumPartitions()  # which Spark does not ask for before
