"""READs that topics are told of, in the outbox: by files, from frames, and where the table takes no files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from delta.exceptions import ConcurrentTransactionException
from pyspark.sql import SparkSession

from snapshotter.landing.targets import outbox as outbox_target
from snapshotter.landing.targets import told_reads
from snapshotter.landing.targets.outbox import OutboxTarget
from snapshotter.landing.targets.target import Contents
from snapshotter.outbox.table import Outbox
from snapshotter.outbox.topics_config import TopicsConfig
from snapshotter.state.storage import MemoryStorage
from streaming.connect.topic_names import TopicNames
from streaming.events.envelope import Envelope
from streaming.namespaces import Namespace
from tests.support.commit_answers import answer_appends
from tests.support.tables import added, rows
from tests.support.told_reads import ORDERS, Batches, at

FILES, FRAMES, TAKES_NONE = "files", "frames", "a table that takes no files"
PEOPLE = Namespace("shop", "people")


@dataclass(slots=True)
class Rig:
    """An outbox, and batches for it by one of the roads."""

    spark: SparkSession
    folder: Path
    batches: Batches
    storage: MemoryStorage = field(default_factory=MemoryStorage)

    @property
    def table(self) -> Path:
        return self.folder / "outbox"

    def outbox(self) -> Outbox:
        """As a start of the engine opens it."""
        opened = Outbox(lambda: self.spark, str(self.table), self.storage, 1 << 30)
        opened.open()
        return opened

    def target(self, outbox: Outbox | None = None, **config: Any) -> OutboxTarget:
        said = replace(TopicsConfig(TopicNames("shop"), "nowhere:9092"), **config)
        clock = lambda: 1_764_000_000_000_000_000  # noqa: E731 - as good as a name
        return OutboxTarget(
            outbox or self.outbox(), said, Envelope("shop", "1"), lambda: "app", now=lambda: 0.0, clock=clock
        )

    def told(self, op: str = "r") -> list[tuple[str, str, int, Any, int]]:
        """Topic, key, second, value of ``v`` and stretch of each record, in their order."""
        found = []
        for row in rows(self.table):
            value = json.loads(row["value"])
            if value.get("op") == op:
                key, after = json.loads(row["key"])["id"], json.loads(value["after"])["v"]
                second = (row["cluster_time"] >> 32) - at(0).t
                found.append((row["topic"], key, second, after, row["stretch"]))
        return sorted(found)

    def files(self) -> Mapping[str, Any]:
        return added(self.table)

    def written_by_workers(self) -> int:
        """How many of the table's files."""
        return sum("/told-" in name for name in self.files())

    def left(self) -> set[str]:
        """Files in the table's folder that no commit has added."""
        there = {str(file.relative_to(self.table)) for file in self.table.rglob("stretch=*/*.parquet")}
        return there - self.files().keys()


