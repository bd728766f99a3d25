"""A table in which files are kept in order, and what is landed in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from streaming.delta.operations import Rewritten
from streaming.delta.rewriting import Begun
from streaming.delta.row_writer import Known
from streaming.delta.state_table import StateTable
from streaming.delta.state_upkeep import TableLook
from streaming.delta.table_identity import Owner
from streaming.delta.upkeep_plan import Kind, Step, Thresholds, due
from streaming.keys.ranges import key_ranges
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from streaming.namespaces import Namespace
from tests.support import tables
from tests.support.row_writers import in_files
from tests.support.state_tables import columns_table, state_schema

ORDERS = Namespace("shop", "orders")
PLAN = TablePlan((Column("n", Scalar("long")),))
SHOP = Owner("shop", "1")
LIMITS = Thresholds(files=4, retention_hours=0)
PLENTY = 1 << 40


class Kept:
    """A table whose old rows are marked, what is landed in it, and its upkeep. ``by_driver``: rows come in files, and
    the driver marks old ones, where Spark does so of rows in a frame."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.path = spark, folder
        self.table = self.opened()
        self.table.create(PLAN)
        self.batch = -1
        self.by_driver = False
        self.expected: dict[str, int] = {}

    def opened(self, app_id: str = "snapshotter:shop:0") -> StateTable:
        return columns_table(self.spark, str(self.path), ORDERS, app_id, owner=SHOP)

    def land(self, changes: Mapping[str, int | None], table: StateTable | None = None) -> Any:
        """These rows by key, in a batch of their own; None deletes."""
        self.batch += 1
        rows = [(k, n, None, self.batch, None, "d" if n is None else "u") for k, n in changes.items()]
        source: Any = self.spark.createDataFrame(rows, state_schema(PLAN)).coalesce(1)
        if self.by_driver:
            source = in_files(self.path, source, PLAN)
        deletes = [key for key, n in changes.items() if n is None]
        known = Known(len(rows), True, True, len(deletes))
        given = {"how": "merge", "key_ranges": key_ranges(changes), "known": known}
        landed = (table or self.table).land(source, batch_id=self.batch, metadata={}, **given)
        self.expected |= {key: n for key, n in changes.items() if n is not None}
        for key in deletes:
            self.expected.pop(key, None)
        return landed

    def look(self, limits: Thresholds = LIMITS) -> TableLook:
        found = self.table.upkeep.look(limits)
        assert found is not None
        return found

    def step(self, limits: Thresholds = LIMITS) -> Step | None:
        found = self.look(limits)
        return None if found.files is None else due(found.files, limits, PLENTY, 0.0)

    def begun(self, outputs: int = 1, limits: Thresholds = LIMITS, *, concatenates: bool = False) -> Begun:
        """A rewrite of all its files into so many ``outputs``."""
        files = self.look(limits).files
        assert files is not None
        begun = self.table.upkeep.begin(Step(Kind.COMPACT, "", files, outputs, concatenates))
        assert begun is not None
        return begun

    def done(self, kind: Kind, limits: Thresholds = LIMITS) -> Rewritten:
        """The step that is due, of this kind, is carried out."""
        step = self.step(limits)
        assert step is not None
        assert step.kind is kind
        done = self.table.upkeep.rewrite(step)
        assert done is not None
        return done

    def check(self) -> None:
        """Spark and delta-rs see exactly the rows that were landed, each once."""
        found = self.spark.read.format("delta").load(str(self.path)).select("_key", "n").collect()
        assert sorted(map(tuple, found)) == sorted(self.expected.items())
        there = [(row["_key"], row["n"]) for row in tables.rows(self.path, "_key, n")]
        assert sorted(there) == sorted(self.expected.items())

    def actions(self) -> list[dict[str, Any]]:
        """Of the newest commit."""
        newest = max((self.path / "_delta_log").glob("*.json"))
        return [json.loads(line) for line in newest.read_text().splitlines()]


def some(first: int, count: int, n: int = 0) -> dict[str, int | None]:
    return {f"k{number:04}": n for number in range(first, first + count)}
