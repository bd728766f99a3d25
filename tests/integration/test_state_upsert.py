"""`streaming.delta.state_upsert`: rows by key in one commit of few jobs, held against what a MERGE would have done."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from streaming.delta import table_files
from streaming.delta.delta_log import TableLog
from streaming.delta.landed import Landed
from streaming.delta.row_writer import Known
from streaming.delta.snapshot import Snapshot
from streaming.delta.state_merge import DELETION_VECTORS, OUTSIDE, STATISTICS, landing_session
from streaming.delta.table_files import TableFiles
from streaming.delta.transaction import Transaction
from streaming.keys.ranges import key_ranges
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from streaming.namespaces import Namespace
from tests.support import tables
from tests.support.state_tables import columns_table, state_schema

pytestmark = pytest.mark.guard

PLAN = TablePlan((Column("n", Scalar("long")),))
SCHEMA = state_schema(PLAN)
Change = tuple[str, int | None, str]
"""Key, value, operation."""


class Table:
    """A state table that is written by a caller who knows its source."""

    def __init__(self, spark: SparkSession, path: Path, settings: dict[str, str] | None = None) -> None:
        self.spark, self.path = spark, path
        self.state = columns_table(spark, str(path), Namespace("shop", "orders"), "e", settings)
        self.state.create(PLAN)

    def frame(self, changes: Iterable[Change]) -> DataFrame:
        return self.spark.createDataFrame(
            [(k, n, None, 1, None, op) for k, n, op in changes], SCHEMA
        ).coalesce(1)

    def land(
        self, batch: int, *changes: Change, added: Iterable[Change] | None = None, ranges: Any = None
    ) -> Landed:
        return self.state.land(
            self.frame(changes),
            batch_id=batch,
            metadata={},
            how="merge",
            key_ranges=ranges or key_ranges(key for key, _, _ in changes),
            known=Known(
                len(changes), distinct=True, held=True, deletes=sum(op == "d" for _, _, op in changes)
            ),
            added=None if added is None else self.frame(added),
        )

    def content(self) -> dict[str, int]:
        """As another reader sees it, which knows nothing of Spark."""
        found = tables.rows(self.path, "_key, n")
        rows = {row["_key"]: row["n"] for row in found}
        assert len(rows) == len(found), "two rows of one key"
        return rows

    def actions(self, kind: str) -> list[dict[str, Any]]:
        """Of the newest version."""
        newest = max((self.path / "_delta_log").glob("*.json"))
        actions = map(json.loads, newest.read_text().splitlines())
        return [action[kind] for action in actions if kind in action]


def said_of(add: Any) -> tuple[Any, ...]:
    """What the log says of a file: its statistics, and its deletion vector."""
    vector = add.deletionVector()
    return json.loads(add.stats()), None if vector is None else vector.uniqueId(), add.size()


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Table:
    return Table(spark, tmp_path / "ord ers")


def test_updates_inserts_deletes_and_what_is_added_are_one_commit(table: Table) -> None:
    """Counted as a MERGE counts them, in the table's history too; a delete of a key that nobody has does nothing. The
    old rows are marked, and what is added lies in a file of its own."""
    assert table.land(0, ("a", 1, "c"), ("b", 2, "c"), ("c", 3, "c")) == Landed(True, 1, 3, inserted=3)
    landed = table.land(
        1,
        ("a", 10, "u"),
        ("b", None, "d"),
        ("d", 4, "c"),
        ("x", None, "d"),
        added=[("k", 7, "r"), ("l", 8, "r")],
    )
    assert landed == Landed(True, 2, source_rows=6, inserted=3, updated=1, deleted=1)
    assert table.content() == {"a": 10, "c": 3, "d": 4, "k": 7, "l": 8}
    (said,) = table.actions("commitInfo")
    assert (said["operation"], said["operationMetrics"]["numTargetDeletionVectorsAdded"]) == ("MERGE", "1")
    (marked,) = [add for add in table.actions("add") if add.get("deletionVector")]
    assert marked["deletionVector"]["cardinality"] == 2
    assert json.loads(marked["stats"])["minValues"]["_key"] == "a"
    lowest = [
        json.loads(a["stats"])["minValues"]["_key"] for a in table.actions("add") if "deletionVector" not in a
    ]
    assert sorted(lowest) == ["a", "k"]
    assert table.state.recorded_batch() == 1


@pytest.mark.parametrize("known", [0, table_files.FILES_MAX])
def test_batch_after_batch_it_is_what_the_changes_say(
    table: Table, rng: random.Random, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old marks are kept when new ones come; a file whose last row goes is taken out. Of few keys, so that the rows of
    a file go one after the other. The same where Delta is asked for the files each time, as of a table of many."""
    monkeypatch.setattr(table_files, "FILES_MAX", known)
    keys = [f"k{n:02}" for n in range(20)]
    expected: dict[str, int] = {}
    for batch in range(8):
        some = rng.sample(keys, rng.randrange(1, 12))
        changes: list[Change] = [(key, batch, rng.choice("uud")) for key in some]
        fresh: list[Change] = [(f"new{batch}{n}", n, "r") for n in range(rng.randrange(3))]
        before = dict(expected)
        expected |= {key: n for key, n, op in (*changes, *fresh) if op != "d" and n is not None}
        gone = {key for key, _, op in changes if op == "d"}
        expected = {key: n for key, n in expected.items() if key not in gone}
        landed = table.land(batch, *changes, added=fresh or None)
        kept = [key for key, _, op in changes if op != "d"]
        assert landed == Landed(
            True,
            batch + 1,
            source_rows=len(changes) + len(fresh),
            inserted=sum(key not in before for key in kept) + len(fresh),
            updated=sum(key in before for key in kept),
            deleted=len(gone & before.keys()),
        )
        assert table.content() == expected
    # Whatever was drawn, files with old marks lose their last rows now.
    table.land(8, *((key, None, "d") for key in expected), ("nobody's", None, "d"))
    assert (table.content(), table.actions("add")) == ({}, [])
    assert table.actions("remove")