@pytest.fixture(params=[FILES, FRAMES, TAKES_NONE])
def road(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def rig(road: str, spark: SparkSession, tmp_path: Path) -> Rig:
    made = Rig(spark, tmp_path, Batches(spark, tmp_path / "documents", in_files=road != FRAMES))
    if road == TAKES_NONE:
        made.target().land(made.batches.batch(0, [(1, 1, "c")], end=1))
        spark.sql(f"ALTER TABLE delta.`{made.table}` SET TBLPROPERTIES ('delta.enableChangeDataFeed'='true')")
    return made


@pytest.fixture
def by_files(spark: SparkSession, tmp_path: Path) -> Rig:
    return Rig(spark, tmp_path, Batches(spark, tmp_path / "documents"))


def test_topics_are_told_of_reads(rig: Rig, road: str) -> None:
    """As records behind the events of their time, those that are superseded left out; in one commit with the events'
    and with a heartbeat. A batch that comes again changes nothing."""
    rig.batches.read(1, 10, {1: 10, 2: 20, 3: 30})
    rig.batches.read(2, 12, {5: 50, 6: 60})
    contents = rig.batches.batch(1, [(15, 3, "u"), (16, 9, "c")], [(11, 1), (13, 6)])
    outbox = rig.outbox()
    before = len(outbox.waiting)
    target = rig.target(outbox, heartbeat_ms=1_000)
    target.land(contents)
    rig.target(outbox).land(contents)
    stretch = before + 1
    assert rig.told() == [
        ("shop.shop.orders", "2", 10, 20, stretch),
        ("shop.shop.orders", "5", 12, 50, stretch),
    ]
    found = [row for row in rows(rig.table) if row["stretch"] == stretch]
    assert sorted(row["kind"] for row in found) == ["event"] * 4 + ["heartbeat"]
    reads = [row for row in found if row["place"] == 1 << 62]
    assert len(reads) == 2
    assert [json.loads(row["value"])["source"]["snapshot"] for row in reads] == ["incremental"] * 2
    waiting = outbox.waiting[-1]
    of_stretch = [file for name, file in rig.files().items() if name.startswith(f"stretch={stretch}/")]
    assert (waiting.number, waiting.records) == (stretch, 5)
    assert waiting.size_bytes == sum(file["size"] for file in of_stretch)
    assert rig.outbox().waiting[-1].records == 5
    assert rig.written_by_workers() == (1 if road == FILES else 0)
    assert rig.left() == set()


def test_files_of_several_collections_come_from_one_job(
    by_files: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each to its own topic; and nothing but files is in the batch."""
    jobs: list[int] = []

    def counted(spark: SparkSession, tasks: Any, *given: Any) -> Any:
        jobs.append(len(tasks))
        return told_reads.write(spark, tasks, *given)

    monkeypatch.setattr(outbox_target, "write", counted)
    people = Batches(by_files.spark, by_files.folder / "people", namespace=PEOPLE)
    by_files.batches.read(1, 10, {1: 10})
    people.read(2, 11, {1: 11, 2: 12})
    orders, others = by_files.batches.batch(1), people.batch(1)
    both = replace(orders, collections={**orders.collections, **others.collections})
    by_files.target().land(both)
    assert by_files.told() == [
        ("shop.shop.orders", "1", 10, 10, 1),
        ("shop.shop.people", "1", 11, 11, 1),
        ("shop.shop.people", "2", 11, 12, 1),
    ]
    assert (jobs, by_files.written_by_workers()) == ([2], 2)
    assert len(by_files.files()) == 2


def test_where_all_reads_are_superseded_a_stretch_is_empty(by_files: Rig) -> None:
    """It counts as one all the same, and the next has the next number."""
    outbox = by_files.outbox()
    target = by_files.target(outbox)
    by_files.batches.read(1, 10, {1: 10})
    target.land(by_files.batches.batch(1, told=[(11, 1)]))
    by_files.batches.read(2, 12, {2: 20})
    target.land(by_files.batches.batch(2))
    assert [(one.number, one.records) for one in outbox.waiting] == [(1, 0), (2, 1)]
    assert outbox.read(outbox.waiting).count() == 1


@pytest.mark.parametrize("told", [[], [(11, 1)]])
def test_topics_lose_windows_whose_documents_are_gone(by_files: Rig, told: list[tuple[int, int]]) -> None:
    """Nothing is appended, so that the batch comes whole once they are read again; and nothing is left behind."""
    closing = by_files.batches.read(1, 10, {1: 10, 2: 20})
    contents = by_files.batches.batch(1, [(15, 3, "u")], told)
    by_files.batches.lose(contents)
    target = by_files.target()
    assert target.land(contents).lost == {closing.window.id}
    assert target.recorded([ORDERS], 1) == set()
    assert by_files.left() == set()


def test_a_file_that_is_gone_before_the_commit_is_written_again(
    by_files: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The windows of the batch are read again for it, and the stretch that follows has its number."""
    target = by_files.target()

    def gone(*given: Any) -> Any:
        files = told_reads.write(*given)
        for file in files:
            (by_files.table / "stretch=1" / file.name).unlink()
        return files

    def batch() -> Contents:
        by_files.batches.read(1, 10, {1: 10})
        return by_files.batches.batch(1, [(15, 3, "c")])

    with monkeypatch.context() as patch:
        patch.setattr(outbox_target, "write", gone)
        assert len(target.land(batch()).lost) == 1
    assert target.recorded([ORDERS], 1) == set()
    target.land(batch())
    assert by_files.told() == [("shop.shop.orders", "1", 10, 10, 1)]
    assert by_files.told("c") == [("shop.shop.orders", "3", 15, "c", 1)]


@pytest.mark.parametrize("landed", [True, False])
def test_a_commit_whose_answer_is_lost(by_files: Rig, monkeypatch: pytest.MonkeyPatch, landed: bool) -> None:
    """Where the table has it, the batch that comes again changes nothing, and what is there waits; where it has not,
    the batch brings others. What no commit has added goes with the stretch, once that is delivered."""
    outbox = by_files.outbox()

    def batch() -> Contents:
        by_files.batches.read(1, 10, {1: 10})
        return by_files.batches.batch(1, [(15, 3, "c")])

    with monkeypatch.context() as patch:
        answer_appends(patch, ConnectionError("the storage's answer is lost"), landed=landed)
        with pytest.raises(ConnectionError):
            by_files.target(outbox).land(batch())
    by_files.target(outbox).land(batch())
    assert [(one.number, one.records) for one in outbox.waiting] == [(1, 2)]
    assert by_files.told() == [("shop.shop.orders", "1", 10, 10, 1)]
    told = {name for name in by_files.left() if "/told-" in name}
    assert len(told) == (0 if landed else 1)
    outbox.delivered(1)
    outbox.prune()
    assert not list(by_files.table.glob("stretch=*"))


def test_files_go_where_the_rows_beside_them_fail(by_files: Rig) -> None:
    """Some READs lie in files, and others in frames, whose blocks are lost: nothing is left behind."""
    people = Batches(by_files.spark, by_files.folder / "people", in_files=False, namespace=PEOPLE)
    by_files.batches.read(1, 10, {1: 10})
    people.read(2, 11, {1: 11})
    orders, others = by_files.batches.batch(1), people.batch(1)
    people.lose(others)
    both = replace(orders, collections={**orders.collections, **others.collections})
    target = by_files.target()
    assert {str(window) for window in target.land(both).lost} == {"run/2"}
    assert (by_files.files(), by_files.left()) == ({}, set())
    people.read(2, 11, {1: 11})
    both = replace(orders, collections={**orders.collections, **people.batch(1).collections})
    target.land(both)
    assert [(topic, key) for topic, key, *_ in by_files.told()] == [
        ("shop.shop.orders", "1"),
        ("shop.shop.people", "1"),
    ]
    assert by_files.written_by_workers() == 1


def test_our_own_commit_that_an_attempt_meets_counts(by_files: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer was lost, and Delta tried again: what the second attempt takes for another writer's is this one."""
    answer_appends(monkeypatch, ConcurrentTransactionException("somebody has committed under this id"))
    outbox = by_files.outbox()
    by_files.batches.read(1, 10, {1: 10})
    by_files.target(outbox).land(by_files.batches.batch(1, [(15, 3, "c")]))
    assert [(one.number, one.records) for one in outbox.waiting] == [(1, 2)]


def test_a_job_that_fails_leaves_nothing(by_files: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of its tasks that were done; the batch can come again."""
    monkeypatch.setattr(told_reads, "_TASK_BYTES", 1)
    by_files.batches.read(1, 10, {1: 10}, size_bytes=100)
    closing = by_files.batches.read(2, 11, {2: 20}, size_bytes=100)
    contents = by_files.batches.batch(1)
    documents = contents.collections[ORDERS].buffers[closing.window.id].trailers[0].documents
    assert documents is not None
    damaged = by_files.batches.folder / documents.name  # of its size still: it is neither gone nor cut off
    damaged.write_bytes(b"no Parquet".ljust(damaged.stat().st_size))
    target = by_files.target()
    with pytest.raises(Exception, match="Parquet"):
        target.land(contents)
    assert (by_files.files(), by_files.left()) == ({}, set())
    assert target.recorded([ORDERS], 1) == set()
