"""Columns that a state table has beside its documents' and the five that each table has: whether its document is
deleted, and what a configuration adds of a change.

Most of them follow from what a row says already (its operation, its times) and from whose table it is: so nobody who
makes rows has to know them, and a landing adds them last (`streaming.delta.further_values`). The others are what an
event says of itself (`Holds.of_event`): it goes with the event's row (`streaming.decode.change_details`), and where
nobody asks for such a column, nobody asks the source for it. None is part of what makes a READ equal to its row, but
whether that row is deleted.

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
    SOURCE_LSID = "source.lsid"
    SOURCE_TXN_NUMBER = "source.txnNumber"
    SOURCE_WALL_TIME = "source.wallTime"
    TRANSACTION_ID = "transaction.id"
    TRANSACTION_ORDER = "transaction.total_order"
    TRANSACTION_COLLECTION_ORDER = "transaction.data_collection_order"
    UPDATE_REMOVED = "updateDescription.removedFields"
    UPDATE_UPDATED = "updateDescription.updatedFields"
    UPDATE_TRUNCATED = "updateDescription.truncatedArrays"

    @property
    def of_event(self) -> bool:
        """Whether it is what an event says of itself; null in a row that was read."""
        return self in _OF_EVENTS


_OF_UPDATES = frozenset({Holds.UPDATE_REMOVED, Holds.UPDATE_UPDATED, Holds.UPDATE_TRUNCATED})
_OF_TRANSACTIONS = frozenset(
    {
        *(Holds.SOURCE_LSID, Holds.SOURCE_TXN_NUMBER),
        *(Holds.TRANSACTION_ID, Holds.TRANSACTION_ORDER, Holds.TRANSACTION_COLLECTION_ORDER),
    }
)
_OF_EVENTS = _OF_UPDATES | _OF_TRANSACTIONS | {Holds.SOURCE_WALL_TIME}
TRANSACTION, UPDATE = "transaction", "update"
"""What the source is asked for besides, by the words of its option `details`."""

_TIMES = Holds.TS_MS, Holds.SOURCE_TS_MS, Holds.SOURCE_TS_US, Holds.SOURCE_TS_NS
_NUMBERS = Holds.SOURCE_TXN_NUMBER, Holds.TRANSACTION_ORDER, Holds.TRANSACTION_COLLECTION_ORDER
SQL_TYPES = {
    Holds.DELETED: "BOOLEAN",
    Holds.SOURCE_ORD: "INT",
    **dict.fromkeys((*_TIMES, Holds.SOURCE_WALL_TIME, *_NUMBERS), "BIGINT"),
    Holds.UPDATE_REMOVED: "ARRAY<STRING>",
    Holds.UPDATE_TRUNCATED: "ARRAY<STRUCT<field: STRING, size: INT>>",
}
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

    @property
    def comment(self) -> str:
        """What it holds, for people."""
        if self.holds is Holds.DELETED:
            return "whether the document is deleted; null in rows from before the column"
        return f"{self.holds} of the change that wrote the row, as Debezium tells it"


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

    @property
    def of_events(self) -> bool:
        """Whether some are what events say of themselves."""
        return any(column.holds.of_event for column in self.added)

    @property
    def details(self) -> tuple[str, ...]:
        """What the source is asked for because of them."""
        held = {column.holds for column in self.added}
        asked = {TRANSACTION: _OF_TRANSACTIONS, UPDATE: _OF_UPDATES}
        return tuple(name for name, holds in asked.items() if held & holds)


NOTHING_FURTHER = FurtherColumns()
