"""How the rows of a state table that change leave their files: by deletion vectors, or with the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from streaming.delta.row_writer import NOTHING_KNOWN, Known
from streaming.keys.ranges import key_ranges
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from streaming.namespaces import Namespace
from tests.support.state_tables import MERGED, columns_table, state_schema

PLAN = TablePlan((Column("n", Scalar("long")),))
KNOWN = Known(3, distinct=True, held=True, deletes=0)


def added(path: Path) -> list[dict[str, Any]]:
    """The files that the table's newest version added, as its log says."""
    newest = max((path / "_delta_log").glob("*.json"))
    actions = map(json.loads, newest.read_text().splitlines())
    return [action["add"] for action in actions if "add" in action]


@pytest.mark.parametrize(
    ("settings", "known", "marked"),
    [
        pytest.param({}, KNOWN, 1, id="ours"),
        pytest.param({}, NOTHING_KNOWN, 1, id="nothing is known"),
        pytest.param(MERGED, KNOWN, 0, id="switched off"),
    ],
)
def test_old_rows_go_with_their_file_or_by_deletion_vector(
    spark: SparkSession, tmp_path: Path, settings: dict[str, str], known: Known, marked: int
) -> None:
    """A change to one of three rows: the table keeps its file, marks the row in it, and gets a file of one row. Where
    that is switched off the file is written anew, with all three rows. Its rows are the same, and so are the counts."""
    path = tmp_path / "orders"
    table = columns_table(spark, str(path), Namespace("shop", "orders"), "e", settings)
    table.create(PLAN)
    schema = state_schema(PLAN)

    def land(batch: int, *rows: dict[str, Any]) -> Any:
        values = [tuple(({"_cluster_time": batch} | row).get(name) for name in schema.names) for row in rows]
        source = spark.createDataFrame(values, schema).coalesce(1)
        keys = key_ranges(row["_key"] for row in rows)
        return table.land(source, batch_id=batch, metadata={}, how="merge", key_ranges=keys, known=known)

    land(0, *({"_key": key, "n": 0, "_op": "c"} for key in "abc"))
    landed = land(1, {"_key": "b", "n": 1, "_op": "u"})
    assert (landed.source_rows, landed.updated, landed.inserted) == (1, 1, 0)
    files = added(path)
    assert sum(file.get("deletionVector") is not None for file in files) == marked
    assert sum(json.loads(file["stats"])["numRecords"] for file in files) == (4 if marked else 3)
    found = {row["_key"]: row["n"] for row in spark.read.format("delta").load(str(path)).collect()}
    assert found == {"a": 0, "b": 1, "c": 0}
