"""Upkeep of a state table's files: its rows stay as they are, for every reader and for the next landing."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from streaming.delta import table_files
from streaming.delta.file_keys import FileKeys
from streaming.delta.landing_errors import TableAltered, TableOwned
from streaming.delta.object_store import OutOfReach
from streaming.delta.rewriting import Begun, GaveWay
from streaming.delta.row_writer import By, Known
from streaming.delta.state_table import StateTable
from streaming.delta.state_upkeep import GOES_BACK, INTERVAL, REMEMBERS, RetentionContradicted, TableLook
from streaming.delta.table_demands import Unsupported
from streaming.delta.table_identity import Owner
from streaming.delta.transaction import Rewritten, Transaction
from streaming.delta.upkeep_plan import Kind, Step, Thresholds, due
from streaming.keys.ranges import key_ranges
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from streaming.namespaces import Namespace
from tests.support import tables
from tests.support.row_writers import in_files
from tests.support.state_tables import columns_table, state_schema

ORDERS = Namespace("shop", "orders")
PLAN = TablePlan((Column("n", Scalar("long")),))
SHOP = Owner("shop", "1")
LIMITS = Thresholds(files=4, retention_hours=0)
PLENTY = 1 << 40


class Kept:
    """A table whose old rows are marked, what is landed in it, and its upkeep. ``by_driver``: rows come in files, and
    the driver marks old ones, where Spark does so of rows in a frame."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.path = spark, folder
        self.table = self.opened()
        self.table.create(PLAN)
        self.batch = -1
        self.by_driver = False
        self.expected: dict[str, int] = {}

    def opened(self, app_id: str = "snapshotter:shop:0") -> StateTable:
        return columns_table(self.spark, str(self.path), ORDERS, app_id, owner=SHOP)

    def land(self, changes: Mapping[str, int | None], table: StateTable | None = None) -> Any:
        """These rows by key, in a batch of their own; None deletes."""
        self.batch += 1
        rows = [(k, n, None, self.batch, None, "d" if n is None else "u") for k, n in changes.items()]
        source: Any = self.spark.createDataFrame(rows, state_schema(PLAN)).coalesce(1)
        if self.by_driver:
            source = in_files(self.path, source, PLAN)
        deletes = [key for key, n in changes.items() if n is None]
        known = Known(len(rows), True, True, len(deletes))
        given = {"how": "merge", "key_ranges": key_ranges(changes), "known": known}
        landed = (table or self.table).land(source, batch_id=self.batch, metadata={}, **given)
        self.expected |= {key: n for key, n in changes.items() if n is not None}
        for key in deletes:
            self.expected.pop(key, None)
        return landed

    def look(self, limits: Thresholds = LIMITS) -> TableLook:
        found = self.table.upkeep.look(limits)
        assert found is not None
        return found

    def step(self, limits: Thresholds = LIMITS) -> Step | None:
        found = self.look(limits)
        return None if found.files is None else due(found.files, limits, PLENTY, 0.0)

    def done(self, kind: Kind, limits: Thresholds = LIMITS) -> Rewritten:
        """The step that is due, of this kind, is carried out."""
        step = self.step(limits)
        assert step is not None
        assert step.kind is kind
        done = self.table.upkeep.rewrite(step)
        assert done is not None
        return done

    def check(self) -> None:
        """Spark and delta-rs see exactly the rows that were landed, each once."""
        found = self.spark.read.format("delta").load(str(self.path)).select("_key", "n").collect()
        assert sorted(map(tuple, found)) == sorted(self.expected.items())
        there = [(row["_key"], row["n"]) for row in tables.rows(self.path, "_key, n")]
        assert sorted(there) == sorted(self.expected.items())

    def actions(self) -> list[dict[str, Any]]:
        """Of the newest commit."""
        newest = max((self.path / "_delta_log").glob("*.json"))
        return [json.loads(line) for line in newest.read_text().splitlines()]


@pytest.fixture
def kept(spark: SparkSession, tmp_path: Path) -> Kept:
    return Kept(spark, tmp_path / "ord [e]rs")


def some(first: int, count: int, n: int = 0) -> dict[str, int | None]:
    return {f"k{number:04}": n for number in range(first, first + count)}


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
    landed = kept.land({"k0003": 9, "k0050": None, "new": 1})
    assert (landed.inserted, landed.updated, landed.deleted) == (1, 1, 1)
    assert kept.table.written_by is not None
    assert kept.table.written_by.by is By.UPSERT
    kept.check()
    assert kept.step() is None


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


