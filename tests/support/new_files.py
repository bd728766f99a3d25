"""READs in files of a table's folder, as a worker writes them; the table, and what is landed in it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from streaming.delta.landed import Landed
from streaming.delta.new_files import FileWriter, NewFile, job_name
from streaming.delta.row_writer import Known
from streaming.delta.state_table import StateTable
from streaming.delta.table_folder import TableFolder
from streaming.keys.ranges import cover, key_ranges
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from streaming.namespaces import Namespace
from tests.support import tables
from tests.support.state_tables import columns_table, state_schema

ORDERS = Namespace("shop", "orders")
PLAN = TablePlan((Column("n", Scalar("long")),))
TIME = (1_700_000_000 << 32) + 5
ODD = "ord [e]rs {x} é"


def written(folder: Path, rows: Mapping[str, int | None], number: int = 1, time: int = TIME) -> NewFile:
    """A file of these rows, in two pieces."""
    where = TableFolder.on_disk(str(folder))
    writer = FileWriter(where, COLUMNS.arrow_schema(PLAN), job_name(), number, time)
    pairs = sorted(rows.items())
    for some in (pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]):
        columns = [[key for key, _ in some], [n for _, n in some], [None] * len(some)]
        schema = COLUMNS.arrow_schema(PLAN)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        writer.add(pa.RecordBatch.from_arrays(arrays, schema=schema))
    file = writer.close()
    assert file is not None
    return file


def some(first: int, count: int) -> dict[str, int]:
    return {f"k{n:04}": n for n in range(first, first + count)}


class Made:
    """A table whose folder has an odd name, and what is landed in it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.path, self.folder = spark, folder, TableFolder.on_disk(str(folder))
        self.table = self.opened()
        self.table.create(PLAN)

    def opened(self) -> StateTable:
        return columns_table(self.spark, str(self.path), ORDERS, "e")

    def actions(self, kind: str) -> list[dict[str, Any]]:
        """Of the newest commit."""
        newest = max((self.path / "_delta_log").glob("*.json"))
        return [line[kind] for line in map(json.loads, newest.read_text().splitlines()) if kind in line]

    def named(self) -> set[str]:
        """The files of the newest version."""
        return {Path(file).name for file in DeltaTable(str(self.path)).file_uris()}

    def append(self, batch: int, new: Sequence[NewFile]) -> Any:
        ranges = [(file.low, file.high) for file in new]
        return self.table.land(None, batch_id=batch, metadata={}, how="append", key_ranges=ranges, new=new)

    def merge(self, batch: int, changes: dict[str, tuple[int | None, str]], new: Sequence[NewFile]) -> Any:
        source = self.source(batch, changes)
        known = Known(len(changes), True, True, sum(op == "d" for _, op in changes.values()))
        ranges = key_ranges(changes)
        given = {"metadata": {}, "how": "merge", "key_ranges": ranges, "known": known, "new": new}
        return self.table.land(source, batch_id=batch, **given)

    def read(
        self,
        batch: int,
        files: Sequence[NewFile],
        changes: dict[str, tuple[int | None, str]] | None = None,
        *,
        rewrite: bool = False,
    ) -> Landed:
        """READs of keys that may be there, beside these changes."""
        source = self.source(batch, changes) if changes else None
        deletes = sum(op == "d" for _, op in (changes or {}).values())
        known = Known(sum(file.rows for file in files) + len(changes or {}), True, True, deletes)
        ranges = cover([*key_ranges(changes or {}), *((file.low, file.high) for file in files)])
        given = {"metadata": {}, "how": "merge", "key_ranges": ranges, "known": known, "reads": files}
        return self.table.land(source, batch_id=batch, rewrite=rewrite, **given)

    def source(self, batch: int, changes: dict[str, tuple[int | None, str]]) -> DataFrame:
        rows = [(key, n, None, TIME + batch, None, op) for key, (n, op) in changes.items()]
        return self.spark.createDataFrame(rows, state_schema(PLAN)).coalesce(1)

    def rows(self) -> dict[str, int]:
        """As Spark and delta-rs see them; they agree."""
        found = self.spark.read.format("delta").load(str(self.path)).select("_key", "n").collect()
        by_spark = {row[0]: row[1] for row in found}
        assert len(by_spark) == len(found)
        assert {row["_key"]: row["n"] for row in tables.rows(self.path, "_key, n")} == by_spark
        return by_spark

    def last(self) -> dict[str, Any]:
        return dict(DeltaTable(str(self.path)).history(1)[0])


@pytest.fixture
def made(spark: SparkSession, tmp_path: Path) -> Made:
    """A new one."""
    return Made(spark, tmp_path / ODD)
