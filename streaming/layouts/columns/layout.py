"""The layout of typed columns: a column for each field of the documents, `_rescued_data` for what fits none.

The plan says which fields have columns (`plan`), documents are decoded column by column (`decoder`), and rows are read
back by code that shares nothing with it (`canonical_rows`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streaming.column_names import Path
from streaming.layout import Missing
from streaming.layouts.columns import evolution, schemas
from streaming.layouts.columns.canonical_rows import canonical_rows
from streaming.layouts.columns.decoder import Decoder
from streaming.layouts.columns.observe import observe
from streaming.layouts.columns.plan import TablePlan, comment_of
from streaming.layouts.columns.reshape import reshape

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from streaming.keys.shard_keys import ShardKey


@dataclass(frozen=True, slots=True)
class Columns:
    """As `streaming.layout.Layout`."""

    @property
    def name(self) -> str:
        return "columns"

    def least_plan(self) -> TablePlan:
        return TablePlan()

    def plan_from_json(self, text: str) -> TablePlan:
        return TablePlan.from_json(text)

    def observe(self, raw: bytes) -> TablePlan:
        return observe(raw)

    def arrow_schema(self, plan: TablePlan) -> pa.Schema:
        return schemas.arrow_schema(plan)

    def spark_schema(self, plan: TablePlan) -> StructType:
        return schemas.spark_schema(plan)

    def comments(self, plan: TablePlan) -> Mapping[str, str]:
        return {column.name: comment_of(column.type) for column in plan.columns}

    def missing_columns(self, table: StructType, plan: TablePlan) -> list[Missing]:
        return evolution.missing_columns(table, plan)

    def others_fields(self, table: StructType, old: TablePlan, new: TablePlan) -> list[Path]:
        """As `Layout.others_fields`."""
        return evolution.others_fields(table, old, new)

    def decoder(self, plan: TablePlan, shard_key: ShardKey = ()) -> Decoder:
        return Decoder(plan, shard_key)

    def reshape(self, rows: DataFrame, have: TablePlan, want: TablePlan) -> DataFrame:
        """As `Layout.reshape`. Raises ValueError where a column's type differs between the two plans."""
        return reshape(rows, have, want)

    def documents(self, plan: TablePlan, rows: pa.RecordBatch) -> list[bytes]:
        return canonical_rows(plan, rows)


COLUMNS = Columns()
