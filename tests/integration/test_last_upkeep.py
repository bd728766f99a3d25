"""The upkeep of a run that ends by itself: its last turn, and what the next run knows of it. And what landings leave to
upkeep from the first one on."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from snapshotter.engine import upkeep
from snapshotter.engine.upkeep import TableUpkeep
from snapshotter.reporting.notices import wall_clock_ms
from snapshotter.state.lock import LockLostError
from snapshotter.state.storage import LocalStorage, MemoryStorage, Storage, StorageError
from snapshotter.state.upkeep_notes import UpkeepNote, keep_notes, read_notes
from streaming.delta import rewriting, upkeep_plan
from streaming.delta.file_concat import NotAlike
from streaming.delta.state_upkeep import RetentionContradicted, StateUpkeep
from streaming.delta.table_paths import STATE, changelog_path
from streaming.delta.upkeep_plan import Pace
from streaming.namespaces import Namespace
from tests.support.engine_upkeep import ITEMS, ORDERS, Kept
from tests.support.engines import SECONDS, Lab, lab
from tests.support.tables import age

__all__ = ["lab"]

_DAY_MS = 86_400_000


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step rests for as long as the tests may last, where it rests at all."""
    monkeypatch.setattr(Pace, "pause", staticmethod(lambda seconds, busy: SECONDS))


def ends(kept: Kept) -> None:
    """As at the end of a run that nobody stops."""
    kept.upkeep.last_turn(lambda: False, lambda: None, lambda: None)


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
    kept.land_each(range(4), ORDERS, ITEMS)
    ends(kept)
    assert kept.counted() == {"compact": 2}
    for name in (ORDERS, ITEMS):
        assert kept.keys(name) == [f"k{batch}" for batch in range(4)]
        assert files(kept.path(name)) == 1
    assert kept.report(ORDERS).due is None


