"""Columns that a state table has beside its documents' and the five that each table has: whether its document is
deleted, and what a configuration adds of a change.

All of them follow from what a row says already (its operation, its times) and from whose table it is: so nobody who
makes rows has to know them, and a landing adds them last (`streaming.delta.further_values`). None is part of what makes
a READ equal to its row, but whether that row is deleted.

Pure: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from streaming.column_names import DELETED


class Holds(StrEnum):
    """What a column says of the change that wrote its row, by the field of Debezium's envelope."""

    DELETED = "deleted"
    OP = "op"
    TS_MS = "ts_ms"
    SOURCE_TS_MS = "source.ts_ms"
    SOURCE_TS_US = "source.ts_us"
    SOURCE_TS_NS = "source.ts_ns"
    SOURCE_DB = "source.db"
    SOURCE_COLLECTION = "source.collection"
    SOURCE_ORD = "source.ord"
    SOURCE_CONNECTOR = "source.connector"
    SOURCE_NAME = "source.name"


_TIMES = Holds.TS_MS, Holds.SOURCE_TS_MS, Holds.SOURCE_TS_US, Holds.SOURCE_TS_NS
SQL_TYPES = {Holds.DELETED: "BOOLEAN", Holds.SOURCE_ORD: "INT", **dict.fromkeys(_TIMES, "BIGINT")}
"""Of what is no STRING."""


@dataclass(frozen=True, slots=True)
class FurtherColumn:
    """``name`` in the table, and what it ``holds``; ``text`` is the value of one that is the same in every row, where
    the table does not know it."""

    name: str
    holds: Holds
    text: str = ""

    @property
    def sql_type(self) -> str:
        return SQL_TYPES.get(self.holds, "STRING")


MARK = FurtherColumn(DELETED, Holds.DELETED)
"""Of tables that keep the rows of deleted documents."""


@dataclass(frozen=True, slots=True)
class FurtherColumns:
    """``soft``: rows of deleted documents stay, marked. ``added``: by the configuration, without the mark."""

    soft: bool = False
    added: tuple[FurtherColumn, ...] = ()

    @property
    def wanted(self) -> tuple[FurtherColumn, ...]:
        """What every table is to have."""
        return (MARK, *self.added) if self.soft else self.added


NOTHING_FURTHER = FurtherColumns()