def test_a_batch_of_deletes_alone(table: Table) -> None:
    """Of all rows, which takes their file out; and of none, which is a commit all the same: it records the batch."""
    table.land(0, ("a", 1, "c"), ("b", 2, "c"))
    assert table.land(1, ("a", None, "d"), ("b", None, "d")) == Landed(True, 2, 2, deleted=2)
    assert (table.content(), table.actions("add")) == ({}, [])
    assert table.land(2, ("a", None, "d")) == Landed(True, 3, 1)
    assert table.state.recorded_batch() == 2


def test_files_without_any_of_the_keys_are_not_read(table: Table, spark: SparkSession) -> None:
    """Their statistics say so: a batch into a large table looks for its rows where they may be."""
    for batch, prefix in enumerate("abc"):
        table.land(batch, *((f"{prefix}{n}", n, "c") for n in range(5)))
    transaction = Transaction(spark, str(table.path), "e")
    assert transaction.files(None).size() == 3
    assert transaction.files([("b1", "b3")]).size() == 1
    assert transaction.files([("a1", "a1"), ("c0", "c9")]).size() == 2
    assert transaction.files([("b9", "bz")]).size() == 0


def test_the_files_are_asked_for_once(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind its own commits the engine knows them; behind somebody else's it asks Delta again. What it knows is what
    Delta would say: marks and statistics too."""
    asked: list[int] = []
    really = Snapshot.data_files

    def counted(snapshot: Snapshot) -> Any:
        asked.append(snapshot.version)
        return really(snapshot)

    monkeypatch.setattr(Snapshot, "data_files", counted)
    table.land(0, *((f"k{n}", n, "c") for n in range(9)))
    table.land(1, ("k1", 10, "u"), ("k2", None, "d"), added=[("m", 1, "r")])
    table.land(2, ("k3", 30, "u"), ("m", None, "d"))
    assert asked == []  # it was empty at first
    assert table.content() == {"k0": 0, "k1": 10, "k3": 30, **{f"k{n}": n for n in range(4, 9)}}
    table.spark.sql(f"OPTIMIZE delta.`{table.path}` FULL")
    table.land(3, ("k4", 40, "u"))
    table.land(4, ("k4", 41, "u"))
    assert asked == [table.state.version() - 2]
    newest = TableLog(table.spark, str(table.path)).newest()
    assert newest is not None
    kept, anew = table.state._writing.files, TableFiles.of(newest)
    assert kept is not None
    assert anew is not None
    assert (kept.table, kept.version) == (anew.table, anew.version)
    assert list(kept) == list(anew)
    for file in kept:
        assert said_of(kept.add_of(file.facts.path)) == said_of(anew.add_of(file.facts.path))
    assert table.content()["k4"] == 41


def test_a_key_outside_the_ranges_is_refused(table: Table) -> None:
    """It would be inserted beside its old row. Nothing of the batch is in the table."""
    table.land(0, ("a", 0, "c"), ("m", 0, "c"))
    with pytest.raises(Exception, match=OUTSIDE):
        table.land(1, ("a", 1, "u"), ("m", 1, "u"), ranges=[("a", "b")])
    assert table.content() == {"a": 0, "m": 0}
    assert table.state.recorded_batch() == 0


def test_a_batch_that_is_recorded_is_left_out(table: Table, spark: SparkSession) -> None:
    """By another process too, which begins with what the log says."""
    table.land(7, ("a", 1, "c"))
    again = Table(spark, table.path)
    assert again.land(7, ("b", 1, "c"), added=[("c", 1, "r")]) == Landed(False, 1)
    assert again.content() == {"a": 1}


def test_a_change_data_feed_is_written_by_delta_itself(table: Table, spark: SparkSession) -> None:
    """A table that asks more of its writers than is done here gets Delta's MERGE: the feed has every change."""
    table.land(0, ("a", 1, "c"), ("b", 1, "c"))
    name = f"delta.`{table.path}`"
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    assert not table.state.takes_added(Known(9, distinct=True, held=True, deletes=0))
    table.land(1, ("a", 2, "u"), ("b", None, "d"))
    written_by = table.state.written_by
    assert written_by is not None
    assert (written_by.by, written_by.slower) == ("merge", True)
    assert "changeDataFeed" in written_by.reason
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 3)
    changes = feed.load(str(table.path)).where("_change_type <> 'update_preimage'").collect()
    assert sorted((row["_key"], row["_change_type"]) for row in changes) == [
        ("a", "update_postimage"),
        ("b", "delete"),
    ]


