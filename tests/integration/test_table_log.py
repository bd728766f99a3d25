"""The newest version of a table is found without listing its log, and nobody's commit is missed for that."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming.delta import log_checkpoint, log_checksums
from streaming.delta.delta_log import TableLog, active
from streaming.delta.row_writer import Known
from streaming.delta.state_table import StateTable
from streaming.delta.transaction import Transaction
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
    """No reader needs the commits before it any more; with it, or some time later, what is too old goes. Only that
    lists the log (`test_landings_do_not_list_the_log` says how a trap tells)."""
    log = TableLog(spark, table.path)
    land(spark, table, 1)
    newest = log.newest()
    assert newest is not None
    assert newest.commits == newest.version + 1
    trap = log_of(table) / f"{9_999:020}.json"
    for cleans in (False, False, True):
        if cleans:
            trap.unlink()
        else:
            trap.touch()
        log.checkpoint(cleans=cleans)
        log.stand_upon_checkpoint()
        newest = log.newest()
        assert newest is not None
        assert newest.commits == 0
        land(spark, table, newest.version + 1)


def test_what_lands_while_a_checkpoint_is_written_lies_behind_it(
    spark: SparkSession, table: StateTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version in memory is newer than the checkpoint by then, and stays so."""
    log = TableLog(spark, table.path)
    land(spark, table, 1)
    delta = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, table.path)  # type: ignore[union-attr]
    seen = delta.unsafeVolatileSnapshot()
    for batch in (2, 3):
        land(spark, table, batch)
    trap = log_of(table) / f"{9_999:020}.json"
    trap.touch()
    with monkeypatch.context() as patched:
        patched.setattr(log_checkpoint, "newest", lambda *_: seen)
        log.checkpoint(cleans=False)
    log.stand_upon_checkpoint()
    newest = log.newest()
    assert newest is not None
    assert (newest.version, newest.commits) == (int(seen.version()) + 2, 2)
    land(spark, table, 4)
    trap.unlink()
    found = {row["_key"]: row["n"] for row in spark.read.format("delta").load(table.path).collect()}
    assert found == {"same": 4, **{f"new {batch}": batch for batch in range(5)}}


def test_a_checkpoint_in_parts_is_found_in_the_list(spark: SparkSession, table: StateTable) -> None:
    """Where it is not one file, the log is listed as Delta does."""
    log = TableLog(spark, table.path)
    land(spark, table, 1)
    spark.conf.set("spark.databricks.delta.checkpoint.partSize", "1")
    try:
        log.checkpoint(cleans=False)
    finally:
        spark.conf.unset("spark.databricks.delta.checkpoint.partSize")
    log.stand_upon_checkpoint()
    assert len(list(log_of(table).glob("*.checkpoint.*.parquet"))) > 1
    newest = log.newest()
    assert newest is not None
    assert newest.commits == 0
    land(spark, table, 2)
    assert table.version() == newest.version + 1


def test_old_checksums_go_and_every_version_stays(
    spark: SparkSession, table: StateTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only of the newest versions do the files stay that nobody needs of an old one; each version can be read."""
    monkeypatch.setattr(log_checksums, "KEPT", 2)
    log, folder = TableLog(spark, table.path), log_of(table)
    for batch in range(1, 6):
        land(spark, table, batch)
    newest = table.version()
    before = {path.name for path in folder.iterdir()}
    log.checkpoint(cleans=True)
    log.stand_upon_checkpoint()
    gone = before - {path.name for path in folder.iterdir()}
    old = [f"{version:020}" for version in range(newest - 1)]
    assert gone == {name for of in old for name in (f"{of}.crc", f".{of}.crc.crc", f".{of}.json.crc")}
    for version in range(1, newest + 1):
        of_version = spark.read.format("delta").option("versionAsOf", version).load(table.path)
        assert of_version.count() == version + 1
    land(spark, table, 6)
    log.checkpoint(cleans=True)
    assert table.version() == newest + 1


def test_checksums_elsewhere_than_on_this_machine_are_left_alone() -> None:
    """An object store has none of Hadoop's, and would be asked for each."""
    assert log_checksums.remove_old_checksums("s3a://bucket/orders/_delta_log", 5_000) == 0


def test_what_commits_upon_the_checkpoint_before_is_mended_next_time(
    spark: SparkSession, table: StateTable
) -> None:
    """A transaction in flight keeps what it began with; the newest checkpoint is named again."""
    log = TableLog(spark, table.path)
    land(spark, table, 1)
    with active(spark):
        transaction = Transaction(spark, table.path, "other", marks=False)
        rows = spark.read.format("delta").load(table.path).limit(1)
        log.checkpoint(cleans=False)
        log.stand_upon_checkpoint()
        transaction.write_all(rows)
        transaction.commit_append(1)
    log.stand_upon_checkpoint()
    newest = log.newest()
    assert newest is not None
    assert newest.commits == 1


def test_a_table_that_is_gone_has_no_checkpoint(spark: SparkSession, table: StateTable) -> None:
    """Nothing is written where it was, so that another one can be made there."""
    log = TableLog(spark, table.path)
    land(spark, table, 1)
    shutil.rmtree(table.path)
    for cleans in (False, True):
        log.checkpoint(cleans=cleans)
        log.stand_upon_checkpoint()
    assert not log_of(table).exists() or not list(log_of(table).iterdir())
    land(spark, made(spark, Path(table.path)), 1)


def test_what_a_commit_says_is_read_once_and_again_where_its_file_is_another(
    spark: SparkSession, table: StateTable
) -> None:
    """Of a table that was put back from a copy the same versions are other commits."""
    commits, version = TableLog(spark, table.path).commits, table.version()
    first = commits.one(version)
    assert first is not None
    assert commits.one(version) is first
    file = log_of(table) / f"{version:020}.json"
    said = [json.loads(line) for line in file.read_text().splitlines()]
    for line in said:
        line.get("commitInfo", {})["txnId"] = "another"
    file.with_name(f".{file.name}.crc").unlink()  # Hadoop's own checksum
    file.write_text("\n".join(map(json.dumps, said)))
    second = commits.one(version)
    assert second is not None
    assert (first.id == "another", second.id) == (False, "another")
    file.unlink()
    assert commits.one(version) is None


def test_a_log_keeps_what_few_commits_say(spark: SparkSession, table: StateTable) -> None:
    """However many were asked for, each answer is that of its version."""
    for batch in range(1, 12):
        land(spark, table, batch)
    commits, newest = TableLog(spark, table.path).commits, table.version()
    said = [*commits.down(newest)]
    assert [commit.version for commit in said] == [*range(newest, -1, -1)]
    assert [*commits.down(newest)] == said
    assert len(commits._said) == 8
