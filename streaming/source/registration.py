"""How an engine's query names its source to Spark.

Spark starts three Pythons, one after the other, before a query brings its first batch: one makes the source, one says
how far a batch goes, one plans how it is read. Each would import all of the source, a third of a second or more. The
first one only asks for the columns; so what is registered here knows those, and finds the source itself when the second
one asks for its reader. Its options are checked by then, as any source's: an engine's were checked before.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from streaming.source.schema import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "mongodb-changes"


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

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            from streaming.source.change_stream import MongoChangesDataSource  # see above

            return MongoChangesDataSource(self.options).streamReader(schema)

    spark.dataSource.register(SourceAt)
    return own_name