def test_the_log_gets_its_checkpoint(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    """Behind ten commits, for landings leave it to the upkeep from then on."""
    kept = Kept(spark, lab, tmp_path)
    kept.land_each(range(12), ORDERS)
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
    """Where the time is short: each run has another table's turn. Where there is none at all nothing is begun."""
    storage = MemoryStorage()
    for turn in range(2):
        kept = Kept(spark, lab, tmp_path, storage)
        done = kept.counted
        monkeypatch.setattr(TableUpkeep, "_over", lambda _self, _until, done=done: bool(done()))
        kept.land_each(range(4 * turn, 4 * turn + 4), ORDERS, ITEMS)
        ends(kept)
        assert [kept.report(name).rewrites for name in (ITEMS, ORDERS)] == [1 - turn, turn]
    monkeypatch.undo()
    monkeypatch.setattr(upkeep, "LAST_SECONDS", 0.0)
    kept = Kept(spark, lab, tmp_path, storage)
    kept.land_each(range(8, 12), ORDERS)
    ends(kept)
    assert kept.counted() == {}


def test_a_stop_ends_it_and_a_lost_lock_ends_the_engine(
    spark: SparkSession, lab: Lab, tmp_path: Path
) -> None:
    """Whoever stops the engine waits for no upkeep; without the lock nothing is written, and the engine is told."""
    kept = Kept(spark, lab, tmp_path)
    kept.land_each(range(4), ORDERS)
    kept.upkeep.last_turn(lambda: True, lambda: None, lambda: None)
    assert kept.upkeep._last is None
    kept.locked = False
    with kept.upkeep, pytest.raises(LockLostError):
        kept.upkeep.last_turn(lambda: False, kept.check, lambda: None)
    assert files(kept.path(ORDERS)) == 4


def test_a_stop_while_another_step_lasts_begins_none(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last turn waits for a step of the looks before; a stop meanwhile is the end of it."""
    kept = Kept(spark, lab, tmp_path)
    kept.land_each(range(4), ORDERS)
    monkeypatch.setattr(upkeep, "LOOK_SECONDS", 0.0)
    stopped = threading.Event()
    with kept.upkeep, kept.upkeep._one_at_a_time:  # as a step does
        kept.upkeep.last_turn(stopped.is_set, lambda: None, stopped.set)
    assert kept.counted() == {}
    assert files(kept.path(ORDERS)) == 4


def test_behind_the_last_turn_nobody_begins_anything(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time is over with something still due: the looks of before leave that to the next run."""
    kept = Kept(spark, lab, tmp_path)
    kept.land_each(range(4), ORDERS)
    monkeypatch.setattr(upkeep, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(upkeep, "LAST_SECONDS", 0.0)
    ends(kept)
    assert not kept.upkeep._look_again()
    assert kept.counted() == {}


@pytest.mark.usefixtures("rests")
def test_a_lock_that_cannot_be_kept_just_now_fails_no_run(
    spark: SparkSession, lab: Lab, tmp_path: Path
) -> None:
    """What landed has landed: the turn is over, which is told, and the run ends as it would have."""
    kept = Kept(spark, lab, tmp_path)
    kept.land_each(range(4), ORDERS)

    def keep() -> None:
        raise StorageError("503 Slow Down")

    with capture_logs() as logs, kept.upkeep:
        kept.upkeep.last_turn(lambda: False, keep, lambda: None)
    said = [entry["event"] for entry in logs if entry["log_level"] == "warning"]
    assert said == ["upkeep at the end of a run is broken off"]
    assert kept.keys(ORDERS) == [f"k{batch}" for batch in range(4)]


@pytest.mark.usefixtures("rests")
def test_the_status_is_written_meanwhile(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    """Whoever looks at a run that only keeps its tables in order does not take it for lost."""
    kept = Kept(spark, lab, tmp_path)
    kept.land_each(range(4), ORDERS)
    written: list[int] = []
    kept.upkeep.last_turn(lambda: False, lambda: None, lambda: written.append(1))
    assert written
    assert kept.counted() == {"compact": 1}


@pytest.mark.usefixtures("rests")
@pytest.mark.parametrize("why", [RetentionContradicted("the table says 30 days"), OSError("may not delete")])
def test_old_files_that_stay_keep_nothing_else_from_being_done(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: Exception
) -> None:
    """Somebody else has a say in them, or they may not be deleted: small files are put together all the same, in this
    run and in each behind it, and the removal has its next turn a day later."""

    def retain(self: object, hours: float) -> None:
        raise why

    monkeypatch.setattr(StateUpkeep, "retain", retain)
    storage = MemoryStorage()
    kept = Kept(spark, lab, tmp_path, storage, retention_hours=168)
    kept.land(ORDERS, 0)
    ends(kept)
    a_day_ago(storage)
    before = read_notes(storage)[key(ORDERS)].vacuumed_ms
    for turn in (1, 2):
        kept = Kept(spark, lab, tmp_path, storage, retention_hours=168)
        kept.land_each(range(4 * turn, 4 * turn + 4), ORDERS)
        ends(kept)
        assert kept.counted().get("compact") == 1
        assert ("failed" in kept.counted()) == (turn == 1 and isinstance(why, OSError))
        assert files(kept.path(ORDERS)) == 1
    assert read_notes(storage)[key(ORDERS)].vacuumed_ms >= before + _DAY_MS


@pytest.mark.usefixtures("rests")
def test_files_that_are_not_alike_are_put_together_as_rows(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or are out of reach for the driver: at the end of this run, for the next would begin with the same again."""

    asked: list[object] = []

    def concatenated(*given: object) -> None:
        asked.append(given)
        raise NotAlike("out of reach")

    monkeypatch.setattr(upkeep_plan, "_CHAINED_BYTES", 0)
    monkeypatch.setattr(rewriting, "concatenated", concatenated)
    kept = Kept(spark, lab, tmp_path)
    kept.land_each(range(4), ORDERS)
    ends(kept)
    assert len(asked) == 1
    assert kept.counted() == {"compact": 1}
    assert files(kept.path(ORDERS)) == 1


def test_runs_of_each_night_remove_old_files_each_night(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not a day apart to the second. An engine that starts looks for what was noted as well, and keeps it."""
    storage = MemoryStorage()
    noted = UpkeepNote(looked_ms=1, vacuumed_ms=wall_clock_ms() - _DAY_MS + 600_000)
    monkeypatch.setattr(upkeep, "LOOK_SECONDS", 0.0)
    for turn in range(2):
        kept = Kept(spark, lab, tmp_path, storage, retention_hours=168)
        kept.land(ORDERS, turn)
        if not turn:
            keep_notes(storage, {key(ORDERS): noted})
        kept.looks(2)
        assert kept.counted().get("vacuum", 0) == 1 - turn
        assert read_notes(storage)[key(ORDERS)].looked_ms == noted.looked_ms


def test_the_oldest_version_that_can_be_read_is_known_to_the_next_engine(
    spark: SparkSession, lab: Lab, tmp_path: Path
) -> None:
    """That removes no old files today. What is known of a table that is gone does not count for one that has taken its
    place."""
    storage, first, second = MemoryStorage(), tmp_path / "first", tmp_path / "second"
    for turn, (folder, known) in enumerate([(first, None), (first, 2), (first, 2), (second, None)]):
        kept = Kept(spark, lab, folder, storage, retention_hours=168)
        kept.land_each(range(4 * turn, 4 * turn + 2), ORDERS)
        ends(kept)
        assert kept.counted().get("vacuum", 0) == (turn == 1)
        assert kept.report(ORDERS).oldest_version == known
        if not turn:
            age(kept.path(ORDERS), time.time() - 169 * 3_600, versions=3)
            a_day_ago(storage)


def test_notes_that_cannot_be_read_are_not_replaced(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the little that this run knows: they are there for the next, and for this one once they can be read."""
    storage = MemoryStorage()
    before = {("shop.another", STATE): UpkeepNote(2, 1)}
    keep_notes(storage, before)

    class OutOfReach(MemoryStorage):
        def read_text(self, name: str) -> str | None:
            raise StorageError(f"{name}: 503 Slow Down")

        def write_text(self, name: str, text: str) -> None:
            storage.write_text(name, text)

    given = OutOfReach()
    kept = Kept(spark, lab, tmp_path, given)
    kept.land(ORDERS, 0)
    ends(kept)
    assert read_notes(storage) == before
    monkeypatch.setattr(given, "read_text", storage.read_text)  # within the life of an engine
    kept.upkeep._note([(ORDERS, STATE)])
    assert read_notes(storage).keys() == {*before, key(ORDERS)}


@pytest.mark.parametrize("text", ['{"format": 1, "tables": [{"collection": "shop.orders"}]}', "null", "[]"])
def test_a_file_that_is_none_of_ours_is_replaced(
    spark: SparkSession, lab: Lab, tmp_path: Path, text: str
) -> None:
    """Nothing depends on it but how soon a table is looked after again."""
    storage = LocalStorage(tmp_path / "state")
    storage.write_text("upkeep.json", text)
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
    """As it was, and so are notes of versions that knew less; what was never noted is never."""
    storage = MemoryStorage()
    assert read_notes(storage) == {}
    notes = {
        ("shop.orders", "state"): UpkeepNote(2, 1, 7, "a table"),
        ("shop.é", "changelog"): UpkeepNote(),
    }
    keep_notes(storage, notes)
    assert read_notes(storage) == notes
    earlier = {"collection": "shop.orders", "table": "state", "looked_ms": 2, "vacuumed_ms": 1}
    storage.write_text("upkeep.json", json.dumps({"format": 1, "tables": [earlier]}))
    assert read_notes(storage) == {("shop.orders", "state"): UpkeepNote(2, 1)}
