"""Columns of a real Delta table that are not the plan's: refused by Spark, or added by somebody else."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streaming.delta.row_writer import NOTHING_KNOWN, Known
from streaming.delta.state_evolution import is_refusal
from streaming.delta.state_table import StateTable
from streaming.keys.ranges import key_ranges
from streaming.layouts.columns import plan as columns
from streaming.layouts.columns.plan import Array, Column, ColumnType, Scalar, Struct, TablePlan
from streaming.namespaces import Namespace
from tests.integration.test_state_table_conflicts import held, while_landing
from tests.support.selection import rest_thorough
from tests.support.state_tables import MERGED, columns_table, state_schema
from tests.support.storage import refusing_writes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMESPACE = Namespace("shop", "orders")
LONG, TEXT = Scalar("long"), Scalar("string")
LINES = Array(Struct((Column("sku", TEXT),)))
PLAN = TablePlan((Column("n", LONG), Column("at", Struct((Column("city", TEXT),))), Column("lines", LINES)))
CLASHES = (Column("GRÖẞE", LONG), Column("größe", LONG), Column("İsim", LONG), Column("i̇sim", LONG))
"""What was in plans before names were held against each other as Spark does."""
CAREFUL = Known(rows=2, distinct=True, held=True, deletes=0)


def opened(spark: SparkSession, path: str, **more: Any) -> StateTable:
    return columns_table(spark, path, NAMESPACE, "engine-1", **more)


def source(spark: SparkSession, plan: TablePlan, *rows: dict[str, Any]) -> DataFrame:
    schema = state_schema(plan)
    given = [{"_cluster_time": 1, "_op": "c"} | row for row in rows]
    return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in given], schema)


def content(spark: SparkSession, path: str) -> dict[str, dict[str, Any]]:
    rows = spark.read.format("delta").load(path).collect()
    return {row["_key"]: row.asDict(recursive=True) for row in rows}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "orders")


def test_a_table_is_made_without_the_fields_that_spark_refuses(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should our rule let one through. All others have their columns; the refusals stand in the plan, so nobody tries
    them again."""
    monkeypatch.setattr(columns, "fold", lambda name: name)
    plan = TablePlan((*CLASHES, Column("n", LONG), Column("x", Struct(CLASHES[:2]))))
    table = opened(spark, path)
    table.create(plan)
    left = table.open()
    assert left is not None
    assert left.names == ("GRÖẞE", "İsim", "n")
    assert left.refused == (("größe",), ("i̇sim",), ("x",))
    assert "already exists" in table.refusals["größe",]
    version = table.version()
    assert opened(spark, path).evolve(plan) == left
    assert table.version() == version
    landed = table.land(
        source(spark, left, {"_key": "a", "GRÖẞE": 1, "İsim": 2}),
        batch_id=0,
        metadata={},
        how="merge",
        key_ranges=None,
    )
    assert landed.wrote


