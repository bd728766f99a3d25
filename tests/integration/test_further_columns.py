"""Columns of a state table that say something of the change that wrote a row, as a configuration adds them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from streaming.delta.comparison import Found
from streaming.delta.further_columns import FurtherColumn, FurtherColumns, Holds
from streaming.delta.landed import Landed
from streaming.delta.landing_errors import LandingError
from streaming.delta.row_writer import Known
from streaming.delta.state_table import StateTable
from streaming.keys.ranges import key_ranges
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from tests.support import tables
from tests.support.state_tables import MERGED, columns_table, state_schema

PLAN = TablePlan((Column("n", Scalar("long")),))
EVERY = tuple(FurtherColumn(f"__{h}", h, "shop1") for h in Holds if h is not Holds.DELETED)
WALL = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
MICROS = 1_767_323_045_678_901
Change = tuple[str, int | None, str]
"""Key, value, operation."""


@dataclass
class Shop:
    """A table, opened anew for each landing with what it is to have then."""

    spark: SparkSession
    path: Path
    settings: dict[str, str] = field(default_factory=dict)
    batches: list[Landed] = field(default_factory=list)

    def table(self, further: FurtherColumns) -> StateTable:
        table = columns_table(
            self.spark,
            str(self.path),
            Namespace("shop", "orders"),
            "e",
            self.settings,
            further=further,
        )
        if table.open() is None:
            table.create(PLAN)
            table.open()
        return table

    def land(
        self, further: FurtherColumns, *changes: Change, how: Any = "merge", reads: bool = False, **more: Any
    ) -> Landed:
        """At second 100 and a number that is that of the batch."""
        at = ClusterTime(100, len(self.batches)).to_int()
        frame = self.frame([(key, n, None, at, WALL, op) for key, n, op in changes])
        known = Known(len(changes), True, True, 0 if reads else sum(op == "d" for _, _, op in changes))
        ranges = None if how == "replace" else key_ranges(key for key, _, _ in changes)
        given = {"batch_id": len(self.batches), "metadata": {}, "how": how, "key_ranges": ranges} | more
        source, compared = (None, frame) if reads else (frame, None)
        self.batches.append(self.table(further).land(source, reads=compared, known=known, **given))
        return self.batches[-1]

    def frame(self, rows: list[Any]) -> DataFrame:
        return self.spark.createDataFrame(rows, state_schema(PLAN)).localCheckpoint()

    def rows(self) -> dict[str, dict[str, Any]]:
        return {row["_key"]: row for row in tables.rows(self.path)}

    def said(self, key: str) -> tuple[Any, ...]:
        """What the added columns of a row say, but for when it was written."""
        row = self.rows()[key]
        return tuple(row[f"__{h}"] for h in Holds if h not in (Holds.DELETED, Holds.TS_MS))


def saying(op: str, ord_: int, micros: int = MICROS) -> tuple[Any, ...]:
    """In the order of `Holds`; nothing of what events say of themselves, for these rows have none."""
    of_rows = op, micros // 1_000, micros, micros * 1_000, "shop", "orders", ord_, "mongodb", "shop1"
    return *of_rows, *(None for h in Holds if h.of_event)


NOTHING = (None,) * len(saying("c", 1))


@pytest.fixture(params=[{}, MERGED], ids=["upserted", "merged"])
def shop(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path / "orders", request.param)


def test_every_row_says_what_wrote_it(shop: Shop) -> None:
    """Events and READs, merged and appended; a soft delete writes its own over the row, and so does a drop. By the
    envelope's `ts_ms` one sees when it was written."""
    further = FurtherColumns(soft=True, added=EVERY)
    begun = time.time_ns() // 1_000_000
    shop.land(further, ("a", 1, "r"), ("b", 1, "r"), ("c", 1, "r"), ("z", 1, "r"), how="append")
    shop.land(further, ("a", 2, "u"), ("b", None, "d"), ("d", 4, "c"))
    assert [shop.said(key) for key in "abcd"] == [
        saying("u", 1),
        saying("d", 1),
        saying("r", 0),
        saying("c", 1),
    ]
    assert begun <= shop.rows()["a"]["__ts_ms"] <= time.time_ns() // 1_000_000
    shop.land(
        further, ("e", 5, "c"), ("c", None, "d"), how="replace", emptied_at=ClusterTime(100, 7).to_int()
    )
    assert shop.said("a") == saying("d", 7, 100 * 1_000_000)
    assert [shop.said(key) for key in "bce"] == [saying("d", 1), saying("d", 2), saying("c", 2)]
    rows = shop.rows()
    assert {key: (row["n"], row["_deleted"]) for key, row in rows.items()} == {
        "a": (2, True),
        "b": (1, True),
        "c": (1, True),
        "d": (4, True),
        "z": (1, True),
        "e": (5, False),
    }
    assert (rows["z"]["_cluster_time"], rows["z"]["_op"]) == (ClusterTime(100, 7).to_int(), "d")


def test_they_are_no_difference(shop: Shop) -> None:
    """A READ that equals the documents of rows from before leaves these as they are, without the new columns; what
    differs is written, and has them. The same table without the configuration writes nulls there, as in any column that
    is not ours."""
    shop.land(FurtherColumns(), ("a", 1, "c"), ("b", 2, "c"))
    further = FurtherColumns(added=EVERY)
    landed = shop.land(further, ("a", 1, "r"), ("b", 3, "r"), reads=True)
    assert landed.found == Found(changed=1, unchanged=1)
    assert (shop.said("a"), shop.said("b")) == (NOTHING, saying("r", 1))
    assert shop.land(further, ("b", 3, "r"), reads=True).found == Found(unchanged=1)
    shop.land(FurtherColumns(), ("b", 4, "u"))
    assert (shop.rows()["b"]["n"], shop.said("b")) == (4, NOTHING)


def test_names_that_documents_have(spark: SparkSession, tmp_path: Path) -> None:
    """A field of the name of an added column is rescued, also where both come at once. Where the documents have had the
    column first the table is refused, with the reason, before anything is altered."""
    clashing = PLAN.merge(TablePlan((Column("__op", Scalar("long")),)))
    added = FurtherColumns(added=(FurtherColumn("__op", Holds.OP),))
    place = Namespace("shop", "orders")
    first = columns_table(spark, str(tmp_path / "first"), place, "e", further=added)
    first.create(clashing)
    plan = first.open()
    assert plan is not None
    assert (plan.names, list(first.refusals)) == (("n",), [("__op",)])
    late = str(tmp_path / "late")
    columns_table(spark, late, place, "e").create(clashing)
    second = columns_table(spark, late, place, "e", further=added)
    with pytest.raises(LandingError, match=r"has a column __op bigint, and __op string is to say op"):
        second.open()
    assert second.version() == 0


def test_a_mark_of_another_kind_is_somebody_elses(spark: SparkSession, tmp_path: Path) -> None:
    """A column `_deleted` that is no BOOLEAN keeps soft deletes out, and means nothing to a table without."""
    shop = Shop(spark, tmp_path / "orders")
    shop.land(FurtherColumns(), ("a", 1, "c"))
    spark.sql(f"ALTER TABLE delta.`{shop.path}` ADD COLUMNS (_deleted STRING)")
    shop.land(FurtherColumns(), ("b", 2, "c"))
    assert {key: row["_deleted"] for key, row in shop.rows().items()} == {"a": None, "b": None}
    with pytest.raises(LandingError, match=r"_deleted string, and _deleted boolean"):
        shop.table(FurtherColumns(soft=True))
