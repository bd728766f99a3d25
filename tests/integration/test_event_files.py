"""Rows of events that those who decode them write as files of the table: what commits add, and what is left behind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pymongo.errors import AutoReconnect
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from snapshotter.landing.targets import state_rows
from snapshotter.landing.targets.event_files import EventFiles
from streaming.delta.landed import Landed
from streaming.delta.landing_errors import LandingError
from streaming.delta.new_files import EVENTS, MARKS, FileGone, FileWriter, NewFile, job_name
from streaming.delta.row_writer import By, Known, RowsInFiles
from streaming.delta.table_folder import TableFolder
from streaming.keys.ranges import key_ranges
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from tests.support.engines import SECONDS, Lab, lab
from tests.support.new_files import PLAN, Made, made
from tests.support.state_tables import state_schema
from tests.support.tables import added

__all__ = ["lab", "made"]

KEPT = ("_key", "_cluster_time")
"""What the log keeps the bounds of."""
UPDATED, SCHEMA = {"b": "u"}, state_schema(PLAN)


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


def test_a_job_that_fails_leaves_no_file(tmp_path: Path) -> None:
    """What other partitions have written by then, nobody was told of."""
    files = EventFiles(TableFolder.on_disk(str(tmp_path)))
    columns = pa.schema([*COLUMNS.arrow_schema(PLAN), *MARKS, pa.field("_trailer", pa.string())])
    values = {"_key": "a", "_cluster_time": 7, "_op": "c"}
    batch = pa.RecordBatch.from_pylist([values], schema=columns)

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    told = list(files.writing(decode, COLUMNS, PLAN)(iter([batch])))
    assert [b.num_rows for b in told] == [1, 1]
    assert len(written(tmp_path)) == 1
    files.failed()
    assert written(tmp_path) == set()


def test_what_another_run_has_cleared_is_added_by_no_commit(made: Made) -> None:
    """It takes the files of a run that is over for leftovers. One that goes on all the same meets that as a conflict,
    and then as the loss of its files; those that it writes from then on are its own."""
    made.merge(0, {"a": (1, "c")}, [])
    assert made.table.folder() == made.folder
    made.opened().clear_leftovers(made.folder)
    with pytest.raises(FileGone, match="another run has cleared"):
        land(made, 1, of_events(made, {"b": 20}))
    assert made.rows() == {"a": 1}
    land(made, 1, of_events(made, {"b": 20}))
    assert made.rows() == {"a": 1, "b": 20}


def test_rows_of_other_columns_are_refused(made: Made) -> None:
    """Somebody has overwritten the table since they were decoded, say: no reader could make sense of both."""
    file = of_events(made, {"b": 20})
    with pytest.raises(LandingError, match="do not fit its table"):
        land(made, 0, file, schema=state_schema(TablePlan((Column("n", Scalar("string")),))))
    assert made.rows() == {}


def test_a_number_that_is_none_is_found(spark: SparkSession, made: Made, tmp_path: Path) -> None:
    """To Spark it is greater than any other, and Parquet's bounds leave it out."""
    schema = pa.schema([pa.field("_key", pa.string()), pa.field("v", pa.float64())])
    folder = TableFolder.on_disk(str(tmp_path))
    writer = FileWriter(folder, schema, job_name(EVENTS), 0)
    writer.add(
        pa.RecordBatch.from_arrays([pa.array(["a", "b"]), pa.array([1.0, float("nan")])], schema=schema)
    )
    file = writer.close()
    assert file is not None
    found = spark.read.parquet(str(tmp_path / file.name)).where("v > 5").collect()
    assert [row["_key"] for row in found] == ["b"]


def land(
    made: Made, batch: int, file: NewFile, *, ops: Mapping[str, str] = UPDATED, schema: StructType = SCHEMA
) -> Landed:
    """Events of these operations by key, of which ``file`` has the rows."""
    keys = made.spark.createDataFrame([*ops.items()], "_key string, _op string")
    known = Known(len(ops), distinct=True, held=True, deletes=sum(op == "d" for op in ops.values()))
    how = {"metadata": {}, "how": "merge", "key_ranges": key_ranges(ops), "known": known}
    return made.table.land(RowsInFiles(keys, (file,), schema), batch_id=batch, **how)


def of_events(made: Made, rows: dict[str, int]) -> NewFile:
    schema = pa.schema([*COLUMNS.arrow_schema(PLAN), *MARKS])
    writer = FileWriter(TableFolder.on_disk(str(made.path)), schema, job_name(EVENTS), 0)
    columns = [[*rows], [*rows.values()], None, [7] * len(rows), None, ["u"] * len(rows)]
    nulls = [None] * len(rows)
    arrays = [pa.array(nulls if c is None else c, f.type) for c, f in zip(columns, schema, strict=True)]
    writer.add(pa.RecordBatch.from_arrays(arrays, schema=schema))
    file = writer.close()
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
    landed = land(made, 1, file, ops={"b": "u", "d": "c", "c": "d"})
    assert made.rows() == {"a": 1, "b": 20, "d": 40}
    assert (landed.inserted, landed.updated, landed.deleted) == (1, 1, 1)
    choice = made.table.written_by
    assert choice is not None
    assert choice.by is (By.MERGE if feed else By.UPSERT)
    assert made.table.named == (frozenset() if feed else {file.name})
