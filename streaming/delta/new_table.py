"""What a state table is made as: its columns in their order, what they are said to hold, and its properties.

The documents' columns come first, for that is what people look at; `_key` is the last, behind all that is ours. Tables
of earlier versions begin with it, and stay as they are: nobody goes by the order of a table's columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql.types import StructField, StructType

from streaming.column_names import CLUSTER_TIME, KEY, OP, RESCUED_DATA, SOURCE_TS
from streaming.decode.streamed_rows import table_schema
from streaming.delta.further_values import with_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from streaming.delta.further_columns import FurtherColumns
    from streaming.layout import AnyLayout, TablePlan

COMMENTS = {
    RESCUED_DATA: "what fits no column: a JSON object, by JSON Pointers, of values in Extended JSON",
    CLUSTER_TIME: "position of the change in the oplog, exactly: seconds since 1970 * 4294967296 + increment",
    SOURCE_TS: "when the change was made at the source; of a READ, when its reading began",
    OP: "what wrote the row: c (insert), u (update), r (READ of a snapshot), d (delete, where rows stay)",
    KEY: "identity of the document, in the order of MongoDB's ids",
}
"""Of the columns that each table has beside the documents'."""


def make_table(
    session: SparkSession, path: str, schema: StructType, comment: str, properties: Mapping[str, str]
) -> None:
    """An empty table with the columns of ``schema`` at ``path``, in ``session``, if none is there. ``comment`` and
    ``properties``: what it says of itself."""
    builder = DeltaTable.createIfNotExists(session).location(path).comment(comment)
    builder = builder.addColumns(schema).clusterBy(KEY)
    for name, value in properties.items():
        builder = builder.property(name, value)
    builder.execute()


def new_schema(layout: AnyLayout, plan: TablePlan, further: FurtherColumns) -> StructType:
    """The columns of a new table, in their order: those that ``layout`` has for ``plan``, and ``further`` ones."""
    comments = {
        **COMMENTS,
        **layout.comments(plan),
        **{column.name: column.comment for column in further.wanted},
    }
    whole = {field.name: field for field in with_fields(table_schema(layout, plan), further.wanted)}
    fields = [*(field for name, field in whole.items() if name != KEY), whole[KEY]]
    return StructType(
        [StructField(f.name, f.dataType, f.nullable, {"comment": comments[f.name]}) for f in fields]
    )
