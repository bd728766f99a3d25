"""What the further columns of a state table hold in each row, and which rows are live.

A row of a deleted document keeps its columns; what a delete says of itself (`MARKS`, and the further columns) is
written over it. Rows from before a table had the mark have none, and are live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from streaming.column_names import CLUSTER_TIME, DELETED, OP, SOURCE_TS, quoted
from streaming.decode import change_details
from streaming.delta.further_columns import MARK, FurtherColumn, FurtherColumns, Holds
from streaming.namespaces import Namespace

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MARKS = (OP, CLUSTER_TIME, SOURCE_TS)
_TYPES: dict[str, DataType] = {
    "BOOLEAN": BooleanType(),
    "INT": IntegerType(),
    "BIGINT": LongType(),
    "STRING": StringType(),
    "ARRAY<STRING>": ArrayType(StringType()),
    "ARRAY<STRUCT<field: STRING, size: INT>>": ArrayType(change_details.TRUNCATED),
}
_SAID = {
    Holds.SOURCE_LSID: "lsid",
    Holds.SOURCE_TXN_NUMBER: "txn_number",
    Holds.SOURCE_WALL_TIME: "wall_ms",
    Holds.TRANSACTION_ID: "transaction_id",
    Holds.TRANSACTION_ORDER: "total_order",
    Holds.TRANSACTION_COLLECTION_ORDER: "data_collection_order",
    Holds.UPDATE_REMOVED: "removed",
    Holds.UPDATE_UPDATED: "updated",
    Holds.UPDATE_TRUNCATED: "truncated",
}
"""Where it is in what an event says of itself."""


@dataclass(frozen=True, slots=True)
class SoftDeletes:
    """How rows of deleted documents are kept. ``columns``: what of such a row is the delete's, and not the document's.
    ``emptied``: the same of every row that goes with its collection, which no row of the source stands for."""

    columns: tuple[str, ...]
    emptied: Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class Further:
    """The further columns of one table, that of ``namespace``."""

    namespace: Namespace
    configured: FurtherColumns

    def missing(self, table: StructType) -> list[FurtherColumn]:
        """Those that the table is to get. Raises ValueError where it has another column of such a name."""
        found = []
        for column in self.configured.wanted:
            there = next((f for f in table.fields if f.name.lower() == column.name.lower()), None)
            if there is None:
                found.append(column)
            elif there.name != column.name or there.dataType != _type(column).dataType:
                raise ValueError(
                    f"it has a column {there.name} {there.dataType.simpleString()}, and {column.name} "
                    f"{column.sql_type.lower()} is to say {column.holds} of the change"
                )
        return found

    def of(self, table: StructType) -> list[FurtherColumn]:
        """Those that rows of this table are written with. One that has the mark is given it always: else rows written
        without would be neither live nor deleted to whoever asks for either."""
        wanted = self.configured.wanted
        return [*wanted, *([MARK] if MARK not in wanted and is_marked(table) else [])]

    def filled(self, rows: DataFrame, table: StructType) -> DataFrame:
        """``rows`` with the further columns of this table, and without what they say of their events besides."""
        further = self.of(table)
        details = F.col(change_details.NAME) if change_details.NAME in rows.columns else None
        if further:
            rows = rows.withColumns(self._values(further, *map(F.col, _MARKS), details=details))
        return rows.drop(change_details.NAME)

    def soft_deletes(self, table: StructType, emptied_at: int | None) -> SoftDeletes:
        """How rows of deleted documents are kept in this table. ``emptied_at``: when the collection went, as a cluster
        time."""
        columns = (*_MARKS, *(column.name for column in self.of(table)))
        emptied: dict[str, Column] = {}
        if emptied_at is not None:
            clock = F.timestamp_seconds(F.lit(emptied_at >> 32))
            said = F.lit("d"), F.lit(emptied_at), clock
            emptied = dict(zip(_MARKS, said, strict=True)) | self._values(self.of(table), *said)
        return SoftDeletes(columns, emptied)

    def _values(
        self,
        columns: Iterable[FurtherColumn],
        op: Column,
        time: Column,
        clock: Column,
        *,
        details: Column | None = None,
    ) -> dict[str, Column]:
        found = {}
        for one in columns:
            if not one.holds.of_event:
                value = self._value(one, op, time, clock)
            elif details is None:
                value = F.lit(None)
            else:
                value = details.getField(_SAID[one.holds])
            found[one.name] = value.cast(_type(one).dataType)
        return found

    def _value(self, column: FurtherColumn, op: Column, time: Column, clock: Column) -> Column:
        values: Mapping[Holds, Callable[[], Column]] = {
            Holds.DELETED: lambda: op == "d",
            Holds.OP: lambda: op,
            Holds.TS_MS: lambda: F.unix_millis(F.current_timestamp()),
            Holds.SOURCE_TS_MS: lambda: F.unix_millis(clock),
            Holds.SOURCE_TS_US: lambda: F.unix_micros(clock),
            Holds.SOURCE_TS_NS: lambda: F.unix_micros(clock) * 1_000,
            Holds.SOURCE_DB: lambda: F.lit(self.namespace.database),
            Holds.SOURCE_COLLECTION: lambda: F.lit(self.namespace.collection),
            Holds.SOURCE_ORD: lambda: time.bitwiseAND(F.lit(0xFFFFFFFF)),
            Holds.SOURCE_CONNECTOR: lambda: F.lit("mongodb"),
            Holds.SOURCE_NAME: lambda: F.lit(column.text),
        }
        return values[column.holds]()


def ddl(columns: Sequence[FurtherColumn]) -> str:
    """What follows ALTER TABLE and the table's name. They come behind what each table has beside its plan's."""
    behind = [OP, *(column.name for column in columns)]
    entries = [
        f"{quoted(c.name)} {c.sql_type} COMMENT '{c.comment}' AFTER {quoted(b)}"
        for c, b in zip(columns, behind, strict=False)
    ]
    return f"ADD COLUMNS ({', '.join(entries)})"


def with_fields(schema: StructType, columns: Iterable[FurtherColumn]) -> StructType:
    return StructType([*schema.fields, *map(_type, columns)])


def is_marked(table: StructType) -> bool:
    """Whether the table says of its rows that their documents are deleted."""
    return any(f.name == DELETED and f.dataType == BooleanType() for f in table.fields)


def live(table: DataFrame) -> DataFrame:
    """The rows of documents that are not deleted: all, in a table without the mark."""
    return table.where(is_live()) if is_marked(table.schema) else table


def is_live(of: str = "") -> Column:
    """Of a row of a table that has the mark. ``of``: what stands before its columns, ``t.`` say."""
    return ~F.coalesce(F.col(f"{of}{DELETED}"), F.lit(False))


def _type(column: FurtherColumn) -> StructField:
    return StructField(column.name, _TYPES[column.sql_type])
