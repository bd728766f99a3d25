"""`StateTable.look` and owners, on real Delta tables that other writers really change."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streaming.delta.delta_log import active
from streaming.delta.landed import Landed
from streaming.delta.landing_errors import TableAltered, TableOwned
from streaming.delta.row_writer import Known
from streaming.delta.state_merge import append
from streaming.delta.state_table import StateTable
from streaming.delta.table_identity import Alteration, Owner, TableMark
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from streaming.namespaces import Namespace
from tests.support.state_tables import MERGED, columns_table, state_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMESPACE = Namespace("shop", "orders")
PLAN = TablePlan((Column("n", Scalar("long")),))
SHOP, OTHER = Owner("shop", "1"), Owner("other", "2")


def state(
    spark: SparkSession,
    path: str,
    owner: Owner | None = SHOP,
    namespace: Namespace = NAMESPACE,
    settings: dict[str, str] | None = None,
) -> StateTable:
    app_id = f"snapshotter:{owner.engine if owner else 'shop'}:0"
    return columns_table(spark, path, namespace, app_id, settings, owner=owner)


def rows(spark: SparkSession, *keys: str) -> DataFrame:
    values = [(key, 1, None, 1, None, "c") for key in keys]
    return spark.createDataFrame(values, state_schema(PLAN)).localCheckpoint()


def land(table: StateTable, source: DataFrame, batch: int, how: str = "merge") -> Landed:
    known = Known(source.count(), distinct=True, held=True, deletes=0)
    return table.land(source, batch_id=batch, metadata={}, how=how, key_ranges=[("a", "z")], known=known)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "orders")


@pytest.fixture
def table(spark: SparkSession, path: str) -> StateTable:
    """The shop's, with one landing."""
    made = state(spark, path)
    made.create(PLAN)
    land(made, rows(spark, "a", "b"), 0)
    return made


@pytest.mark.guard
def test_own_landings_and_upkeep_by_others_are_lived_with(spark: SparkSession, table: StateTable) -> None:
    """OPTIMIZE, VACUUM, columns and properties of somebody else change no data: the mark moves on over them."""
    mark = table.look(None)
    assert mark is not None
    assert table.look(mark) == mark
    land(table, rows(spark, "c"), 1)
    name = f"delta.`{table.path}`"
    spark.sql(f"OPTIMIZE {name} FULL")
    spark.sql(f"VACUUM {name}")
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS (theirs STRING)")
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('theirs' = 'x')")
    later = table.look(mark)
    assert later is not None
    assert (later.table_id, later.version) == (mark.table_id, table.version())
    assert TableMark.from_json(later.to_json()) == later
    assert state(spark, table.path).look(mark) == later, "another process finds the same"


CHANGES: dict[str, Callable[[SparkSession, str], object]] = {
    "RESTORE": lambda spark, path: spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 0"),
    "DELETE": lambda spark, path: spark.sql(f"DELETE FROM delta.`{path}` WHERE _key = 'a'"),
    "UPDATE": lambda spark, path: spark.sql(f"UPDATE delta.`{path}` SET n = 7"),
    "WRITE": lambda spark, path: append(path, rows(spark, "x"), "another", 0, '{"engine": "x"}'),
}


@pytest.mark.parametrize("operation", CHANGES)
def test_what_another_writer_changes_is_found(spark: SparkSession, table: StateTable, operation: str) -> None:
    """Also where this engine has landed behind it since."""
    mark = table.look(None)
    CHANGES[operation](spark, table.path)
    land(table, rows(spark, "c"), 1)
    with pytest.raises(TableAltered, match=operation) as refused:
        table.look(mark)
    assert refused.value.alteration is Alteration.CHANGED
    assert table.path in str(refused.value)
    assert "shop.orders" in refused.value.next_step
    assert table.look(table.look(None)) is not None, "from here on"


def test_a_table_that_is_gone_is_not_made_anew(spark: SparkSession, table: StateTable) -> None:
    """Removed beside a running engine: neither a look nor a landing takes it for a new one."""
    mark = table.look(None)
    shutil.rmtree(table.path)
    with pytest.raises(TableAltered, match="gone") as gone:
        table.look(mark)
    assert gone.value.alteration is Alteration.MISSING
    with pytest.raises(TableAltered, match="gone"):
        land(table, rows(spark, "c"), 1)
    with pytest.raises(TableAltered, match="gone"):
        table.create(PLAN)
    assert not Path(table.path).exists()
    with pytest.raises(TableAltered, match="gone"):
        state(spark, table.path).look(mark)


