"""Upkeep of a state table's files: its rows stay as they are, for every reader and for the next landing."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from streaming.delta import table_files
from streaming.delta.landing_errors import TableAltered, TableOwned
from streaming.delta.log_checkpoint import INTERVAL
from streaming.delta.new_files import FileWriter, job_name
from streaming.delta.rewriting import Begun
from streaming.delta.row_writer import By
from streaming.delta.state_upkeep import GOES_BACK, REMEMBERS, RetentionContradicted
from streaming.delta.table_identity import Owner
from streaming.delta.transaction import Transaction
from streaming.delta.upkeep_plan import Kind, Step, Thresholds
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from streaming.namespaces import Namespace
from tests.support.kept_tables import LIMITS, ORDERS, Kept, some
from tests.support.state_tables import columns_table
from tests.support.tables import age


@pytest.fixture
def kept(spark: SparkSession, tmp_path: Path) -> Kept:
    return Kept(spark, tmp_path / "ord [e]rs")


def test_small_files_become_one_and_the_next_landing_knows_it(kept: Kept) -> None:
    """Of five files, three with marked rows, one is left, sorted by key; nothing of it is a change of data. The landing
    behind it asks nobody for the table's files, goes the same road, and marks rows in the new file."""
    kept.land(some(0, 100))
    for batch in range(4):
        kept.land({**some(20 * batch, 5, batch + 1), f"k{90 + batch:04}": None})
    files = kept.look()
    assert (files.count, files.marked, len(files.files or ())) == (5, 24, 5)
    done = kept.done(Kind.COMPACT)
    assert (done.files, done.made, done.purged) == (5, 1, 24)
    kept.check()
    actions = kept.actions()
    moved = [action.get("add") or action["remove"] for action in actions if {"add", "remove"} & set(action)]
    assert len(moved) == 6
    assert not any(file["dataChange"] for file in moved)
    assert not any("txn" in action or "metaData" in action for action in actions)
    last = DeltaTable(str(kept.path)).history(1)[0]
    assert (last["operation"], last["operationMetrics"]["numRemovedFiles"]) == ("OPTIMIZE", "5")
    assert json.loads(last["userMetadata"])["upkeep"] == "compact"
    (added,) = [action["add"] for action in actions if "add" in action]
    statistics = json.loads(added["stats"])
    assert (statistics["numRecords"], statistics["minValues"]["_key"]) == (96, "k0000")
    keys = kept.spark.read.parquet(
        f"file://{kept.path}/{added['path']}".replace("[", "\\[").replace("]", "\\]")
    )
    assert [row[0] for row in keys.select("_key").collect()] == sorted(kept.expected)

    known = kept.table._writing.files
    assert known is not None
    assert [file.facts.path for file in known] == [added["path"]]
    assert known.version == kept.table.version()
    assert kept.step() is None
    landed = kept.land({"k0003": 9, "k0050": None, "new": 1})
    assert (landed.inserted, landed.updated, landed.deleted) == (1, 1, 1)
    assert kept.table.written_by is not None
    assert kept.table.written_by.by is By.UPSERT
    kept.check()


def test_marked_rows_are_purged(kept: Kept) -> None:
    """A file of which half the rows are marked is written anew without them; one with few marks stays."""
    kept.land(some(0, 100))
    kept.land(some(200, 100))
    kept.land({f"k{number:04}": None for number in range(50)} | {"k0299": None})
    limits = Thresholds(files=32)
    done = kept.done(Kind.PURGE, limits)
    assert (done.files, done.made, done.purged) == (1, 1, 50)
    kept.check()
    found = kept.look(limits)
    assert sorted((file.rows, file.marked) for file in found.files or ()) == [(50, 0), (100, 1)]
    assert kept.step(limits) is None


