"""Rows of events that those who decode them write as files of the table: what commits add, and what is left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pymongo.errors import AutoReconnect

from snapshotter.landing.targets import state_rows
from streaming.delta.new_files import EVENTS, MARKS, FileWriter, NewFile, job_name
from streaming.delta.row_writer import By, Known, RowsInFiles
from streaming.delta.table_folder import TableFolder
from streaming.keys.ranges import key_ranges
from streaming.layouts.columns.layout import COLUMNS
from tests.support.engines import SECONDS, Lab, lab
from tests.support.new_files import PLAN, Made, made

__all__ = ["lab", "made"]


def added(folder: Path) -> dict[str, dict[str, Any]]:
    """By name, what commits say of the files that they have added."""
    lines = (line for log in (folder / "_delta_log").glob("*.json") for line in log.read_text().splitlines())
    return {action["add"]["path"]: action["add"] for action in map(json.loads, lines) if "add" in action}


def written(folder: Path) -> set[str]:
    return {file.name for file in folder.glob(f"{EVENTS}-*")}


def test_what_streams_lies_in_files_that_workers_wrote(lab: Lab) -> None:
    """Inserts, updates and deletes; also where the table gets a column for them, so that they are decoded twice. Each
    file says of itself what is in it, every file is a commit's, and the table is the collection."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    orders = lab.collection("orders")
    with lab.running() as engine:
        orders.insert_many([{"_id": n, "v": n} for n in range(20)])
        engine.catch_up(SECONDS)
        orders.update_many({"_id": {"$lt": 5}}, {"$set": {"v": -1}})
        orders.delete_many({"_id": {"$gt": 15}})
        engine.catch_up(SECONDS)
        orders.insert_many([{"_id": n, "later": "a column"} for n in range(100, 110)])
        orders.update_one({"_id": 7}, {"$unset": {"v": ""}})
        engine.catch_up(SECONDS)
        orders.delete_many({"_id": {"$gt": 10}})
        engine.catch_up(SECONDS)
    lab.assert_equal("orders")
    folder = lab.table("orders")
    named, there = added(folder), written(folder)
    assert there, "no event was written by a worker"
    assert there <= named.keys()
    for name in there:
        rows, said = pq.read_table(folder / name), json.loads(named[name]["stats"])
        bounds = {column: (min(rows[column].to_pylist()), max(rows[column].to_pylist())) for column in KEPT}
        assert said["numRecords"] == rows.num_rows
        assert bounds == {c: (said["minValues"][c], said["maxValues"][c]) for c in KEPT}
        assert "d" not in rows["_op"].to_pylist()


KEPT = ("_key", "_cluster_time")


def test_what_fails_before_a_commit_is_asked_for_leaves_no_file(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are decoded, and the network fails: the batch comes again, and its files alone are there."""
    lab.with_options("cluster_time", snapshot__mode="no_data", retriable__restart__connector__wait__ms=1)
    orders = lab.collection("orders")
    merge, failed = state_rows._merge, list[set[str]]()

    def fails(*given: Any, **how: Any) -> Any:
        if not failed and (there := written(lab.table("orders"))):
            failed.append(there)
            raise AutoReconnect("the network, before the commit")
        return merge(*given, **how)

    monkeypatch.setattr(state_rows, "_merge", fails)
    with lab.running() as engine:
        orders.insert_one({"_id": 1})
        engine.catch_up(SECONDS)
        orders.insert_one({"_id": 2})
        engine.catch_up(SECONDS)
    assert failed, "nothing was written before the commit"
    lab.assert_equal("orders")
    folder = lab.table("orders")
    assert written(folder) <= added(folder).keys()
    assert not written(folder) & failed[0]


def of_events(made: Made, rows: dict[str, int]) -> NewFile:
    schema = pa.schema([*COLUMNS.arrow_schema(PLAN), *MARKS])
    writer = FileWriter(TableFolder.on_disk(str(made.path)), schema, job_name(EVENTS), 0)
    columns = [[*rows], [*rows.values()], None, [7] * len(rows), None, ["u"] * len(rows)]
    nulls = [None] * len(rows)
    arrays = [pa.array(nulls if c is None else c, f.type) for c, f in zip(columns, schema, strict=True)]
    writer.add(pa.RecordBatch.from_arrays(arrays, schema=schema))
    file = writer.close(min(rows), max(rows), (7, 7))
    assert file is not None
    return file


@pytest.mark.parametrize("feed", [False, True])
def test_a_table_that_asks_more_of_its_writers_reads_them(made: Made, feed: bool) -> None:
    """Where the table keeps a change data feed, say, Delta's own MERGE writes: the same rows, and the same deletes."""
    made.merge(0, {"a": (1, "c"), "b": (2, "c"), "c": (3, "c")}, [])
    if feed:
        name = f"delta.`{made.path}`"
        made.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    file = of_events(made, {"b": 20, "d": 40})
    keys = made.spark.createDataFrame([("b", "u"), ("d", "c"), ("c", "d")], "_key string, _op string")
    known = Known(3, distinct=True, held=True, deletes=1)
    how = {"metadata": {}, "how": "merge", "key_ranges": key_ranges("bcd"), "known": known}
    landed = made.table.land(RowsInFiles(keys, (file,)), batch_id=1, **how)
    assert made.rows() == {"a": 1, "b": 20, "d": 40}
    assert (landed.inserted, landed.updated, landed.deleted) == (1, 1, 1)
    choice = made.table.written_by
    assert choice is not None
    assert choice.by is (By.MERGE if feed else By.UPSERT)
    assert made.table.named == (frozenset() if feed else {file.name})