def test_a_table_that_is_altered_meanwhile_is_written_by_delta_itself(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By somebody else, after the landing had looked at it: what was to go into one commit does, with the feed."""
    table.land(0, ("a", 1, "c"), ("b", 1, "c"))
    name, fitting = f"delta.`{table.path}`", table.state._fitting

    def altered_then(*given: Any, **named: Any) -> DataFrame:
        table.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
        return fitting(*given, **named)

    monkeypatch.setattr(table.state, "_fitting", altered_then)
    landed = table.land(1, ("a", 2, "u"), ("b", None, "d"), added=[("k", 3, "r")])
    assert (landed.wrote, landed.inserted, landed.updated, landed.deleted) == (True, 1, 1, 1)
    assert table.content() == {"a": 2, "k": 3}
    assert table.actions("cdc"), "it was not Delta that wrote this"
    assert table.state.recorded_batch() == 1


def test_who_keeps_the_table_in_sparks_cache_sees_what_has_landed(table: Table, spark: SparkSession) -> None:
    """As after a MERGE. (What the engine itself asks of the table would be old, too: keys would come twice.)"""
    table.land(0, ("a", 1, "c"), ("b", 1, "c"))
    kept = spark.read.format("delta").load(str(table.path)).cache()
    try:
        assert kept.count() == 2
        table.land(1, ("a", 2, "u"), ("z", 1, "c"))
        found = {row["_key"]: row["n"] for row in spark.read.format("delta").load(str(table.path)).collect()}
        assert found == {"a": 2, "b": 1, "z": 1}
        assert table.state.max_key() == "z"
    finally:
        kept.unpersist()


def test_a_landing_leaves_the_settings_of_its_session_alone(spark: SparkSession, tmp_path: Path) -> None:
    """A small MERGE goes without compiled code; the next batch, of many rows perhaps, has what was set before."""
    table = Table(spark, tmp_path / "orders")
    session, codegen = table.state._session, "spark.sql.codegen.factoryMode"
    before = {name: session.conf.get(name, None) for name in (codegen, DELETION_VECTORS)}
    table.land(0, ("a", 1, "c"))
    small = columns_table(spark, str(table.path), Namespace("shop", "orders"), "e")
    small.land(
        table.frame([("a", 2, "u")]),
        batch_id=1,
        metadata={},
        how="merge",
        key_ranges=None,
        known=Known(1, distinct=True),
    )
    for each in (session, small._session):
        assert {name: each.conf.get(name, None) for name in before} == before


@pytest.mark.parametrize("name", [DELETION_VECTORS, STATISTICS])
def test_what_the_application_switches_off_stays_off(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Deletion vectors, or the statistics by which an upsert counts what it has written: Delta's own MERGE it is."""
    application = cast(Any, spark._jsparkSession).sharedState().conf()
    application.set(name, "false")
    try:
        table = Table(spark, tmp_path / "orders")
    finally:
        application.remove(name)
    table.land(0, ("a", 1, "c"), ("b", 1, "c"))
    assert not table.state.takes_added(Known(1, distinct=True, held=True, deletes=0))
    assert table.land(1, ("a", 2, "u"), ("c", 1, "c")) == Landed(True, 2, 2, inserted=1, updated=1)
    assert table.content() == {"a": 2, "b": 1, "c": 1}
    assert any(add.get("deletionVector") for add in table.actions("add")) == (name == STATISTICS)


def test_rules_that_somebody_has_excluded_are_excluded_still(spark: SparkSession) -> None:
    """Beside ours, without which rows may be counted twice."""
    excluded = "spark.sql.adaptive.optimizer.excludedRules"
    theirs = "org.apache.spark.sql.execution.adaptive.DynamicJoinSelection"
    rules = landing_session(spark, {excluded: theirs}).conf.get(excluded)
    ours = landing_session(spark, {}).conf.get(excluded)
    assert rules == f"{theirs},{ours}"
    assert ours


def test_where_rows_are_not_taken_beside_a_merge_they_are_merged(spark: SparkSession, tmp_path: Path) -> None:
    """Deletion vectors are switched off, say between the question and the landing: still one commit has it all."""
    table = Table(spark, tmp_path / "orders", {DELETION_VECTORS: "false"})
    assert not table.state.takes_added(Known(9, distinct=True, held=True, deletes=0))
    table.land(0, ("a", 1, "c"), ("b", 1, "c"))
    landed = table.land(1, ("a", None, "d"), ("b", 2, "u"), added=[("c", 1, "r")])
    assert (landed.wrote, landed.inserted, landed.updated, landed.deleted) == (True, 1, 1, 1)
    assert table.content() == {"b": 2, "c": 1}
    assert landed.version == 2