def test_rows_come_apart_by_key_where_they_need_several_files(kept: Kept) -> None:
    """Each of the new files holds keys of its own."""
    for batch in range(4):
        kept.land({f"k{number:04}": batch for number in range(batch, 400, 4)})
    files = kept.look().files
    assert files is not None
    done = kept.table.upkeep.rewrite(Step(Kind.COMPACT, "", files, 2))
    assert done is not None
    assert done.made == 2
    kept.check()
    ends = [json.loads(a["add"]["stats"]) for a in kept.actions() if "add" in a]
    low, high = sorted((end["minValues"]["_key"], end["maxValues"]["_key"]) for end in ends)
    assert low[1] < high[0]


def test_an_upkeep_is_no_strangers_change_and_no_landing(kept: Kept) -> None:
    """The look behind a mark finds nothing, the newest landing is found behind it, and a batch that it records is left
    out as before: nothing doubles."""
    for batch in range(4):
        kept.land(some(10 * batch, 10))
    mark = kept.table.look(None)
    kept.done(Kind.COMPACT)
    found = kept.table.look(mark)
    assert mark is not None
    assert found is not None
    assert found.version == mark.version + 1
    again = kept.opened()
    assert again.look(mark) == found
    assert again.recorded_batch() == kept.batch
    assert [landed.wrote for _, landed in again.landings_of(kept.batch)] == [True]
    kept.batch -= 1
    assert not kept.land(some(30, 10), again).wrote
    kept.check()
    kept.spark.sql(f"DELETE FROM delta.`{kept.path}` WHERE _key = 'k0000'")
    with pytest.raises(TableAltered):
        kept.opened().look(mark)