@pytest.mark.parametrize(("outputs", "by_driver"), [(1, False), (2, False), (2, True)])
def test_landings_beside_a_rewrite(kept: Kept, outputs: int, by_driver: bool) -> None:
    """Before rows are copied and after: what they mark in the files is marked in the copies, what they add stays, and
    the next landing finds all of it. One that deletes and one that updates, a row of the first file and of the last."""
    kept.by_driver = by_driver
    for batch in range(4):
        kept.land(some(10 * batch, 10))
    kept.land({"k0011": None})
    files = kept.look().files
    assert files is not None
    begun = kept.table.upkeep.begin(Step(Kind.COMPACT, "", files, outputs))
    assert begun is not None
    assert not begun.alone
    kept.land({"k0000": None, "k0012": 7, "new": 1})
    copies = begun.write()
    kept.check()
    kept.land({"k0001": 8, "k0012": 9, "k0039": None})
    done = kept.table.upkeep.finish(begun, copies)
    assert (done.files, done.made, done.purged) == (4, outputs, 1)
    kept.check()
    found = kept.look()
    assert (found.count, found.marked) == (outputs + 2, 5), (
        "of the copies four, one of the first landing's file"
    )
    assert not any(
        (action.get("add") or action["remove"])["dataChange"]
        for action in kept.actions()
        if {"add", "remove"} & set(action)
    )
    kept.land({"k0012": None, "k0002": 3, "k0001": None, "k0038": 4})
    assert kept.table.written_by is not None
    assert kept.table.written_by.by is By.UPSERT
    assert not kept.table.written_by.slower
    kept.check()


def test_random_landings_beside_rewrites(kept: Kept, rng: random.Random) -> None:
    """After each commit of either the table has what was landed, each row once."""
    keys = [f"k{number:04}" for number in range(40)]

    def land() -> None:
        chosen = rng.sample(keys, rng.randint(1, 12))
        kept.by_driver = rng.random() < 0.5
        kept.land({key: rng.choice([None, rng.randint(0, 99)]) for key in chosen})

    for _ in range(6):
        for _ in range(3):
            land()
        files = kept.look().files
        assert files is not None
        step = Step(Kind.COMPACT, "", tuple(rng.sample(files, min(len(files), 3))), rng.choice([1, 2]))
        begun = kept.table.upkeep.begin(step)
        assert begun is not None
        if rng.random() < 0.5:
            land()
        copies = begun.write()
        land()
        with suppress(GaveWay):
            print(kept.table.upkeep.finish(begun, copies))
        kept.check()


def test_a_copy_that_nobody_would_see_is_left_out(kept: Kept) -> None:
    """All of its rows went meanwhile; of each file some stay."""
    for batch in range(2):
        kept.land({f"k{number:04}": batch for number in range(batch, 20, 2)})
    files = kept.look(Thresholds(files=2, retention_hours=0)).files
    assert files is not None
    begun = kept.table.upkeep.begin(Step(Kind.COMPACT, "", files, 2))
    assert begun is not None
    copies = begun.write()
    assert len(copies.made) == 2
    low = json.loads(copies.made[0].json())["add"]["stats"]
    keys = [key for key in kept.expected if key <= json.loads(low)["maxValues"]["_key"]]
    kept.land(dict.fromkeys(keys[1:], None))
    kept.land({keys[0]: None})
    kept.table.upkeep.finish(begun, copies)
    kept.check()
    assert kept.look().count == 1
    assert [(kept.path / add.path()).exists() for add in copies.made] == [False, True]


