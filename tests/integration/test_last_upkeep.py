"""The upkeep of a run that ends by itself: its last turn, and what the next run knows of it. And what landings leave to
upkeep from the first one on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from snapshotter.engine import upkeep
from snapshotter.state.lock import LockLostError
from snapshotter.state.storage import LocalStorage, MemoryStorage, Storage
from snapshotter.state.upkeep_notes import UpkeepNote, keep_notes, read_notes
from streaming.delta.table_paths import STATE, changelog_path
from streaming.delta.upkeep_plan import Pace
from streaming.namespaces import Namespace
from tests.support.engine_upkeep import ITEMS, ORDERS, Kept
from tests.support.engines import SECONDS, Lab, lab

__all__ = ["lab"]

_DAY_MS = 86_400_000


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step rests for as long as the tests may last, where it rests at all."""
    monkeypatch.setattr(Pace, "pause", staticmethod(lambda seconds, busy: SECONDS))


def ends(kept: Kept) -> None:
    """As at the end of a run that nobody stops."""
    kept.upkeep.last_turn(lambda: False, lambda: None)


def files(path: Path) -> int:
    """So many the table has now."""
    return len(DeltaTable(str(path)).file_uris())


def checkpoints(path: Path) -> int:
    return len(list(path.glob("_delta_log/*.checkpoint*.parquet")))


def key(namespace: Namespace) -> tuple[str, str]:
    return str(namespace), STATE


def a_day_ago(storage: Storage) -> None:
    """All that was noted was a day before."""
    notes = read_notes(storage).items()
    keep_notes(storage, {n: replace(note, vacuumed_ms=note.vacuumed_ms - _DAY_MS) for n, note in notes})