def test_another_table_in_its_place_is_found(spark: SparkSession, table: StateTable) -> None:
    """Of another id, though it has as many versions."""
    mark = table.look(None)
    shutil.rmtree(table.path)
    other = state(spark, table.path)
    other.create(PLAN)
    land(other, rows(spark, "x"), 0)
    for looks in (table, state(spark, table.path)):
        with pytest.raises(TableAltered) as another:
            looks.look(mark)
        assert another.value.alteration is Alteration.ANOTHER
    with pytest.raises(TableAltered):
        land(table, rows(spark, "c"), 1)


def test_an_older_copy_is_found(spark: SparkSession, table: StateTable, tmp_path: Path) -> None:
    """Restored from a backup; also where somebody has worked on it since."""
    copy = tmp_path / "copy"
    shutil.copytree(table.path, copy)
    land(table, rows(spark, "c"), 1)
    mark = table.look(None)
    shutil.rmtree(table.path)
    shutil.copytree(copy, table.path)
    with pytest.raises(TableAltered) as older:
        state(spark, table.path).look(mark)
    assert older.value.alteration is Alteration.OLDER
    spark.sql(f"ALTER TABLE delta.`{table.path}` SET TBLPROPERTIES ('a' = 'b')")
    with pytest.raises(TableAltered) as older:
        state(spark, table.path).look(mark)
    assert older.value.alteration is Alteration.OLDER


def test_a_log_that_forgot_is_said(spark: SparkSession, table: StateTable) -> None:
    """Delta removes old commits behind a checkpoint: what they did can't be known any more."""
    mark = table.look(None)
    for batch in (1, 2):
        land(table, rows(spark, f"c{batch}"), batch)
    with active(spark):
        table._log._delta_log().checkpoint()
    log = Path(table.path) / "_delta_log"
    (log / "00000000000000000002.json").unlink()
    with pytest.raises(TableAltered) as unknown:
        table.look(mark)
    assert unknown.value.alteration is Alteration.UNKNOWN


def test_a_new_table_is_its_makers(spark: SparkSession, table: StateTable) -> None:
    """Another engine neither looks at it, nor opens it, nor lands in it, and is told both names."""
    other = state(spark, table.path, OTHER)
    source = rows(spark, "x")
    roads: list[Callable[[], object]] = [
        lambda: other.look(None),
        other.open,
        lambda: other.create(PLAN),
        lambda: other.evolve(PLAN),
        lambda: land(other, source, 0),
        lambda: land(other, source, 0, "append"),
    ]
    version = table.version()
    for road in roads:
        with pytest.raises(TableOwned, match=r"(?s)'shop'.*'other'") as refused:
            road()
        assert refused.value.by == "shop"
        assert "take-over" in refused.value.next_step
    assert table.version() == version


def test_a_table_without_an_owner_is_taken_by_whom_it_fits(spark: SparkSession, path: str) -> None:
    """One of an earlier version, landed by the shop: another engine is refused, the shop takes it."""
    before = state(spark, path, None)
    before.create(PLAN)
    land(before, rows(spark, "a"), 0)
    with pytest.raises(TableOwned, match="'shop'"):
        state(spark, path, OTHER).look(None)
    with pytest.raises(TableOwned, match=r"shop\.orders"):
        state(spark, path, namespace=Namespace("shop", "customers")).look(None)
    found = state(spark, path).look(None)
    assert found is not None
    assert found.version == 2, "taken by a commit"
    assert state(spark, path).look(found) == found
    with pytest.raises(TableOwned, match="'shop'"):
        land(state(spark, path, OTHER), rows(spark, "x"), 0)


def test_one_without_a_landing_is_taken_by_who_comes_first(spark: SparkSession, path: str) -> None:
    """Nobody has a claim to a table in which nothing has landed."""
    state(spark, path, None).create(PLAN)
    state(spark, path, OTHER).look(None)
    with pytest.raises(TableOwned, match="'other'"):
        state(spark, path).look(None)