def test_whoever_streams_from_the_table_sees_no_change(kept: Kept, tmp_path: Path) -> None:
    """Delta's own source passes over it."""
    for batch in range(4):
        kept.land(some(10 * batch, 10))

    def stream() -> int:
        reader = kept.spark.readStream.format("delta").option("skipChangeCommits", "false")
        query = (
            reader.load(str(kept.path))
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination()
        return kept.spark.read.parquet(str(tmp_path / "out")).count()

    assert stream() == 40
    kept.done(Kind.COMPACT)
    kept.land(some(40, 3))
    assert stream() == 43


def test_another_writer_between_look_and_rewrite(kept: Kept) -> None:
    """What was looked at is no more: nothing is done, and the next look sees the table as it is."""
    for batch in range(4):
        kept.land(some(10 * batch, 10))
    step = kept.step()
    assert step is not None
    kept.spark.sql(f"OPTIMIZE delta.`{kept.path}`")
    assert kept.table.upkeep.rewrite(step) is None
    kept.check()
    assert kept.look().count == 1
    kept.land({"k0001": None})
    kept.check()


def test_a_landing_in_the_middle_of_a_rewrite(kept: Kept) -> None:
    """Another engine, say, that this one knows nothing of: the rewrite is a conflict, and no row of the landing is lost
    or doubled, whether it marked a row in a file that is rewritten or only added some."""
    for batch in range(4):
        kept.land(some(10 * batch, 10))
    other = kept.opened()
    for changes, conflict in ({"k0001": None, "k0002": 5}, True), (some(100, 3), False):
        step = kept.step()
        assert step is not None
        transaction = Transaction(kept.table._session, str(kept.path), None, kept.table._writing.files)
        assert kept.table.upkeep._add_of is not None
        adds = [kept.table.upkeep._add_of(file.path) for file in step.files]
        begun = Begun(step, transaction, transaction.told(adds), ("_key",), None)
        done = transaction.replace(begun.of, begun.write().made, 0)
        kept.land(changes, other)
        if conflict:
            with pytest.raises(Exception, match=r"(?i)concurrent"):
                transaction.commit_rewrite(done)
        else:
            transaction.commit_rewrite(done)
        kept.check()
    kept.land({"k0004": 8, "k0100": None})
    kept.check()


def test_a_table_of_too_many_files_for_a_list(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delta is asked for those that may need something, until the list holds all of them again."""
    monkeypatch.setattr(table_files, "FILES_MAX", 5)
    for batch in range(7):
        kept.land(some(10 * batch, 10))
    assert kept.table._writing.files is None
    found = kept.look()
    assert (found.count, len(found.files or ())) == (7, 7)
    kept.done(Kind.COMPACT)
    kept.check()
    kept.land({"k0003": None})
    assert kept.table._writing.files is not None
    kept.check()


def test_a_table_that_our_transactions_cannot_write_is_left_alone(kept: Kept) -> None:
    """With the reason."""
    for batch in range(4):
        kept.land(some(10 * batch, 10))
    kept.spark.sql(f"ALTER TABLE delta.`{kept.path}` SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    found = kept.look()
    assert found.files is None
    assert "changeDataFeed" in (found.lacks or "")


def test_another_engines_table_is_left_alone(kept: Kept) -> None:
    """Neither its files are written anew, nor old ones removed."""
    for batch in range(4):
        kept.land(some(10 * batch, 10))
    step = kept.step()
    assert step is not None
    other = columns_table(
        kept.spark, str(kept.path), ORDERS, "snapshotter:other:0", owner=Owner("other", "2")
    )
    assert other.take_over() == "shop"
    with pytest.raises(TableOwned, match="'other'"):
        kept.table.upkeep.rewrite(step)
    with pytest.raises(TableOwned, match="'other'"):
        kept.table.upkeep.retain(168)
    kept.check()


def test_few_files_without_marks_take_no_job(kept: Kept) -> None:
    """The figures of the log alone say that nothing is due."""
    kept.land(some(0, 10))
    found = kept.opened().upkeep.look(LIMITS)
    assert found is not None
    assert (found.files, found.count, found.marked) == (None, 1, 0)
    assert found.commits >= 1


def test_the_log_gets_its_checkpoints_beside_landings(kept: Kept) -> None:
    """Once there are enough commits for one, and not in a landing; somebody's own interval stays."""

    def checkpoints() -> int:
        return len(list((kept.path / "_delta_log").glob("*.checkpoint*.parquet")))

    kept.table.upkeep.own_checkpoints()
    assert kept.table._existing().table_property(INTERVAL) is None
    for batch in range(9):
        kept.land(some(batch, 1))
    kept.table.upkeep.own_checkpoints()
    assert kept.table._existing().table_property(INTERVAL) == "10000"
    before = checkpoints()
    for batch in range(9, 20):
        kept.land(some(batch, 1))
    assert checkpoints() == before, "versions 10 and 20 are among them"
    assert kept.look().commits >= 11
    kept.table.upkeep.checkpoint()
    kept.table.upkeep.stand_upon_checkpoint()
    assert checkpoints() == before + 1
    assert kept.look().commits == 0
    kept.check()
    kept.land(some(30, 2))
    kept.check()
    kept.spark.sql(f"ALTER TABLE delta.`{kept.path}` SET TBLPROPERTIES ('{INTERVAL}' = '7')")
    kept.table.upkeep.own_checkpoints()
    assert kept.table._existing().table_property(INTERVAL) == "7"


def test_old_files_go_and_those_in_flight_stay(kept: Kept) -> None:
    """What no version of the last hours has is removed, and the oldest version that can be read is named. A file of
    READs that waits for its commit is younger than that, so it stays; one of a killed run, older, goes. Delta is not
    asked about a table that is younger."""
    for batch in range(4):
        kept.land(some(10 * batch, 10))
    kept.done(Kind.COMPACT)
    in_flight, forgotten = kept.path / "reads-0-1-a.parquet", kept.path / "reads-0-2-b.parquet"
    week_ago = time.time() - 169 * 3_600
    for file in (in_flight, forgotten):
        file.write_bytes(b"")
    os.utime(forgotten, (week_ago, week_ago))
    assert kept.table.upkeep.vacuum(168) == 0
    assert forgotten.exists(), "in a young table there is none such"
    age(kept.path, week_ago)
    assert kept.table.upkeep.vacuum(168) == 0
    assert in_flight.exists()
    assert not forgotten.exists()
    assert len(list(kept.path.glob("*.parquet"))) == 6
    version = kept.table.version()
    assert kept.table.upkeep.vacuum(0, check=False) == version
    assert [file.name for file in kept.path.glob("*.parquet")] == [
        Path(DeltaTable(str(kept.path)).file_uris()[0]).name
    ]
    assert kept.table.version() == version, "nothing was committed"
    kept.check()
    with pytest.raises(Exception, match=r"(?i)retention"):
        kept.table.upkeep.vacuum(0)


def test_the_table_and_the_option_say_the_same_of_retention(kept: Kept) -> None:
    """A longer one than Delta's own is set, for else removed files would be forgotten earlier, and follows the option;
    what somebody has set otherwise is not overruled."""
    kept.land(some(0, 10))
    kept.table.upkeep.retain(168)
    assert kept.table._existing().table_property(REMEMBERS) is None
    version = kept.table.version()
    kept.table.upkeep.retain(24)
    assert kept.table.version() == version, "nothing was committed"
    kept.table.upkeep.retain(720)
    assert kept.table._existing().table_property(REMEMBERS) == "interval 720 hours"
    version = kept.table.version()
    kept.table.upkeep.retain(720)
    assert kept.table.version() == version, "nothing was committed"
    for hours, wanted in ((800, 800), (168, 168), (720, 720)):
        kept.table.upkeep.retain(hours)
        assert kept.table._existing().table_property(REMEMBERS) == f"interval {wanted} hours"
        assert kept.table._existing().table_property(GOES_BACK) == f"interval {wanted} hours"
    kept.spark.sql(f"ALTER TABLE delta.`{kept.path}` SET TBLPROPERTIES ('{REMEMBERS}' = 'interval 30 hours')")
    with pytest.raises(RetentionContradicted, match="30 hours"):
        kept.table.upkeep.retain(168)
    kept.land(some(10, 10))
    kept.check()


def test_the_log_goes_back_as_far_as_files_do(kept: Kept) -> None:
    """A week at the least, where Delta would keep a month of commits whose files are gone; what somebody has set is not
    overruled."""
    kept.land(some(0, 10))

    def goes_back() -> str | None:
        return kept.table._existing().table_property(GOES_BACK)

    for hours, wanted in ((24, 168), (168, 168), (720, 720)):
        kept.table.upkeep.retain(hours)
        assert goes_back() == f"interval {wanted} hours"
    kept.spark.sql(f"ALTER TABLE delta.`{kept.path}` SET TBLPROPERTIES ('{GOES_BACK}' = 'interval 90 days')")
    kept.table.upkeep.retain(720)
    assert goes_back() == "interval 90 days"
    kept.land(some(10, 10))
    kept.check()


def test_old_files_go_where_rows_of_new_ones_were_superseded(spark: SparkSession, tmp_path: Path) -> None:
    """READs that a change superseded are marked in a file, for Delta's VACUUM fails on marks that lie in the log."""
    plan = TablePlan((Column("n", Scalar("long")),))
    table = columns_table(spark, str(tmp_path / "orders"), Namespace("shop", "orders"), "e")
    table.create(plan)
    schema = COLUMNS.arrow_schema(plan)
    writer = FileWriter(table.folder(), schema, job_name(), 0, 1_700_000_000 << 32)
    columns = [["a", "b", "c"], [1, 2, 3], [None] * 3]
    arrays = [pa.array(some, of.type) for some, of in zip(columns, schema, strict=True)]
    writer.add(pa.RecordBatch.from_arrays(arrays, schema=schema))
    file = writer.close()
    assert file is not None
    given = replace(file, gone=(0, 2))
    table.land(None, batch_id=0, metadata={}, how="append", key_ranges=[(file.low, file.high)], new=[given])
    assert [row["_key"] for row in spark.read.format("delta").load(table.path).collect()] == ["b"]
    age(Path(table.path), time.time() - 169 * 3_600)
    assert table.upkeep.vacuum(168) == 0
    assert [row["_key"] for row in spark.read.format("delta").load(table.path).collect()] == ["b"]
