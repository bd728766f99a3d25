"""Small tables are appended to for months: no append lists the log, and old commits go."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
from delta.exceptions import ConcurrentTransactionException
from pyspark.sql import DataFrame, SparkSession

from signals.notifications.notification import Notification
from snapshotter.landing.targets.appended import AppendedTable
from snapshotter.landing.targets.heartbeats import HeartbeatTable
from snapshotter.landing.targets.target import Identity
from snapshotter.landing.targets.transactions import TransactionTable
from snapshotter.reporting.notification_table import NotificationTable
from streaming.delta import small_table
from streaming.delta.delta_log import TableLog
from streaming.delta.new_files import NewFile
from streaming.delta.small_table import SmallTable
from streaming.delta.small_table import append as append_by_delta
from streaming.delta.table_demands import Unsupported
from streaming.delta.table_folder import TableFolder
from tests.support.commit_answers import answer_appends

APP = "engine:heartbeats"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint behind five commits, and ten of them stay."""
    monkeypatch.setattr(small_table, "COMMITS", 5)
    monkeypatch.setattr(small_table, "VERSIONS", 10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "heartbeats"


def refused(error: Exception) -> None:
    raise error


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delta's writer makes a table, and no more."""
    made: set[str] = set()

    def once(path: str, *arguments: object) -> None:
        assert path not in made, f"{path} was left to Delta's writer"
        made.add(path)
        append_by_delta(path, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(small_table, "append", once)


def rows(spark: SparkSession, number: int) -> DataFrame:
    return spark.createDataFrame([(number, f"beat {number}")], "n LONG, text STRING").coalesce(1)


def append(spark: SparkSession, table: SmallTable, numbers: Sequence[int]) -> None:
    for number in numbers:
        table.append(rows(spark, number), APP, number, f"batch {number}")


def say(spark: SparkSession, path: Path, properties: Mapping[str, str]) -> None:
    """Set properties of the table, as somebody else does."""
    said = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({said})")


def commits(path: Path) -> list[int]:
    return sorted(int(file.stem) for file in (path / "_delta_log").glob("*.json"))


def beats(spark: SparkSession, path: Path) -> list[int]:
    return sorted(row[0] for row in spark.read.format("delta").load(str(path)).select("n").collect())


@pytest.fixture
def trapped(path: Path) -> Iterator[Path]:
    """A version with a gap before it: whoever lists the log to know the newest one refuses to go on."""
    trap = path / "_delta_log" / f"{99_999:020}.json"
    yield trap
    trap.unlink(missing_ok=True)


def test_appends_do_not_list_the_log_and_old_commits_go(
    spark: SparkSession, path: Path, trapped: Path
) -> None:
    """Of sixty commits some ten are left, above a checkpoint; no row is missing, also for who knows nothing yet."""
    table = SmallTable(spark, str(path), refused, kept_ms=0)
    append(spark, table, range(8))
    trapped.touch()
    append(spark, table, range(8, 60))
    trapped.unlink()
    left = commits(path)
    newest = TableLog(spark, str(path)).newest()
    assert newest is not None
    assert left == list(range(left[0], newest.version + 1))
    assert 10 <= len(left) <= 10 + 5 + 1
    checkpoints = [int(file.name[:20]) for file in (path / "_delta_log").glob("*.checkpoint.parquet")]
    assert left[0] <= max(checkpoints)
    assert newest.commits <= 5
    assert len(list((path / "_delta_log").iterdir())) <= 4 * len(left) + 2 * len(checkpoints) + 4
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    assert beats(spark, path) == list(range(60))
    append(spark, SmallTable(spark, str(path), refused, kept_ms=0), range(60, 70))
    assert beats(spark, path) == list(range(70))


@pytest.mark.usefixtures("ours")
def test_a_batch_that_is_recorded_adds_nothing(spark: SparkSession, path: Path) -> None:
    """Also by another object, and behind a checkpoint."""
    for table in (SmallTable(spark, str(path), refused), SmallTable(spark, str(path), refused)):
        append(spark, table, range(12))
    assert beats(spark, path) == list(range(12))


@pytest.mark.usefixtures("ours")
def test_the_commit_says_what_deltas_writer_would(spark: SparkSession, path: Path) -> None:
    """Figures, the batch's own words, and the mark of the application."""
    append(spark, SmallTable(spark, str(path), refused), range(2))
    log = TableLog(spark, str(path))
    first, second = log.commits.one(0), log.commits.one(1)
    assert first is not None
    assert second is not None
    assert (second.operation, second.user_metadata) == (first.operation, "batch 1")
    for name in ("numOutputRows", "numFiles"):
        assert second.metrics[name] == first.metrics[name] == "1"
    assert second.count("numOutputBytes") > 0
    newest = log.newest()
    assert newest is not None
    assert newest.recorded(APP) == 1


@pytest.mark.usefixtures("ours")
def test_the_engines_own_tables_are_such_tables(spark: SparkSession, path: Path) -> None:
    """Notifications, with a map and a moment; heartbeats and transactions, with what they nest."""
    notified = NotificationTable(spark, str(path / "notifications"), "engine")
    for _ in range(3):
        notified.send([Notification("1", "Initial Snapshot", "STARTED", {"a": "b"}, 1_764_000_000_000)])
    heartbeats = HeartbeatTable(spark, str(path / "heartbeats"), lambda: APP, "shop", 1_000)
    transactions = TransactionTable(spark, str(path / "transactions"), lambda: APP)
    table: AppendedTable
    for table in (heartbeats, transactions):
        for batch in range(3):
            nothing = dict.fromkeys(table.schema.names)
            table.append([nothing], Identity(batch, {"batch": batch}))
        assert spark.read.format("delta").load(str(path / table.folder)).count() == 3
    assert spark.read.format("delta").load(str(path / "notifications")).count() == 3


def test_other_columns_are_left_to_deltas_writer(spark: SparkSession, path: Path) -> None:
    """A table of an older engine that has one more: the row has none of it. One that lacks a column refuses."""
    table = SmallTable(spark, str(path), refused)
    append(spark, table, range(2))
    table.append(rows(spark, 2).select("n"), APP, 2, "")
    found = {row["n"]: row["text"] for row in spark.read.format("delta").load(str(path)).collect()}
    assert found == {0: "beat 0", 1: "beat 1", 2: None}
    with pytest.raises(Exception, match=r"(?i)schema"):
        table.append(rows(spark, 3).selectExpr("*", "1 AS more"), APP, 3, "")


def test_commits_stay_for_as_long_as_the_table_says(spark: SparkSession, path: Path) -> None:
    """A week, unless it has a property; by when they were written."""
    table = SmallTable(spark, str(path), refused)
    append(spark, table, range(30))
    assert commits(path)[0] == 0
    now = (path / "_delta_log").stat().st_mtime
    for version in range(12):
        os.utime(path / "_delta_log" / f"{version:020}.json", times=(now, now - 3 * 3_600))
    append(spark, table, range(30, 36))
    assert commits(path)[0] == 0
    names = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"
    say(spark, path, dict.fromkeys(names, "interval 2 hours"))
    append(spark, table, range(36, 42))
    assert commits(path)[0] == 12
    assert beats(spark, path) == list(range(42))


def test_what_fails_behind_an_append_does_not_undo_it(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told, and tried again later; appends go on."""
    told: list[Exception] = []
    table = SmallTable(spark, str(path), told.append, kept_ms=0)
    append(spark, table, range(8))
    with monkeypatch.context() as patched:
        patched.setattr(TableLog, "checkpoint", failing)
        append(spark, table, range(8, 20))
    assert [str(error) for error in told] == ["no"]
    assert beats(spark, path) == list(range(20))
    monkeypatch.setattr(small_table, "_RETRY_SECONDS", 0.0)
    append(spark, SmallTable(spark, str(path), told.append, kept_ms=0), range(20, 30))
    assert len(told) == 1
    assert commits(path)[0] > 0


def failing(*_: object, **__: object) -> None:
    raise OSError("no")


def test_the_log_of_a_table_that_is_left_to_delta_is_looked_after(spark: SparkSession, path: Path) -> None:
    """Somebody has given it a column of his own."""
    table = SmallTable(spark, str(path), refused, kept_ms=0)
    append(spark, table, range(8))
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (mine STRING)")
    append(spark, table, range(8, 40))
    newest = TableLog(spark, str(path)).newest()
    assert newest is not None
    assert newest.commits <= 5
    assert len(commits(path)) <= 10 + 5 + 1
    assert beats(spark, path) == list(range(40))


def test_another_table_in_its_place_is_a_table_of_its_own(spark: SparkSession, path: Path) -> None:
    """What was known of the first one's oldest commit is forgotten; and a table may keep all of its commits."""
    table = SmallTable(spark, str(path), refused, kept_ms=0)
    append(spark, table, range(30))
    assert commits(path)[0] > 0
    shutil.rmtree(path)
    append(spark, table, range(30))
    left = commits(path)
    assert 0 < left[0] <= 30
    assert left == list(range(left[0], left[-1] + 1))
    say(spark, path, {"delta.enableExpiredLogCleanup": "false"})
    append(spark, table, range(30, 50))
    assert commits(path)[0] == left[0]
    assert beats(spark, path) == list(range(50))


def test_somebodys_own_interval_is_not_overruled(spark: SparkSession, path: Path) -> None:
    """Whoever has said how often there is to be a checkpoint has it so often."""
    table = SmallTable(spark, str(path), refused, kept_ms=0)
    append(spark, table, range(2))
    say(spark, path, {"delta.checkpointInterval": "3"})
    append(spark, table, range(2, 14))
    newest = TableLog(spark, str(path)).newest()
    assert newest is not None
    assert newest.table_property("delta.checkpointInterval") == "3"
    assert beats(spark, path) == list(range(14))


def test_files_are_only_for_a_table_of_these_columns(spark: SparkSession, path: Path) -> None:
    """And these partitions, which asks its writers for nothing else. Where somebody alters it meanwhile, nothing is
    appended, and the files go."""
    table = SmallTable(spark, str(path), refused)
    schema = rows(spark, 1).schema
    assert table.for_files(schema, []) is None
    append(spark, table, [1])
    assert table.for_files(schema, []) == TableFolder.on_disk(str(path))
    assert table.for_files(schema, ["n"]) is None
    assert table.for_files(schema.add("more", "string"), []) is None
    say(spark, path, {"delta.enableChangeDataFeed": "true"})
    assert table.for_files(rows(spark, 1).schema, []) is None
    file = NewFile("told-1-0-x.parquet", 1, 1, "", "", 0)
    (path / file.name).write_bytes(b"x")
    with pytest.raises(Unsupported, match="takes no files now"):
        table.append(None, APP, 2, "", [file])
    assert beats(spark, path) == [1]
    assert not (path / file.name).exists()


@pytest.mark.parametrize("ours", [True, False])
def test_a_commit_of_the_batch_that_is_met_counts(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, ours: bool
) -> None:
    """Its answer was lost, and Delta tried again: what the second attempt meets is this batch. Of another batch it is
    an error, as ever, and nothing is counted."""
    table = SmallTable(spark, str(path), refused)
    append(spark, table, [1])
    met = ConcurrentTransactionException("somebody has committed under this id")
    answer_appends(monkeypatch, met, landed=ours)
    with nullcontext() if ours else pytest.raises(ConcurrentTransactionException):
        append(spark, table, [2])
    assert beats(spark, path) == ([1, 2] if ours else [1])
