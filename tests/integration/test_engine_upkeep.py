"""Upkeep by the engine itself, beside landings: of one table at a time, and nobody's condition."""

from __future__ import annotations

import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType
from structlog.testing import capture_logs

from snapshotter.api import Snapshotter
from snapshotter.engine import upkeep
from snapshotter.landing.tables import OpenTable
from snapshotter.landing.targets.changelogs import OpenChangelog
from snapshotter.reporting.window_log import OpenWindow
from streaming.delta import upkeep_plan
from streaming.delta.attempts import attempts
from streaming.delta.changelog_table import ChangelogTable
from streaming.delta.rewriting import Begun, Copies
from streaming.delta.row_writer import Known
from streaming.delta.state_merge import landing_session
from streaming.delta.state_upkeep import REMEMBERS
from streaming.delta.table_paths import CHANGELOG, STATE
from streaming.keys.ranges import key_ranges
from tests.support import tables as delta_rs
from tests.support.engine_upkeep import ITEMS, ORDERS, PLAN, Kept, at_once
from tests.support.engines import SECONDS, Lab, Reads, lab, limits, reads
from tests.support.state_tables import state_schema
from tests.support.tables import age

__all__ = ["at_once", "lab", "reads"]

pytestmark = pytest.mark.usefixtures("at_once")

CHANGES = StructType(
    [
        StructField("_key", StringType()),
        StructField("_cluster_time", LongType()),
        StructField("_order", LongType()),
        StructField("v", StringType()),
    ]
)


def operations(path: Path) -> list[str]:
    """Of the table's commits, the oldest first."""
    return [commit["operation"] for commit in reversed(DeltaTable(str(path)).history())]