@pytest.mark.usefixtures("rests")
def test_what_is_due_is_done_without_rests(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    """Of each table, although nothing was looked at before; rows stay as they are."""
    kept = Kept(spark, lab, tmp_path)
    for batch in range(4):
        kept.land(ORDERS, batch)
        kept.land(ITEMS, batch)
    ends(kept)
    assert kept.counted() == {"compact": 2}
    for name in (ORDERS, ITEMS):
        assert kept.keys(name) == [f"k{batch}" for batch in range(4)]
        assert files(kept.path(name)) == 1
    assert kept.report(ORDERS).due is None


def test_the_log_gets_its_checkpoint(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    """Behind ten commits, for landings leave it to the upkeep from then on."""
    kept = Kept(spark, lab, tmp_path)
    for batch in range(12):
        kept.land(ORDERS, batch)
    before = checkpoints(kept.path(ORDERS))
    ends(kept)
    assert kept.counted()["checkpoint"] == 1
    assert checkpoints(kept.path(ORDERS)) == before + 1


def test_old_files_are_removed_once_a_day_whatever_runs_there_are(
    spark: SparkSession, lab: Lab, tmp_path: Path
) -> None:
    """Not by the first run that meets a table, by one a day later, and not by the next."""
    storage = MemoryStorage()

    vacuums: list[int] = []
    for turn in range(4):
        if turn == 2:
            a_day_ago(storage)
        kept = Kept(spark, lab, tmp_path, storage, retention_hours=168)
        kept.land(ORDERS, turn)
        ends(kept)
        vacuums.append(kept.counted().get("vacuum", 0))
    assert vacuums == [0, 0, 1, 0]


def test_an_engine_that_goes_on_leaves_word_of_it(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It removes old files soon after its start, and the runs behind it know."""
    storage = MemoryStorage()
    kept = Kept(spark, lab, tmp_path, storage, retention_hours=168)
    kept.land(ORDERS, 0)
    monkeypatch.setattr(upkeep, "LOOK_SECONDS", 0.0)
    kept.looks(1)
    assert kept.counted() == {"vacuum": 1}
    assert read_notes(storage)[key(ORDERS)].vacuumed_ms > 0


def test_those_that_have_waited_longest_come_first(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the time is short: each run has another table's turn."""
    monkeypatch.setattr(upkeep, "LAST_SECONDS", 0.0)
    storage = MemoryStorage()
    for turn in range(2):
        kept = Kept(spark, lab, tmp_path, storage)
        for batch in range(4):
            kept.land(ORDERS, 4 * turn + batch)
            kept.land(ITEMS, 4 * turn + batch)
        ends(kept)
        assert [kept.report(name).rewrites for name in (ITEMS, ORDERS)] == [1 - turn, turn]


def test_a_stop_ends_it_and_a_lost_lock_ends_the_engine(
    spark: SparkSession, lab: Lab, tmp_path: Path
) -> None:
    """Whoever stops the engine waits for no upkeep; without the lock nothing is written, and the engine is told."""
    kept = Kept(spark, lab, tmp_path)
    for batch in range(4):
        kept.land(ORDERS, batch)
    kept.upkeep.last_turn(lambda: True, lambda: None)
    assert kept.upkeep._last is None
    kept.locked = False
    with kept.upkeep, pytest.raises(LockLostError):
        kept.upkeep.last_turn(lambda: False, kept.check)
    assert files(kept.path(ORDERS)) == 4


def test_a_file_that_is_none_of_ours_is_replaced(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    """Nothing depends on it but how soon a table is looked after again."""
    storage = LocalStorage(tmp_path / "state")
    storage.write_text("upkeep.json", '{"format": 1, "tables": [{"collection": "shop.orders"}]}')
    with pytest.raises(ValueError, match=r"upkeep\.json"):
        read_notes(storage)
    kept = Kept(spark, lab, tmp_path, storage)
    kept.land(ORDERS, 0)
    ends(kept)
    note = read_notes(storage)[key(ORDERS)]
    assert note.looked_ms >= note.vacuumed_ms > 0


def test_a_schedulers_runs_keep_files_in_order(lab: Lab) -> None:
    """`run --once`, again and again: each adds a file, and no table has more than are wanted."""
    lab.with_options("cluster_time", snapshot__mode="no_data", engine__upkeep__small__files=3)
    lab.engine().engine.run(once=True)
    for number in range(7):
        lab.collection("orders").insert_one({"_id": number, "v": number})
        lab.engine().engine.run(once=True)
        assert files(lab.table("orders")) < 3
    lab.assert_equal("orders")
    lab.assert_one_commit_a_batch("orders")
    assert any(commit["operation"] == "OPTIMIZE" for commit in DeltaTable(str(lab.table("orders"))).history())
    assert set(read_notes(LocalStorage(lab.state))) == {(lab.name("orders"), STATE)}


def test_no_landing_writes_a_checkpoint_of_the_log(lab: Lab) -> None:
    """Not even in the first half minute of a table, in which upkeep does not look at it: each takes longer than a
    landing. With engine.upkeep.enabled=false every tenth does, as Delta has it."""
    lab.with_options("cluster_time", snapshot__mode="no_data", delta__changelog__enabled="true")
    changelog = Path(changelog_path(lab.namespace("orders")))
    tables = [lab.table("orders"), lab.folder / "warehouse" / changelog]
    with lab.running() as engine:
        for number in range(11):
            lab.collection("orders").insert_one({"_id": number})
            engine.catch_up(SECONDS)
    assert all(DeltaTable(str(path)).version() > 10 for path in tables)
    assert [checkpoints(path) for path in tables] == [0, 0]
    lab.with_options(
        "cluster_time",
        engine__upkeep__enabled="false",
        name="another",
        delta__warehouse=str(lab.folder / "other"),
    )
    tables = [lab.folder / "other" / path.relative_to(lab.folder / "warehouse") for path in tables]
    with lab.running() as engine:
        for number in range(11, 22):
            lab.collection("orders").insert_one({"_id": number})
            engine.catch_up(SECONDS)
    assert [checkpoints(path) for path in tables] == [1, 1]


def test_what_is_noted_is_read_again() -> None:
    """As it was; and what was never noted is never."""
    storage, notes = (
        MemoryStorage(),
        {("shop.orders", "state"): UpkeepNote(2, 1), ("shop.é", "changelog"): UpkeepNote()},
    )
    assert read_notes(storage) == {}
    keep_notes(storage, notes)
    assert read_notes(storage) == notes