def a_file_goes(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    kept.land(dict.fromkeys(some(30, 10), None))


def gone_rows_are_back(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    """As of before the row was deleted."""
    kept.spark.sql(f"RESTORE delta.`{kept.path}` TO VERSION AS OF {kept.table.version() - 1}")
    kept.expected["k0000"] = 0


def no_keys_are_kept(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    patched.setattr(kept.table._writing, "kept", None)
    kept.land({"k0002": None})


def keys_are_too_many(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    patched.setattr(kept.table._writing, "kept", FileKeys(100))
    kept.land({"k0003": 5})


def a_file_cannot_be_read(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    kept.land({"k0003": 5})

    def find(*_: Any) -> Any:
        raise pa.ArrowInvalid("no Parquet")

    patched.setattr(FileKeys, "find", find)


@pytest.mark.parametrize(
    ("meanwhile", "why"),
    [
        (a_file_goes, "1 of 4 files are gone"),
        (gone_rows_are_back, "that were gone are back"),
        (no_keys_are_kept, "the driver keeps no keys"),
        (keys_are_too_many, "more memory than there is"),
        (a_file_cannot_be_read, "could not be read: no Parquet"),
    ],
)
def test_a_rewrite_gives_way_where_there_is_no_place_for_it(
    kept: Kept,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[Kept, pytest.MonkeyPatch], None],
    why: str,
) -> None:
    """Nothing is committed, the copies are removed, and whoever holds the lock all the while can do it."""
    upkeep = kept.table.upkeep
    for batch in range(4):
        kept.land(some(10 * batch, 10))
    kept.land({"k0000": None})
    step = kept.step()
    assert step is not None
    begun = upkeep.begin(step)
    assert begun is not None
    copies = begun.write()
    (made,) = (add.path() for add in copies.made)
    assert (kept.path / made).exists()
    meanwhile(kept, monkeypatch)
    version = kept.table.version()
    with pytest.raises(GaveWay, match=why):
        upkeep.finish(replace(begun, kept=kept.table._writing.kept), copies)
    assert kept.table.version() == version
    assert not (kept.path / made).exists()
    kept.check()
    files = kept.look(Thresholds(files=2, retention_hours=0)).files
    assert files is not None
    assert upkeep.rewrite(Step(Kind.COMPACT, "", files, 1)) is not None
    kept.check()


def nothing(kept: Kept) -> None:
    pass


def another_takes_over(kept: Kept) -> None:
    owner = Owner("other", "2")
    columns_table(kept.spark, str(kept.path), ORDERS, "snapshotter:other:0", owner=owner).take_over()


def a_feature_comes(kept: Kept) -> None:
    kept.spark.sql(f"ALTER TABLE delta.`{kept.path}` SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")


def lost() -> None:
    raise LookupError("another engine has taken over")


@pytest.mark.parametrize(
    ("meanwhile", "check", "error"),
    [
        (nothing, lost, LookupError),
        (another_takes_over, lambda: None, TableOwned),
        (a_feature_comes, lambda: None, Unsupported),
    ],
)
def test_copies_go_where_they_may_not_be_committed(
    kept: Kept,
    meanwhile: Callable[[Kept], None],
    check: Callable[[], None],
    error: type[Exception],
) -> None:
    """The engine's lock is lost meanwhile, the table is another engine's, or not one for our transactions."""
    for batch in range(4):
        kept.land(some(10 * batch, 10))
    step = kept.step()
    assert step is not None
    begun = kept.table.upkeep.begin(step)
    assert begun is not None
    copies = begun.write()
    meanwhile(kept)
    with pytest.raises(error):
        kept.table.upkeep.finish(begun, copies, check)
    assert not any((kept.path / add.path()).exists() for add in copies.made)
    kept.check()


def test_what_cannot_be_made_up_for_beside_landings_is_known_beforehand(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Landings that replace files, keys that the driver does not keep, or reach, or has no room for."""
    for batch in range(4):
        kept.land(some(10 * batch, 10))
    begun = kept.table.upkeep.begin(Step(Kind.COMPACT, "", kept.look().files or (), 1))
    assert begun is not None
    assert not begun.alone
    assert replace(begun, kept=None).alone
    assert replace(begun, kept=FileKeys(100)).alone
    assert not replace(begun, kept=None, order=("_cluster_time", "_order")).alone, "a changelog has no marks"
    far = replace(
        begun.of[0], said=replace(begun.of[0].said, facts=replace(begun.of[0].said.facts, path="s3://b/f"))
    )
    assert replace(begun, of=[far]).alone

    def folder(_: Transaction) -> Any:
        raise OutOfReach("no client")

    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "folder", folder)
        assert begun.alone
    kept.spark.sql(f"ALTER TABLE delta.`{kept.path}` SET TBLPROPERTIES (delta.enableDeletionVectors = false)")
    begun = kept.table.upkeep.begin(Step(Kind.COMPACT, "", kept.look().files or (), 1))
    assert begun is not None
    assert begun.alone


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
    assert kept.table._existing().table_property(INTERVAL) == "1000"
    before = checkpoints()
    for batch in range(9, 20):
        kept.land(some(batch, 1))
    assert checkpoints() == before, "versions 10 and 20 are among them"
    assert kept.look().commits >= 11
    kept.table.upkeep.checkpoint()
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
    READs that waits for its commit is younger than that, so it stays; one of a killed run, older, goes."""
    for batch in range(4):
        kept.land(some(10 * batch, 10))
    kept.done(Kind.COMPACT)
    in_flight, forgotten = kept.path / "reads-0-1-a.parquet", kept.path / "reads-0-2-b.parquet"
    week_ago = time.time() - 169 * 3_600
    for file in (in_flight, forgotten):
        file.write_bytes(b"")
    os.utime(forgotten, (week_ago, week_ago))
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
