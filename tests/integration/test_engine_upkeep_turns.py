"""Whose turn upkeep is, of tables and of kinds of steps, and how long they rest."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyarrow.parquet import ParquetFile
from pyspark.sql import SparkSession

from snapshotter.engine.kept_table import KeptTable
from snapshotter.reporting.window_log import OpenWindow
from streaming.delta import file_concat, upkeep_plan
from streaming.delta.rewriting import Begun
from streaming.delta.state_upkeep import TableLook
from streaming.delta.upkeep_plan import Effort, Pace, Thresholds
from streaming.namespaces import Namespace
from tests.support.engine_upkeep import ITEMS, ORDERS, Kept, at_once
from tests.support.engines import SECONDS, Lab, lab

__all__ = ["at_once", "lab"]

pytestmark = pytest.mark.usefixtures("at_once")


def test_each_kind_of_step_rests_for_itself(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of one table are put together although old files of another were removed a moment ago; a second table
    waits for its turn of either, and the status says what is due."""
    monkeypatch.setattr(Pace, "pause", staticmethod(lambda seconds, busy: SECONDS))
    kept = Kept(spark, lab, tmp_path, retention_hours=168)
    kept.land_each(range(4), ORDERS, ITEMS)
    kept.looks(6)
    assert kept.counted() == {"vacuum": 1, "compact": 1}
    waiting = [kept.report(name) for name in (ORDERS, ITEMS) if not kept.report(name).rewrites]
    assert [report.due for report in waiting] == ["4 files of less than 0.0164 MB"]
    kept.upkeep._rests.clear()
    for one in kept.upkeep._kept.values():
        one.next = 0.0
    kept.looks(6)
    assert kept.counted() == {"vacuum": 2, "compact": 2}


def test_tables_take_turns(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that needs something behind every rest does not keep the others from having their turn."""
    monkeypatch.setattr(Pace, "pause", staticmethod(lambda seconds, busy: SECONDS))
    kept = Kept(spark, lab, tmp_path)
    names = [ITEMS, ORDERS, Namespace("shop", "users")]
    for name in names:
        kept.land_each(range(4), name)
    for turn in range(len(names)):
        kept.looks(1)
        kept.land_each(range(4 + 3 * turn, 7 + 3 * turn), ITEMS)
        rests = kept.upkeep._rests
        for effort in rests:
            rests[effort] = 0.0
        for one in kept.upkeep._kept.values():
            one.next = 0.0
    assert [kept.report(name).rewrites for name in names] == [1, 1, 1]


def test_when_a_table_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a minute later, unless many commits came since the look before; and at the end of a rest where something is
    due that rests."""
    monkeypatch.undo()
    kept, limits = KeptTable(), Thresholds()
    kept.looked(TableLook(10, 4, 100, 1, marked=1), 100.0, limits)
    assert kept.next == 130.0
    kept.looked(TableLook(40, 4, 100, 1, marked=1), 130.0, limits)
    assert kept.next == 138.0
    kept.wait(Effort.LARGE, 133.0)
    assert (kept.next, kept.waits) == (133.0, Effort.LARGE)
    kept.wait(Effort.LARGE, 150.0)
    assert kept.next == 138.0
    kept.looked(TableLook(40, 4, 100, 1, marked=1), 138.0, limits)
    assert (kept.next, kept.waits) == (168.0, None)
    kept.looked(None, 168.0, limits)
    assert (kept.next, kept.seen) == (198.0, None)


def test_upkeep_makes_way_for_what_lands(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The longer batches take, the longer it rests, and as long as it ever does while a batch lands or a window is
    open. That is looked at when a step is done."""
    seen: list[float] = []

    def pause(seconds: float, busy: float) -> float:
        seen.append(busy)
        return 0.0

    monkeypatch.setattr(Pace, "pause", staticmethod(pause))
    kept = Kept(spark, lab, tmp_path)

    def done(landing_seconds: float) -> float:
        kept.upkeep._worked.clear()
        kept.looks(1)
        kept.land_each(range(kept.batch, kept.batch + 3), ORDERS)
        kept.batch += 3
        kept.tally.add("batch_seconds", landing_seconds, "land")
        kept.looks(1)
        return seen.pop()

    assert done(0.0) == 1.0, "a batch is landing"
    kept.tally.put("bytes_landing", 0)
    assert done(0.0) == 0.0
    assert done(SECONDS) > 1.0
    kept.open = [OpenWindow("run/1", 1, str(ORDERS), low_at=datetime.now(UTC))]
    assert done(0.0) == 1.0


@pytest.mark.parametrize("alike", [True, False])
def test_files_that_follow_one_another_are_concatenated(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alike: bool
) -> None:
    """Their row groups are there afterwards, and the step says nothing of how many bytes a rewrite may read. Where they
    turn out not to be alike, the next look has them put together as rows instead."""
    monkeypatch.setattr(upkeep_plan, "_CHAINED_BYTES", 0)
    monkeypatch.setattr(Pace, "after", lambda pace, *_: Pace(1))
    if not alike:
        monkeypatch.setattr(file_concat, "is_gregorian", lambda _: False)
    kept = Kept(spark, lab, tmp_path)
    kept.land_each(range(3), ORDERS)
    kept.looks()
    assert (kept.counted(), kept.keys(ORDERS)) == ({"compact": 1}, ["k0", "k1", "k2"])
    (made,) = kept.path(ORDERS).glob("copies-*")
    assert ParquetFile(made).num_row_groups == (3 if alike else 1)
    assert kept.upkeep._pace == (Pace() if alike else Pace(1))
    assert kept.report(ORDERS).error is None


def test_a_rewrite_that_fails_does_not_keep_the_log_from_its_checkpoint(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers go through all commits behind the newest one."""

    def write(*_: object) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(Begun, "write", write)
    monkeypatch.setattr("snapshotter.engine.upkeep.checkpoint_due", lambda *_: True)
    kept = Kept(spark, lab, tmp_path)
    kept.land_each(range(3), ORDERS)
    kept.looks(2)
    assert kept.counted() == {"failed": 1, "checkpoint": 1}
    assert kept.report(ORDERS).error == "the disk is full"
    assert [*(kept.path(ORDERS) / "_delta_log").glob("*.checkpoint*.parquet")]


def test_few_files_are_enough_where_nothing_lands(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    """What a first load leaves is put together before changes mark rows in it."""
    kept = Kept(spark, lab, tmp_path)
    kept.land_each(range(2), ORDERS)
    kept.looks()
    assert kept.report(ORDERS).rewrites == 0, "three are wanted while something lands"
    kept.tally.put("bytes_landing", 0)
    kept.looks(1)
    assert (kept.report(ORDERS).rewrites, kept.keys(ORDERS)) == (1, ["k0", "k1"])