def test_storage_that_fails_in_the_middle_of_ddl_refuses_nothing(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is written, and its column is not: that is raised as what it is, and the next opening adds the column.
    No field is rescued for it."""
    table = opened(spark, path)
    table.create(PLAN)
    table.open()
    alter = table._evolution.alter

    def refused(statement: str) -> None:
        with refusing_writes(spark):
            alter(statement)

    monkeypatch.setattr(table._evolution, "alter", refused)
    grown = TablePlan((*PLAN.columns, Column("new", LONG)))
    with pytest.raises(Exception, match="File too large") as failed:
        table.evolve(grown)
    assert not is_refusal(failed.value)
    assert table.refusals == {}
    found = opened(spark, path)
    assert found.open() == grown
    assert "new" in spark.read.format("delta").load(path).columns


def test_a_plan_that_ended_engines_is_mended_at_the_next_opening(spark: SparkSession, path: str) -> None:
    """It was written before its columns, which Spark refused at every start: the rest of them is added now."""
    opened(spark, path).create(TablePlan())
    text = TablePlan((*CLASHES[:2], Column("lines", LINES))).to_json()
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('snapshotter.plan' = '{text}')")
    wanted = TablePlan((CLASHES[0], Column("lines", LINES)), (("größe",),))
    assert opened(spark, path).open() == wanted
    nested = TablePlan(
        (wanted.columns[0], Column("lines", Array(Struct((Column("sku", TEXT), *CLASHES[2:])))))
    )
    text = TablePlan(nested.columns, wanted.refused).to_json()
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('snapshotter.plan' = '{text}')")
    mended = opened(spark, path).open()
    assert mended is not None
    assert mended.columns[1].type == Array(Struct((Column("sku", TEXT), CLASHES[2])))
    assert mended.refused == (("größe",), ("lines", "element", "i̇sim"))


def test_other_writers_do_not_get_a_field_refused(spark: SparkSession, path: str) -> None:
    """Two that alter a table at once come into conflict with each other, and both get their columns."""
    tables = [opened(spark, path), opened(spark, path)]
    tables[0].create(TablePlan())
    failures: list[BaseException] = []
    start = threading.Barrier(2)

    def evolve(table: StateTable, mine: str) -> None:
        try:
            start.wait()
            for number in range(4):
                table.evolve(TablePlan((Column(f"{mine}{number}", LONG), Column(f"both{number}", LONG))))
        except BaseException as error:  # noqa: BLE001 - handed to the test's thread
            failures.append(error)

    threads = [threading.Thread(target=evolve, args=args) for args in zip(tables, "ab", strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    names = {f"{kind}{number}" for kind in ("a", "b", "both") for number in range(4)}
    assert names <= set(spark.read.format("delta").load(path).columns)
    assert "refused" not in str(spark.sql(f"SHOW TBLPROPERTIES delta.`{path}`").collect())


def add_columns(spark: SparkSession, path: str) -> None:
    """What a user adds: first, in a struct, and in the documents of an array."""
    added = "note STRING FIRST, at.zone STRING, lines.element.seen BOOLEAN, since MAP<STRING, INT>"
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS ({added})")


WAYS: dict[str, tuple[str, Known]] = {
    "merge": ("merge", NOTHING_KNOWN),
    "upsert": ("merge", CAREFUL),
    "insert": ("insert", NOTHING_KNOWN),
    "append": ("append", NOTHING_KNOWN),
    "replace": ("replace", NOTHING_KNOWN),
}


@pytest.mark.parametrize("way", rest_thorough(list(WAYS), ["merge", "upsert", "append"]))
def test_what_somebody_added_to_a_table_is_kept_and_null(spark: SparkSession, path: str, way: str) -> None:
    """In rows that are written, also in place of others; rows that are not written keep what stands there."""
    how, known = WAYS[way]
    table = opened(spark, path)
    table.create(PLAN)

    def land(batch_id: int, *rows: dict[str, Any], **more: Any) -> None:
        ranges = None if how == "replace" and batch_id else key_ranges(row["_key"] for row in rows)
        given = {"batch_id": batch_id, "metadata": {}, "how": "append", "key_ranges": ranges}
        assert table.land(source(spark, PLAN, *rows), **given | more).wrote

    land(
        0,
        {"_key": "a", "n": 1},
        {"_key": "b", "n": 1},
        {"_key": "c", "n": 1, "at": ("Oslo",), "lines": [("x",)]},
    )
    add_columns(spark, path)
    spark.sql(f"UPDATE delta.`{path}` SET note = 'theirs'")
    new = {"_key": "d", "n": 2, "at": ("Rome",), "lines": [("y",), (None,), None]}
    old = {"_key": "a", "n": 2, "_op": "u"}
    land(1, new, *([] if how in ("append",) else [old]), how=how, known=known)
    rows = content(spark, path)
    assert (rows["d"]["note"], rows["d"]["since"], rows["d"]["n"]) == (None, None, 2)
    assert rows["d"]["at"] == {"city": "Rome", "zone": None}
    assert rows["d"]["lines"] == [{"sku": "y", "seen": None}, {"sku": None, "seen": None}, None]
    updated = how not in ("append", "insert")
    assert (rows["a"]["n"], rows["a"]["note"]) == ((2, None) if updated else (1, "theirs"))
    assert rows["a"]["at"] is None
    if how != "replace":
        assert (rows["b"]["note"], rows["c"]["at"]) == ("theirs", {"city": "Oslo", "zone": None})
    assert table.open() == PLAN


def test_rows_that_are_added_beside_a_merge_have_null_there(spark: SparkSession, path: str) -> None:
    """READs that are proven new, inserted in the commit of the events."""
    table = opened(spark, path)
    table.create(PLAN)
    add_columns(spark, path)
    known = Known(rows=1, distinct=True, held=True, deletes=0)
    assert table.takes_added(known)
    table.land(
        source(spark, PLAN, {"_key": "a", "n": 1}),
        batch_id=0,
        metadata={},
        how="merge",
        key_ranges=[("a", "a")],
        known=known,
        added=source(spark, PLAN, {"_key": "b", "n": 2}),
    )
    assert {key: (row["n"], row["note"]) for key, row in content(spark, path).items()} == {
        "a": (1, None),
        "b": (2, None),
    }


@pytest.mark.parametrize(
    ("name", "type_"), [("note", LONG), ("NOTE", TEXT), ("since", Struct((Column("x", LONG),)))], ids=str
)
def test_a_field_of_the_name_of_somebodys_column_is_rescued(
    spark: SparkSession, path: str, name: str, type_: ColumnType
) -> None:
    """Theirs was first. Whatever types the two have, and in nested documents as well."""
    table = opened(spark, path)
    table.create(PLAN)
    add_columns(spark, path)
    zone = Column("at", Struct((Column("Zone", TEXT), Column("hall", LONG))))
    seen = Column("lines", Array(Struct((Column("seen", LONG),))))
    grown = table.evolve(TablePlan((Column(name, type_), zone, seen, Column("m", LONG))))
    assert grown.names == ("n", "at", "lines", "m")
    assert grown.columns[1].type == Struct((Column("city", TEXT), Column("hall", LONG)))
    assert set(grown.refused) == {(name,), ("at", "Zone"), ("lines", "element", "seen")}
    assert set(table.refusals) == set(grown.refused)
    row = {"_key": "a", "at": ("Oslo", 7), "m": 1}
    table.land(source(spark, grown, row), batch_id=0, metadata={}, how="append", key_ranges=None)
    assert content(spark, path)["a"]["at"] == {"city": "Oslo", "zone": None, "hall": 7}
    assert opened(spark, path).open() == grown


@pytest.mark.parametrize("settings", [MERGED, {}], ids=["merge", "upsert"])
def test_a_column_that_comes_in_the_middle_of_a_landing(
    spark: SparkSession, path: str, tmp_path: Path, settings: dict[str, str]
) -> None:
    """The landing began with the table as it was. It is done again, as one batch, and the column is there."""
    table = opened(spark, path, settings=settings)
    table.create(PLAN)

    def rows(n: int) -> DataFrame:
        return source(spark, PLAN, {"_key": "a", "_op": "u", "n": n})

    table.land(rows(n=0), batch_id=0, metadata={}, how="append", key_ranges=None)
    known = Known(rows=1, distinct=True, held=True, deletes=0)
    landed = while_landing(
        tmp_path,
        lambda: table.land(
            held(rows(n=1), tmp_path),
            batch_id=1,
            metadata={},
            how="merge",
            key_ranges=[("a", "a")],
            known=known,
        ),
        lambda: add_columns(spark, path),
    )
    assert landed.wrote
    assert (content(spark, path)["a"]["n"], content(spark, path)["a"]["note"]) == (1, None)
