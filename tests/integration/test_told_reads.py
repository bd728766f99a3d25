"""READs that changelogs tell of: by files, from frames, and where the table takes no files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from delta.exceptions import ConcurrentTransactionException
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from snapshotter.landing.table_faults import Blame
from snapshotter.landing.targets import changelogs, telling, told_reads
from snapshotter.landing.targets.changelogs import Changelogs
from streaming.delta.changelog_table import ChangelogTable
from streaming.delta.transaction import Transaction
from streaming.events.envelope import Envelope
from streaming.namespaces import Namespace
from tests.support.commit_answers import answer_appends
from tests.support.tables import added, rows
from tests.support.told_reads import ORDERS, Batches, at

FILES, FRAMES, TAKES_NONE = "files", "frames", "a table that takes no files"
AT_NS = 1_764_000_000_000_000_000
EVENTS = [(5, 1, "u"), (15, 3, "u"), (16, 4, "d"), (17, 99, "c")]
"""Second, id, operation."""


@dataclass(slots=True)
class Rig:
    """A changelog, and batches for it by one of the roads."""

    spark: SparkSession
    folder: Path
    road: str
    batches: Batches
    counted: list[tuple[int, int]]

    @property
    def table(self) -> Path:
        return self.folder / "changelog" / "shop" / "orders"

    def changelogs(self) -> Changelogs:
        """As a start of the engine makes it."""

        def count(namespace: Namespace, events: int, reads: int) -> None:
            self.counted.append((events, reads))

        envelope = Envelope("shop", "1")
        known = self.spark, str(self.folder), envelope, lambda: "snapshotter:test:1", lambda: None, Blame()
        return Changelogs(*known, clock=lambda: AT_NS, count=count)

    def alter(self, change: str) -> None:
        self.spark.sql(f"ALTER TABLE delta.`{self.table}` {change}")

    def reads(self) -> list[tuple[str, int, str, str, int]]:
        """Key, value, window, request and second of each READ, in their order."""
        return sorted(
            (
                row["key"],
                json.loads(row["after"])["v"],
                row["_window"],
                row["_request"],
                row["source"]["ts_ms"] // 1_000 - at(0).t,
            )
            for row in rows(self.table)
            if row["op"] == "r"
        )

    def left(self) -> set[str]:
        """Files in the table's folder that no commit has added."""
        return {file.name for file in self.table.glob("*.parquet")} - added(self.table).keys()

    def written_by_workers(self) -> int:
        """How many of the table's files."""
        return sum(name.startswith("told-") for name in added(self.table))