def test_each_table_in_its_turn_and_under_its_lock(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    """Both get what they need, one step a look; a table that is being landed is waited for, and nothing is committed
    meanwhile. What was done is in the status and counted."""
    kept = Kept(spark, lab, tmp_path)
    kept.land_each(range(4), ORDERS, ITEMS)
    with ThreadPoolExecutor(1) as thread:
        with kept.tables.landing(ORDERS) as opened, kept.tables.landing(ITEMS):
            looking = thread.submit(kept.looks)
            opened.table.version()
            assert not looking.done()
            assert "OPTIMIZE" not in operations(kept.path(ORDERS))
        looking.result(SECONDS)
    for namespace in (ORDERS, ITEMS):
        assert operations(kept.path(namespace))[-1] == "OPTIMIZE"
        assert kept.keys(namespace) == ["k0", "k1", "k2", "k3"]
        report = kept.report(namespace)
        assert (report.rewrites, report.error, report.due) == (1, None, None)
        assert report.files == 1, "as of the last look, behind the rewrite"
    assert kept.counted() == {"compact": 2}
    kept.land(ORDERS, 4)
    assert kept.keys(ORDERS) == ["k0", "k1", "k2", "k3", "k4"]


@pytest.mark.parametrize("concatenates", [False, True])
def test_landings_go_on_beside_a_rewrite(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, concatenates: bool
) -> None:
    """What is being written holds up no landing. Where a landing takes the files of it away, it came to nothing, which
    is counted, and the next try keeps the table's lock; not where files are concatenated, which may be large."""
    monkeypatch.setattr(upkeep_plan, "_CHAINED_BYTES", 0 if concatenates else 1 << 40)
    kept = Kept(spark, lab, tmp_path)
    write, locked = Begun.write, []

    def in_the_middle(begun: Begun, *given: Any) -> Copies:
        assert begun.step.concatenates is concatenates
        copies = write(begun, *given)
        locked.append(lock.locked())
        if len(locked) == 1:
            kept.land(ORDERS, 4)
        if len(locked) == 2:
            with kept.tables.landing(ORDERS) as opened:
                keys = [f"k{batch}" for batch in range(5)]
                rows = [(key, None, 9, None, 9, None, "d") for key in keys]
                source = spark.createDataFrame(rows, state_schema(PLAN)).coalesce(1)
                known = Known(len(rows), True, True, len(rows))
                given = {"how": "merge", "key_ranges": key_ranges(keys), "known": known}
                opened.table.land(source, batch_id=9, metadata={}, **given)
        return copies

    monkeypatch.setattr(Begun, "write", in_the_middle)
    kept.land_each(range(4), ORDERS)
    lock = kept.tables.of(ORDERS).lock
    kept.looks(2)
    assert locked == [False]
    assert operations(kept.path(ORDERS))[-2:] == ["WRITE", "OPTIMIZE"]
    assert kept.keys(ORDERS) == ["k0", "k1", "k2", "k3", "k4"]
    for batch in (5, 6):
        kept.land(ORDERS, batch)
    kept.looks(1)
    assert locked == [False, False]
    assert kept.counted() == {"compact": 1, "gave_way": 1}
    assert kept.keys(ORDERS) == ["k5", "k6"]
    for batch in (10, 11):
        kept.land(ORDERS, batch)
    kept.looks(2)
    assert locked == [False, False, not concatenates]
    assert (kept.counted()["compact"], kept.counted()["gave_way"]) == (2, 1)
    assert kept.keys(ORDERS) == ["k10", "k11", "k5", "k6"]
    for batch in (12, 13, 14):
        kept.land(ORDERS, batch)
    kept.looks(1)
    assert locked == [False, False, not concatenates, False], "it is tried beside landings again"


def test_a_changelog_table_is_kept_in_order(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    """Files of its commits are put together in the order of the stream, under its lock: whoever streams from the table
    sees nothing of it, what it has told counts as told, and it goes on."""
    kept = Kept(spark, lab, tmp_path)
    path = tmp_path / "changelog"
    table = ChangelogTable(spark, str(path), ORDERS, "snapshotter:test:1", CHANGES)
    kept.tables.changelogs = {ORDERS: OpenChangelog(table, None)}

    def append(batch: int) -> None:
        rows = [(f"k{9 - batch}", 2 * batch + n, n, f"v{batch}") for n in (1, 0)]
        table.append(spark.createDataFrame(rows, CHANGES).coalesce(1), batch_id=batch, metadata={})

    for batch in range(4):
        append(batch)
    with kept.tables.changelogs[ORDERS].lock, ThreadPoolExecutor(1) as thread:
        looking = thread.submit(kept.looks)
        assert table.newest() == 7
        assert not looking.done()
        assert "OPTIMIZE" not in operations(path)
        kept.tables.changelogs[ORDERS].lock.release()
        looking.result(SECONDS)
        kept.tables.changelogs[ORDERS].lock.acquire()
    assert [operation for operation in operations(path) if operation == "OPTIMIZE"] == ["OPTIMIZE"]
    (file,) = DeltaTable(str(path)).file_uris()
    assert pq.read_table(file)["_cluster_time"].to_pylist() == list(range(8))
    report = kept.report(ORDERS, CHANGELOG)
    assert (report.files, report.rewrites, report.error) == (1, 1, None)
    assert kept.counted() == {"compact": 1}
    append(3)
    append(4)
    assert sorted(row["_cluster_time"] for row in delta_rs.rows(path)) == list(range(10))
    commits = [
        json.loads(line) for log in sorted((path / "_delta_log").glob("*.json")) for line in log.open()
    ]
    added = [action["add"]["dataChange"] for action in commits if "add" in action]
    assert added == [True] * 4 + [False, True]


def test_a_failure_is_logged_counted_and_tried_again(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one table, whose file is gone for a while: the other table gets its upkeep, and landings go on. It is not
    tried again before its time."""
    kept = Kept(spark, lab, tmp_path)
    kept.land_each(range(4), ORDERS, ITEMS)
    file, aside = Path(DeltaTable(str(kept.path(ORDERS))).file_uris()[0]), tmp_path / "aside"
    shutil.move(file, aside)
    with capture_logs() as logs:
        kept.looks()
    (entry,) = (line for line in logs if line["log_level"] == "warning")
    assert entry["event"] == "the upkeep of a table failed, and is tried again"
    assert (entry["collection"], entry["again_in_seconds"]) == ("shop.orders", 60.0)
    assert kept.counted() == {"compact": 1, "failed": 1}
    assert kept.report(ORDERS).error
    assert kept.report(ITEMS).error is None
    kept.land(ORDERS, 4)
    kept.looks()
    assert kept.counted()["failed"] == 1, "not before the time"
    monkeypatch.setattr(upkeep, "_RETRY_SECONDS", 0.0)
    kept.upkeep._kept[ORDERS, STATE].next = 0.0
    kept.looks(1)
    assert kept.upkeep._kept[ORDERS, STATE].failures == 2
    shutil.move(aside, file)
    kept.looks()
    assert (kept.report(ORDERS).error, kept.report(ORDERS).files) == (None, 1)
    assert kept.keys(ORDERS) == ["k0", "k1", "k2", "k3", "k4"]


def test_nothing_is_written_without_the_engines_lock(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    """Another engine has it: the tables are that one's."""
    kept = Kept(spark, lab, tmp_path)
    kept.land_each(range(4), ORDERS)
    kept.locked = False
    before = kept.tables.of(ORDERS).table.version()
    kept.looks()
    assert kept.tables.of(ORDERS).table.version() == before


def test_old_files_are_removed_unless_the_table_says_otherwise(
    spark: SparkSession, lab: Lab, tmp_path: Path
) -> None:
    """Once a day, before all else; the status names the oldest version that can be read. A table whose property
    contradicts the option keeps its files, and the status says why."""
    kept = Kept(spark, lab, tmp_path, retention_hours=168)
    kept.land(ORDERS, 0)
    kept.land(ITEMS, 0)
    age(kept.path(ORDERS), time.time() - 169 * 3_600)
    where = f"delta.`{kept.path(ITEMS)}`"
    spark.sql(f"ALTER TABLE {where} SET TBLPROPERTIES ('{REMEMBERS}' = 'interval 30 days')")
    with capture_logs() as logs:
        kept.looks()
    report = kept.report(ORDERS)
    assert (report.oldest_version, report.error) == (0, None)
    assert report.vacuumed_at is not None
    refused = kept.report(ITEMS)
    assert "30 days" in (refused.error or "")
    assert "let the two say the same" in (refused.error or "")
    assert sum("not removed" in line["event"] for line in logs) == 1
    assert kept.counted() == {"vacuum": 1}


def test_no_file_of_a_window_in_flight_is_taken_for_an_old_one(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window that has been open for longer than files stay may have READs in a file as old as those that go, and no
    commit has added it yet: nothing is removed before it has landed."""
    kept = Kept(spark, lab, tmp_path, retention_hours=168)
    kept.land(ORDERS, 0)
    in_flight, began = kept.path(ORDERS) / "reads-0-1-a.parquet", datetime.now(UTC) - timedelta(hours=169)
    in_flight.write_bytes(b"")
    os.utime(in_flight, (began.timestamp(), began.timestamp()))
    age(kept.path(ORDERS), began.timestamp())
    kept.open = [OpenWindow("run/1", 1, str(ORDERS), low_at=began - timedelta(seconds=1))]
    kept.looks()
    assert in_flight.exists()
    held = kept.report(ORDERS)
    assert (held.oldest_version, held.vacuumed_at) == (None, None)
    kept.open = [OpenWindow("run/2", 2, str(ORDERS), low_at=datetime.now(UTC))]
    kept.upkeep._kept[ORDERS, STATE].tried = None
    kept.looks()
    assert not in_flight.exists(), "it is of nobody"
    assert kept.report(ORDERS).oldest_version == 0


def insert(lab: Lab, engine: Snapshotter, first: int, count: int) -> None:
    """Documents, each in a batch of its own."""
    for number in range(first, first + count):
        lab.collection("orders").insert_one({"_id": number, "v": number})
        engine.catch_up(SECONDS)


def opened(lab: Lab, engine: Snapshotter) -> OpenTable:
    return engine.engine.tables.of(lab.namespace("orders"))


@pytest.mark.guard
def test_an_engine_keeps_its_tables_in_order(lab: Lab) -> None:
    """While it streams: the files of its landings are put together, landings go on, and the table stays equal to its
    collection. `status` says what there is."""
    lab.with_options("cluster_time", snapshot__mode="no_data", engine__upkeep__small__files=4)
    with lab.running() as engine:
        insert(lab, engine, 0, 4)
        engine.until(
            "the files to be put together", lambda: "OPTIMIZE" in operations(lab.table("orders")), SECONDS
        )
        insert(lab, engine, 4, 2)
        lab.collection("orders").update_one({"_id": 1}, {"$set": {"v": 9}})
        lab.collection("orders").delete_one({"_id": 2})
        engine.catch_up(SECONDS)
        lab.assert_equal("orders")
        engine.until("the status to say so", lambda: any(u.rewrites for u in lab.status().upkeep), SECONDS)
    (report,) = lab.status().upkeep
    assert (report.collection, report.error, report.lacks) == (lab.name("orders"), None, None)
    lab.assert_equal("orders")
    lab.assert_one_commit_a_batch("orders")
    with lab.running() as engine:
        insert(lab, engine, 10, 1)
    lab.assert_equal("orders")
    assert not lab.status().suspended


@pytest.mark.thorough
def test_others_beside_a_backfill_and_a_stream(lab: Lab, spark: SparkSession) -> None:
    """Somebody's OPTIMIZE, VACUUM and new columns, again and again while chunks are read and changes stream, and the
    engine's own upkeep among them: the table is the collection, nothing is suspended, and no batch lands twice."""
    lab.with_options("insert_insert", snapshot__mode="initial", engine__upkeep__small__files=2)
    lab.tune = limits(chunk_docs=40, windows=2)
    orders, where = lab.collection("orders"), f"delta.`{lab.table('orders')}`"
    theirs = landing_session(spark, {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "2"})
    orders.insert_many([{"_id": number, "v": number} for number in range(200)])
    with lab.running() as engine:
        engine.until("the table", (lab.table("orders") / "_delta_log").exists, SECONDS)
        for turn in range(2):
            orders.update_many({"_id": {"$mod": [7, turn]}}, {"$inc": {"v": 1_000}})
            orders.delete_one({"_id": 50 * turn + 3})
            new = f"ALTER TABLE {where} ADD COLUMNS (theirs_{turn} STRING)"
            for command in (f"OPTIMIZE {where} FULL", new, f"VACUUM {where}"):
                attempts(partial(theirs.sql, command))  # Delta aborts theirs where ours was quicker
            engine.catch_up(SECONDS)
        engine.wait("initial", SECONDS)
        insert(lab, engine, 500, 3)  # each adds a file
        engine.until("upkeep", lambda: any(u.rewrites for u in lab.status().upkeep), SECONDS)
        orders.update_many({"_id": {"$lt": 20}}, {"$inc": {"v": 1}})
        engine.catch_up(SECONDS)
        assert not lab.status().suspended
    lab.assert_equal("orders")
    lab.assert_one_commit_a_batch("orders")


@pytest.mark.guard
def test_others_while_windows_are_open(lab: Lab, spark: SparkSession, reads: Reads) -> None:
    """A chunk lies in a file that no commit has named when somebody puts the table's files together, adds a column, or
    removes whatever no version has: it lands all the same, and is read again where its file went."""
    lab.with_options("insert_insert", snapshot__mode="no_data", engine__upkeep__enabled=False)
    where, gone = f"delta.`{lab.table('orders')}`", {}
    theirs = landing_session(spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"})
    commands = (
        f"OPTIMIZE {where}",
        f"ALTER TABLE {where} ADD COLUMNS (theirs STRING)",
        f"VACUUM {where} RETAIN 0 HOURS",
    )

    def after(number: int, job: Any, buffer: Any) -> None:
        if number >= len(commands):
            return
        files = [Path(buffer.folder.path) / file.name for file in buffer.files]
        assert all(map(Path.exists, files))
        attempts(partial(theirs.sql, commands[number]))  # Delta aborts theirs where ours was quicker
        gone[number] = not any(map(Path.exists, files))
        lab.collection("orders").update_one({"_id": number}, {"$set": {"v": -1}})

    reads.after = after
    with lab.running() as engine:
        insert(lab, engine, 0, 4)
        for _ in commands:
            request = engine.wait(engine.execute_snapshot(lab.name("orders")), SECONDS)
            assert not request.failed
            engine.catch_up(SECONDS)
            lab.collection("orders").update_many({}, {"$inc": {"v": 1}})
            engine.catch_up(SECONDS)
        assert not lab.status().suspended
    assert gone == {0: False, 1: False, 2: True}
    assert len(reads.jobs) == len(commands) + 1
    assert {"OPTIMIZE", "ADD COLUMNS", "VACUUM END"} <= set(operations(lab.table("orders")))
    lab.assert_equal("orders")


def test_an_engine_that_leaves_files_alone(lab: Lab) -> None:
    """With engine.upkeep.enabled=false nobody looks at them."""
    options = {"engine__upkeep__small__files": 2, "engine__upkeep__enabled": False}
    lab.with_options("cluster_time", snapshot__mode="no_data", **options)
    with lab.running() as engine:
        insert(lab, engine, 0, 4)
        assert opened(lab, engine).plan is not None
    assert "OPTIMIZE" not in operations(lab.table("orders"))
    assert lab.status().upkeep == ()
