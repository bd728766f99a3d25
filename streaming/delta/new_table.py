"""What a state table is made as: its columns in their order, and its properties.

The documents' columns come first, for that is what people look at; `_key` is the last, behind all that is ours. Tables
of earlier versions begin with it, and stay as they are: nobody goes by the order of a table's columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql.types import StructType

from streaming.column_names import CLUSTER_TIME, KEY
from streaming.decode.streamed_rows import table_schema
from streaming.delta.further_values import with_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from streaming.delta.further_columns import FurtherColumns
    from streaming.layout import AnyLayout, TablePlan

_PROPERTIES = {
    "delta.enableDeletionVectors": "true",
    # The first indexed columns would be the documents' own: each costs time at every write, none prunes a
    # MERGE.
    "delta.dataSkippingStatsColumns": f"{KEY},{CLUSTER_TIME}",
}


def make_table(session: SparkSession, path: str, schema: StructType, properties: Mapping[str, str]) -> None:
    """An empty table with the columns of ``schema`` at ``path``, in ``session``, if none is there. ``properties``: what
    it says of itself."""
    builder = DeltaTable.createIfNotExists(session).location(path).addColumns(schema).clusterBy(KEY)
    for name, value in {**_PROPERTIES, **properties}.items():
        builder = builder.property(name, value)
    builder.execute()


def new_schema(layout: AnyLayout, plan: TablePlan, further: FurtherColumns) -> StructType:
    """The columns of a new table, in their order: those that ``layout`` has for ``plan``, and ``further`` ones."""
    whole = with_fields(table_schema(layout, plan), further.wanted)
    return StructType([*(field for field in whole if field.name != KEY), whole[KEY]])