def test_the_same_name_finds_its_table_again(spark: SparkSession, table: StateTable) -> None:
    """The state that held the id was removed: the new id takes the table, and the old one has lost it."""
    again = state(spark, table.path, Owner("shop", "new"))
    assert again.look(None) is not None
    land(again, rows(spark, "c"), 1)


def test_a_takeover_is_a_conflict_and_then_a_refusal(spark: SparkSession, table: StateTable) -> None:
    """Who has taken over owns it; what the one before has landed is no more looked at, what he lands is refused."""
    mark = table.look(None)
    other = state(spark, table.path, OTHER)
    assert other.take_over() == "shop"
    assert other.take_over() is None, "it is already"
    with pytest.raises(TableOwned, match="'other'"):
        land(table, rows(spark, "c"), 1)
    land(other, rows(spark, "d"), 0)
    assert table.take_over() == "other"
    assert table.look(mark) is not None


ROADS: dict[str, Callable[[StateTable, StateTable, DataFrame], object]] = {
    "open": lambda table, _merging, _source: table.open(),
    "look": lambda table, _merging, _source: table.look(None),
    "evolve": lambda table, _merging, _source: table.evolve(
        TablePlan((*PLAN.columns, Column("m", Scalar("long"))))
    ),
    "recorded_batch": lambda table, _merging, _source: table.recorded_batch(),
    "is_empty": lambda table, _merging, _source: table.is_empty(),
    "max_key": lambda table, _merging, _source: table.max_key(),
    "keys": lambda table, _merging, _source: table.keys(None).collect(),
    "takes_added": lambda table, _merging, _source: table.takes_added(Known()),
    "upsert": lambda table, _merging, source: land(table, source, 1),
    "merge": lambda _table, merging, source: land(merging, source, 2),
    "append": lambda table, _merging, source: land(table, source, 3, "append"),
    "replace": lambda table, _merging, source: land(table, source, 4, "replace"),
    "take_over": lambda table, _merging, _source: table.take_over(),
}


@pytest.mark.guard
def test_every_road_to_a_restored_table_leads_through_any_thread(
    spark: SparkSession, table: StateTable
) -> None:
    """RESTORE leaves a version with a checkpoint and no checksum, of which Delta asks its thread's session. The threads
    that land have none of their own."""
    merging = state(spark, table.path, settings=MERGED)
    sources = {road: rows(spark, f"c-{road}") for road in ROADS}
    failed = {}
    for road, go in ROADS.items():
        spark.sql(f"RESTORE TABLE delta.`{table.path}` TO VERSION AS OF 1")
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
        with ThreadPoolExecutor(1) as pool:
            error = pool.submit(go, table, merging, sources[road]).exception()
        if error is not None:
            failed[road] = str(error)[:200]
    assert failed == {}


def test_rows_that_two_engines_have_doubled_become_one_again(spark: SparkSession, path: str) -> None:
    """Each engine of an earlier version has appended them. A landing leaves one of each key that it writes."""
    plain = state(spark, path, None)
    plain.create(PLAN)
    for app_id in ("snapshotter:shop:0", "snapshotter:other:0"):
        append(path, rows(spark, "a", "b", "c"), app_id, 0, "{}")
    table = state(spark, path)
    known = Known(2, distinct=True, held=True, deletes=0)
    source = rows(spark, "a", "b")
    done = table.land(source, batch_id=1, metadata={}, how="merge", key_ranges=[("a", "b")], known=known)
    assert (done.source_rows, done.inserted, done.updated) == (2, 0, 2)
    keys = [row["_key"] for row in spark.read.format("delta").load(path).collect()]
    assert sorted(keys) == ["a", "b", "c", "c"]


def test_a_look_costs_no_job(spark: SparkSession, table: StateTable) -> None:
    """Not where nothing has happened, and not behind a landing of its own: it stands before each landing."""
    mark = table.look(None)
    context = spark.sparkContext
    context.setJobGroup("looks", "what a look costs")
    try:
        assert table.look(mark) == mark
        context.setJobGroup("landing", "not counted")
        land(table, rows(spark, "c"), 1)
        context.setJobGroup("looks", "what a look costs")
        later = table.look(mark)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert later is not None
    assert later.version == table.version()
    assert context.statusTracker().getJobIdsForGroup("looks") == []
    assert len(context.statusTracker().getJobIdsForGroup("landing")) > 0, "jobs are counted"