@pytest.fixture(params=[FILES, FRAMES, TAKES_NONE])
def rig(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Rig:
    batches = Batches(spark, tmp_path / "documents", in_files=request.param != FRAMES)
    made = Rig(spark, tmp_path, request.param, batches, [])
    if request.param == TAKES_NONE:
        made.changelogs().land(batches.batch(0, [(1, 1, "c")], end=1))
        made.alter("SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    return made


@pytest.fixture
def by_files(spark: SparkSession, tmp_path: Path) -> Rig:
    return Rig(spark, tmp_path, FILES, Batches(spark, tmp_path / "documents"), [])


def test_reads_are_told_that_nothing_supersedes(rig: Rig) -> None:
    """By an event of their key behind their window's low watermark: in this batch, or told since the window was
    registered. All say their window and its request, and hold as of its low watermark. One commit has them and the
    events, and a batch that comes again changes nothing and leaves nothing behind."""
    rig.batches.read(1, 10, {1: 10, 2: 20, 3: 30, 4: 40})
    rig.batches.read(2, 12, {5: 50, 6: 60, 7: 70})
    told = [(11, 5), (13, 6)]
    rig.changelogs().land(rig.batches.batch(1, EVENTS, told))
    expected = [("1", 10, "run/1", "r1", 10), ("2", 20, "run/1", "r1", 10)]
    expected += [("5", 50, "run/2", "r2", 12), ("7", 70, "run/2", "r2", 12)]
    assert rig.reads() == expected
    events = [row for row in rows(rig.table) if row["op"] != "r" and row["_cluster_time"] > at(1).to_int()]
    assert sorted((row["key"], row["op"], row["_order"]) for row in events) == [
        ("1", "u", 0),
        ("3", "u", 0),
        ("4", "d", 0),
        ("99", "c", 0),
    ]
    assert rig.counted[-1] == (4, 4)
    assert rig.written_by_workers() == (1 if rig.road == FILES else 0)
    history = DeltaTable(str(rig.table)).history()
    assert len([one for one in history if one["operation"] == "WRITE"]) == (
        2 if rig.road == TAKES_NONE else 1
    )
    assert int(history[0]["operationMetrics"]["numOutputRows"]) == 8

    rig.batches.read(1, 10, {1: 10, 2: 20, 3: 30, 4: 40})
    landed = rig.changelogs().land(rig.batches.batch(1, EVENTS, told))
    assert not landed.collections[ORDERS].wrote
    assert (rig.reads(), rig.left(), len(rig.counted)) == (
        expected,
        set(),
        2 if rig.road == TAKES_NONE else 1,
    )


def test_a_window_of_which_nothing_is_left_is_recorded(rig: Rig) -> None:
    """A batch of READs alone, all of which gave way; and one of a window that was empty."""
    changelogs = rig.changelogs()
    rig.batches.read(1, 10, {1: 10})
    rig.batches.read(2, 10, {})
    changelogs.land(rig.batches.batch(1, told=[(11, 1)]))
    assert rig.reads() == []
    assert changelogs.recorded([ORDERS], 1) == {ORDERS}
    rig.batches.read(3, 20, {1: 11, 2: 21})
    changelogs.land(rig.batches.batch(2, told=[(20, 1)]))
    assert rig.reads() == [("1", 11, "run/3", "r3", 20), ("2", 21, "run/3", "r3", 20)]
    assert rig.counted[-1] == (0, 2)


def test_somebodys_columns_are_null(rig: Rig) -> None:
    """Whatever way READs come in."""
    changelogs = rig.changelogs()
    changelogs.land(rig.batches.batch(1, [(1, 1, "c")], end=1))
    rig.alter("ADD COLUMNS (team STRING)")
    rig.batches.read(1, 10, {1: 10})
    changelogs.land(rig.batches.batch(2, [(20, 2, "c")]))
    assert {row["op"]: row["team"] for row in rows(rig.table)} == {"c": None, "r": None}
    assert rig.reads() == [("1", 10, "run/1", "r1", 10)]


def test_readers_find_reads_by_their_statistics(rig: Rig) -> None:
    """By what Delta keeps of each file: keys, times, and that READs have no place among the events of their time."""
    rig.batches.read(1, 10, {n: n for n in range(50)})
    rig.changelogs().land(rig.batches.batch(1, EVENTS))
    frame = rig.spark.read.format("delta").load(str(rig.table))
    assert frame.where("_order IS NULL").count() == 48
    assert frame.where("_order >= 0 AND op != 'r'").count() == 4 + (rig.road == TAKES_NONE)
    assert frame.where(f"_cluster_time = {at(10).to_int()} AND key = '7'").count() == 1
    table = ChangelogTable(rig.spark, str(rig.table), ORDERS, "snapshotter:test:1", frame.schema)
    newest = DeltaTable(str(rig.table)).version()
    assert table.reads_in(newest) == 48


def test_large_windows_make_files_of_their_own(by_files: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones share one."""
    monkeypatch.setattr(told_reads, "_TASK_BYTES", 1_000)
    for number, size in enumerate((400, 500, 600, 2_000, 300), 1):
        by_files.batches.read(number, 10, {number: number}, size)
    by_files.changelogs().land(by_files.batches.batch(1))
    assert by_files.written_by_workers() == 4
    assert [key for key, *_ in by_files.reads()] == ["1", "2", "3", "4", "5"]


def test_documents_are_read_a_part_at_a_time(by_files: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """And those that gave way are left out wherever they are."""
    monkeypatch.setattr(telling, "_BATCH_BYTES", 10)
    by_files.batches.read(1, 10, {n: n for n in range(30)}, size_bytes=100)
    by_files.changelogs().land(by_files.batches.batch(1, told=[(11, n) for n in (0, 2, 3, 17, 29)]))
    assert {int(key) for key, *_ in by_files.reads()} == set(range(30)) - {0, 2, 3, 17, 29}


def between(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Do this once files are written, before the commit that is to name them."""

    def written(*given: Any) -> Any:
        files = told_reads.write(*given)
        assert files
        do()
        return files

    monkeypatch.setattr(changelogs, "write", written)


@pytest.mark.parametrize(
    "change",
    [
        "SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "ADD CONSTRAINT keyed CHECK (_key IS NOT NULL)",
    ],
)
def test_a_table_that_is_altered_meanwhile_gets_rows(
    by_files: Rig, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """It takes no files any more when they are written: their rows go through Delta's own writer, and they go."""
    changelogs = by_files.changelogs()
    changelogs.land(by_files.batches.batch(1, [(1, 1, "c")], end=1))
    between(monkeypatch, lambda: by_files.alter(change))
    by_files.batches.read(1, 10, {1: 10, 2: 20})
    changelogs.land(by_files.batches.batch(2, [(20, 3, "c")]))
    assert [key for key, *_ in by_files.reads()] == ["1", "2"]
    assert by_files.counted[-1] == (1, 2)
    assert (by_files.written_by_workers(), by_files.left()) == (0, set())
    assert len(rows(by_files.table)) == 4


def rewritten(rig: Rig, change: Callable[[DataFrame], DataFrame], *partitions: str) -> None:
    """Somebody writes the changelog anew."""
    frame = change(rig.spark.read.format("delta").load(str(rig.table)).localCheckpoint())
    written = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    written.partitionBy(*partitions).save(str(rig.table))


def test_a_table_with_partitions_gets_rows(by_files: Rig) -> None:
    """For no file of a worker lies in one."""
    changelogs = by_files.changelogs()
    changelogs.land(by_files.batches.batch(1, [(1, 1, "c")], end=1))
    rewritten(by_files, lambda frame: frame, "op")
    by_files.batches.read(1, 10, {1: 10, 2: 20})
    changelogs.land(by_files.batches.batch(2))
    found = by_files.spark.read.format("delta").load(str(by_files.table)).where("op = 'r'")
    assert sorted(row.key for row in found.collect()) == ["1", "2"]
    assert not list(by_files.table.glob("**/told-*"))


def test_a_table_of_other_types_is_left_to_deltas_writer(by_files: Rig) -> None:
    """Which says that rows do not fit; no file with other types comes into it."""
    changelogs = by_files.changelogs()
    changelogs.land(by_files.batches.batch(1, [(1, 1, "c")], end=1))
    rewritten(by_files, lambda frame: frame.withColumn("ts_ms", F.col("ts_ms").cast("string")))
    by_files.batches.read(1, 10, {1: 10, 2: 20})
    (fault,) = changelogs.land(by_files.batches.batch(2)).faults
    assert fault.namespace == ORDERS
    assert (by_files.reads(), by_files.written_by_workers()) == ([], 0)


def test_files_go_where_no_commit_was_asked_to_add_them(
    by_files: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events of the batch cannot be written, say: the batch comes again, and its READs are written again."""
    changelogs = by_files.changelogs()

    def fails(*_: Any) -> None:
        raise RuntimeError("an executor died")

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "write_all", fails)
        by_files.batches.read(1, 10, {1: 10})
        with pytest.raises(RuntimeError, match="an executor died"):
            changelogs.land(by_files.batches.batch(1, [(20, 3, "c")]))
    assert (added(by_files.table), by_files.left()) == ({}, set())
    by_files.batches.read(1, 10, {1: 10})
    changelogs.land(by_files.batches.batch(1, [(20, 3, "c")]))
    assert ([key for key, *_ in by_files.reads()], by_files.left()) == (["1"], set())


@pytest.mark.parametrize("landed", [True, False])
def test_files_stay_of_a_commit_whose_answer_is_lost(
    by_files: Rig, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    """Whether it has them nobody knows: where it has, the table is whole, and the batch that comes again changes
    nothing; where it has not, the batch brings others."""
    changelogs = by_files.changelogs()
    with monkeypatch.context() as patch:
        answer_appends(patch, ConnectionError("the storage's answer is lost"), landed=landed)
        by_files.batches.read(1, 10, {1: 10})
        with pytest.raises(ConnectionError):
            changelogs.land(by_files.batches.batch(1, [(20, 3, "c")]))
    assert changelogs.recorded([ORDERS], 1) == ({ORDERS} if landed else set())
    by_files.batches.read(1, 10, {1: 10})
    by_files.changelogs().land(by_files.batches.batch(1, [(20, 3, "c")]))
    assert [key for key, *_ in by_files.reads()] == ["1"]
    assert len(rows(by_files.table)) == 2
    told = {name for name in by_files.left() if name.startswith("told-")}
    assert len(told) == (0 if landed else 1)


def test_our_own_commit_that_an_attempt_meets_counts(by_files: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer was lost, and Delta tried again: what the second attempt takes for another writer's is this one."""
    answer_appends(monkeypatch, ConcurrentTransactionException("somebody has committed under this id"))
    by_files.batches.read(1, 10, {1: 10})
    landed = by_files.changelogs().land(by_files.batches.batch(1, [(20, 3, "c")]))
    assert landed.collections[ORDERS].wrote
    assert (by_files.counted, by_files.left()) == ([(1, 1)], set())


def test_another_writer_is_no_hindrance(by_files: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """It alters the table, or puts files together, before the commit: the files are added by the next attempt."""
    changelogs = by_files.changelogs()
    for batch in (1, 2):
        changelogs.land(by_files.batches.batch(batch, [(batch, batch, "c")], end=batch))

    def others() -> None:
        by_files.alter("ADD COLUMNS (team STRING)")
        by_files.spark.sql(f"OPTIMIZE delta.`{by_files.table}`")

    add = Transaction.add

    def meanwhile(transaction: Transaction, *given: Any) -> Any:
        monkeypatch.setattr(Transaction, "add", add)
        others()
        return add(transaction, *given)

    monkeypatch.setattr(Transaction, "add", meanwhile)
    by_files.batches.read(1, 10, {1: 10})
    changelogs.land(by_files.batches.batch(3, [(20, 3, "c")]))
    assert [key for key, *_ in by_files.reads()] == ["1"]
    assert (len(rows(by_files.table)), by_files.written_by_workers()) == (4, 1)
    assert not [name for name in by_files.left() if name.startswith("told-")]


def test_windows_in_files_and_in_frames_are_told_by_one_batch(by_files: Rig) -> None:
    """A small chunk waits as rows, a large one as files."""
    by_files.batches.read(1, 10, {1: 10, 2: 20})
    by_files.batches.in_files = False
    by_files.batches.read(2, 12, {3: 30, 4: 40})
    by_files.batches.in_files = True
    by_files.batches.read(3, 14, {})
    by_files.changelogs().land(by_files.batches.batch(1, [(20, 4, "u")], [(11, 2)]))
    assert [(key, window) for key, _, window, *_ in by_files.reads()] == [("1", "run/1"), ("3", "run/2")]
    assert by_files.counted == [(1, 2)]
    assert by_files.written_by_workers() == 1


def test_few_events_beside_large_windows_leave_one_file(by_files: Rig) -> None:
    """What READs there are is not theirs."""
    by_files.batches.read(1, 10, {1: 10}, size_bytes=200 << 20)
    contents = by_files.batches.batch(1, [(20, n, "c") for n in range(2, 9)])
    collection = contents.collections[ORDERS]
    assert collection.events is not None
    events = collection.events.repartition(4).sortWithinPartitions("ord")
    several = replace(contents, collections={ORDERS: replace(collection, events=events)})
    by_files.changelogs().land(several)
    assert len(added(by_files.table)) == 2


@pytest.mark.parametrize("told", [[], [(11, 1)]])
def test_documents_that_are_gone_are_read_again(rig: Rig, told: list[tuple[int, int]]) -> None:
    """Their files are missed by the driver, which looks for keys in them, or by a worker, their blocks by Spark; and
    Delta's writer wraps the error. The window is lost, no error ends the engine, nothing is committed and no file of
    ours is left behind."""
    changelogs = rig.changelogs()
    closing = rig.batches.read(1, 10, {1: 10, 2: 20})
    contents = rig.batches.batch(1, [(20, 3, "c")], told)
    rig.batches.lose(contents)
    landed = changelogs.land(contents)
    assert landed.lost == {closing.window.id}
    assert changelogs.recorded([ORDERS], 1) == set()
    assert not {name for name in rig.left() if name.startswith("told-")}


def test_a_job_that_fails_leaves_nothing(by_files: Rig) -> None:
    """Documents that are damaged, behind others that were written already: that is no READ that is lost."""
    by_files.batches.read(1, 10, {1: 10})
    by_files.batches.read(2, 10, {2: 10})
    contents = by_files.batches.batch(1)
    (second,) = by_files.batches.folder.glob("reads-*-2-*")
    second.write_bytes(b"PAR1".rjust(second.stat().st_size, b"-"))
    with pytest.raises(Exception, match="Parquet"):
        by_files.changelogs().land(contents)
    assert (added(by_files.table), by_files.left()) == ({}, set())
