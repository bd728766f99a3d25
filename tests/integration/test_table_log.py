"""The newest version of a table is found without listing its log, and nobody's commit is missed for that."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming.delta.delta_log import TableLog
from streaming.delta.row_writer import Known
from streaming.delta.state_table import StateTable
from streaming.keys.ranges import key_ranges
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from streaming.namespaces import Namespace
from tests.support.state_tables import columns_table, state_schema

PLAN = TablePlan((Column("n", Scalar("long")),))


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> StateTable:
    return made(spark, tmp_path / "orders")


def made(spark: SparkSession, path: Path) -> StateTable:
    """A table of one landing."""
    table = columns_table(spark, str(path), Namespace("shop", "orders"), "e")
    table.create(PLAN)
    land(spark, table, 0)
    return table


def land(spark: SparkSession, table: StateTable, batch: int) -> None:
    """A batch of two rows, of which the table may have one."""
    schema = state_schema(PLAN)
    rows = [{"_key": key, "n": batch, "_cluster_time": batch, "_op": "u"} for key in ("same", f"new {batch}")]
    source = spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in rows], schema)
    ranges, known = (
        key_ranges(str(row["_key"]) for row in rows),
        Known(2, distinct=True, held=True, deletes=0),
    )
    table.land(
        source.localCheckpoint(), batch_id=batch, metadata={}, how="merge", key_ranges=ranges, known=known
    )


def log_of(table: StateTable) -> Path:
    return Path(table.path) / "_delta_log"


def test_landings_do_not_list_the_log(spark: SparkSession, table: StateTable) -> None:
    """A version is planted that leaves a gap behind the newest one: whoever lists the log refuses to go on."""
    trap = log_of(table) / f"{9_999:020}.json"
    trap.touch()
    for batch in (1, 2, 3):
        assert table.recorded_batch() == batch - 1
        assert table.takes_files()
        land(spark, table, batch)
    trap.unlink()
    found = {row["_key"]: row["n"] for row in spark.read.format("delta").load(table.path).collect()}
    assert found == {"same": 3, **{f"new {batch}": batch for batch in range(4)}}


def test_a_commit_of_another_process_is_seen(spark: SparkSession, table: StateTable) -> None:
    """One that this process's Delta knows nothing of; also one of a batch of the same engine."""
    before = table.version()
    for version in (before + 1, before + 2):
        mark = {"txn": {"appId": "e", "version": version, "lastUpdated": 1}}
        lines = [{"commitInfo": {"timestamp": 1, "operation": "WRITE"}}, mark]
        (log_of(table) / f"{version:020}.json").write_text("\n".join(map(json.dumps, lines)))
        assert table.version() == version
        assert table.recorded_batch() == version
    land(spark, table, before + 3)
    assert table.version() == before + 3


def test_a_table_that_is_gone_or_another_one_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    """Also where the other one has just as many versions, or is an older copy."""
    first, other = made(spark, tmp_path / "first"), made(spark, tmp_path / "other")
    shutil.copytree(first.path, tmp_path / "older")
    log = TableLog(spark, first.path)
    land(spark, first, 1)
    newest = log.newest()
    assert newest is not None
    was, version = newest.table_id, newest.version
    shutil.rmtree(first.path)
    shutil.copytree(tmp_path / "older", first.path)
    newest = log.newest()
    assert newest is not None
    assert (newest.table_id, newest.version) == (was, version - 1)
    shutil.rmtree(first.path)
    shutil.copytree(other.path, first.path)
    newest = log.newest()
    assert newest is not None
    assert newest.table_id != was
    assert newest.version == version - 1
    shutil.rmtree(first.path)
    assert log.newest() is None


def test_a_checkpoint_is_known_at_once(spark: SparkSession, table: StateTable) -> None:
    """No reader needs the commits before it any more; with it, or some time later, what is too old goes."""
    log = TableLog(spark, table.path)
    land(spark, table, 1)
    newest = log.newest()
    assert newest is not None
    assert newest.commits == newest.version + 1
    for cleans in (False, True):
        log.checkpoint(cleans=cleans)
        newest = log.newest()
        assert newest is not None
        assert newest.commits == 0
        land(spark, table, newest.version + 1)
