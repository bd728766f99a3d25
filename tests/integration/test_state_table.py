"""`streaming.delta.state_table`: rows landed into a real Delta table, exactly once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from streaming.delta.further_columns import FurtherColumns
from streaming.delta.landed import Landed
from streaming.delta.landing_errors import LandingError
from streaming.delta.new_table import COMMENTS, make_table
from streaming.delta.row_writer import NOTHING_KNOWN, Known
from streaming.delta.state_merge import ranges_of
from streaming.delta.table_identity import Owner
from streaming.keys.ranges import key_ranges
from streaming.layouts.columns.plan import Array, Column, Scalar, Struct, TablePlan
from streaming.namespaces import Namespace
from tests.support.selection import rest_thorough
from tests.support.state_tables import columns_table, state_schema
from tests.support.tables import landing_marks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

NAMESPACE = Namespace("shop", "orders")
PERSON = Struct((Column("name", Scalar("string")), Column("city", Scalar("string"))))
PLAN = TablePlan((Column("n", Scalar("long")), Column("person", PERSON)))
LARGER = TablePlan(
    (
        Column("n", Scalar("long")),
        Column("person", Struct((*PERSON.fields, Column("age", Scalar("long"))))),
        Column("lines", Array(Struct((Column("sku", Scalar("string")),)))),
    )
)
EVENT = {"_cluster_time": 1, "_op": "c"}


class Table:
    """A state table under test, with a plan, and rows as dictionaries; written as a large one is."""

    def __init__(
        self, spark: SparkSession, path: str, app_id: str = "engine-1", plan: TablePlan = PLAN
    ) -> None:
        self.spark = spark
        self.state = columns_table(spark, path, NAMESPACE, app_id)
        self.state.create(plan)
        self.plan = plan

    def source(self, *rows: dict[str, Any]) -> DataFrame:
        schema = state_schema(self.plan)
        values = [tuple((EVENT | row).get(name) for name in schema.names) for row in rows]
        return self.spark.createDataFrame(values, schema)

    def land(
        self,
        batch_id: int,
        *rows: dict[str, Any],
        how: Any = "merge",
        ranges: Any = (),
        known: Known = NOTHING_KNOWN,
    ) -> Landed:
        covering = key_ranges(row["_key"] for row in rows) if ranges == () else ranges
        return self.state.land(
            self.source(*rows),
            batch_id=batch_id,
            metadata={"batch": batch_id},
            how=how,
            key_ranges=covering,
            known=known,
        )

    def rows(self) -> dict[str, Row]:
        found = self.spark.read.format("delta").load(self.state.path).collect()
        assert len(found) == len({row["_key"] for row in found}), "two rows of one key"
        return {row["_key"]: row for row in found}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table's path with characters that need care: a space, a percent sign, a quote."""
    return str(tmp_path / "sta te" / "50%25'x" / "orders")


@pytest.fixture
def table(spark: SparkSession, path: str) -> Table:
    return Table(spark, path)


EVERYTHING = Known(rows=4, distinct=True, held=True, deletes=2)
KNOWN = [NOTHING_KNOWN, Known(rows=4), Known(distinct=True), Known(held=True), EVERYTHING]


@pytest.mark.parametrize("known", rest_thorough(KNOWN, [NOTHING_KNOWN, EVERYTHING]), ids=repr)
def test_a_merge_inserts_updates_and_deletes(table: Table, known: Known) -> None:
    """One batch may do all three, is counted, and a delete of an unknown key does nothing; whatever is known of the
    source changes nothing but the work."""
    landed = table.land(0, {"_key": "a", "n": 1}, {"_key": "b", "n": 2}, {"_key": "c", "n": 3})
    assert landed == Landed(True, 1, source_rows=3, inserted=3)
    landed = table.land(
        1,
        {"_key": "a", "n": 10, "_op": "u"},
        {"_key": "b", "_op": "d"},
        {"_key": "x", "_op": "d"},
        {"_key": "d", "n": 4},
        known=known,
    )
    assert landed == Landed(True, 2, source_rows=4, inserted=1, updated=1, deleted=1)
    assert {key: row["n"] for key, row in table.rows().items()} == {"a": 10, "c": 3, "d": 4}


@pytest.mark.parametrize("how", ["merge", "insert", "append", "replace"])
def test_every_way_of_landing_is_recorded_once(table: Table, how: str) -> None:
    """Batch and metadata are in the commit; the same batch from another run is skipped, and says so."""
    assert table.state.recorded_batch() is None
    assert table.land(7, {"_key": "a", "n": 1}, how=how) == Landed(True, 1, source_rows=1, inserted=1)
    assert table.state.recorded_batch() == 7
    assert landing_marks(table.state.path)[-1]["metadata"] == {"batch": 7}
    replay = Table(table.spark, table.state.path)
    assert replay.land(7, {"_key": "b", "n": 1}, how=how) == Landed(False, 1)
    assert replay.land(6, {"_key": "b", "n": 1}, how=how) == Landed(False, 1)
    assert set(table.rows()) == {"a"}
    assert replay.land(8, {"_key": "b", "n": 1}, how=how).wrote


def test_a_replacement_leaves_its_source_alone(table: Table) -> None:
    """In one commit what the source has not is deleted, and the rest inserted, updated and deleted; without rows it
    empties the table, also one that is empty."""
    table.land(0, *({"_key": key, "n": 1} for key in "abc"))
    rows = ({"_key": "b", "n": 2}, {"_key": "c", "_op": "d"}, {"_key": "d", "n": 2})
    landed = table.land(1, *rows, how="replace", ranges=None)
    assert landed == Landed(True, 2, source_rows=3, inserted=1, updated=1, deleted=2)
    assert {key: row["n"] for key, row in table.rows().items()} == {"b": 2, "d": 2}
    assert table.land(2, how="replace", ranges=None) == Landed(True, 3, deleted=2)
    assert table.land(3, how="replace", ranges=None) == Landed(True, 4)
    assert (table.rows(), table.state.recorded_batch()) == ({}, 3)


def test_a_second_commit_of_one_batch_is_refused(table: Table) -> None:
    """Its rows would be skipped in silence, so the call fails instead."""
    table.land(3, {"_key": "a", "n": 1})
    with pytest.raises(LandingError, match=r"batch 3 of shop\.orders was landed already"):
        table.land(3, {"_key": "b", "n": 1})
    assert set(table.rows()) == {"a"}


def test_a_new_checkpoint_under_an_old_name_lands(table: Table) -> None:
    """Its application id is another one, so its batch 0 is not taken for the old one's."""
    table.land(0, {"_key": "a", "n": 1})
    fresh = Table(table.spark, table.state.path, app_id="engine-2")
    assert fresh.state.recorded_batch() is None
    assert fresh.land(0, {"_key": "a", "n": 2}).wrote
    assert table.rows()["a"]["n"] == 2
    assert (table.state.recorded_batch(), fresh.state.recorded_batch()) == (0, 0)


def test_an_empty_batch_is_recorded(table: Table) -> None:
    """A batch whose rows were all superseded is landed like any other, so a replay skips it."""
    assert table.land(0) == Landed(True, 1)
    assert table.state.recorded_batch() == 0


def test_the_marks_do_not_outlive_a_landing(table: Table) -> None:
    """After a landing, failed or not, the session writes without marks: a later write would be skipped."""
    table.land(0, {"_key": "a", "n": 1})
    with pytest.raises(Exception, match="two rows of one key"):
        table.land(1, {"_key": "a", "n": 1}, {"_key": "a", "n": 2})
    session = table.state._session
    assert session.conf.get("spark.databricks.delta.write.txnVersion", None) is None
    assert session.conf.get("spark.databricks.delta.commitInfo.userMetadata", None) is None


@pytest.mark.parametrize("known", [False, True], ids=["unknown key", "known key"])
@pytest.mark.parametrize("how", ["merge", "insert"])
def test_two_rows_of_one_key_fail_before_anything_is_written(table: Table, known: bool, how: str) -> None:
    """Rule 3, whether the key is in the table or not; the batch can be landed again, rightly."""
    table.land(0, {"_key": "a", "n": 0}, {"_key": "z", "n": 0})
    key = "a" if known else "b"
    with pytest.raises(Exception, match=f"two rows of one key in the source of a landing: {key}"):
        table.land(1, {"_key": key, "n": 1}, {"_key": key, "n": 2}, {"_key": "c", "n": 3}, how=how)
    assert table.state.version() == 1
    assert table.state.recorded_batch() == 0
    assert table.land(1, {"_key": "c", "n": 3}, how=how).wrote


@pytest.mark.parametrize("known", [NOTHING_KNOWN, EVERYTHING], ids=["nothing known", "everything known"])
def test_a_key_outside_the_ranges_fails_before_anything_is_written(table: Table, known: Known) -> None:
    """Rule 10: it would be inserted beside its old row, so the plan of the MERGE refuses it."""
    table.land(0, {"_key": "a", "n": 0}, {"_key": "m", "n": 0})
    with pytest.raises(Exception, match="outside the literal ranges of a landing: m"):
        table.land(1, {"_key": "a", "n": 1}, {"_key": "m", "n": 1}, ranges=[("a", "b")], known=known)
    assert table.rows()["m"]["n"] == 0
    assert table.state.version() == 1


def test_a_table_is_clustered_by_its_key(table: Table) -> None:
    """So that OPTIMIZE, whoever runs it, keeps neighbouring keys in the same files."""
    details = table.spark.sql(f"DESCRIBE DETAIL delta.`{table.state.path}`").first()
    assert details is not None
    assert details["clusteringColumns"] == ["_key"]


def test_ranges_prune_the_files_that_a_merge_reads(table: Table) -> None:
    """Files whose keys lie in no range are not opened, so that it does not matter that one is lost; without ranges all
    of them are."""
    table.land(0, {"_key": "a", "n": 0})
    before = set(Path(table.state.path).rglob("*.parquet"))
    table.land(1, {"_key": "m", "n": 0})
    for file in set(Path(table.state.path).rglob("*.parquet")) - before:
        file.unlink()
    table.land(2, {"_key": "x", "n": 0})
    assert table.land(3, {"_key": "a", "n": 1}, {"_key": "y", "n": 1}).updated == 1
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist"):
        table.land(4, {"_key": "a", "n": 2}, ranges=None)
    assert table.state.recorded_batch() == 3


@pytest.mark.parametrize("how", ["merge", "insert", "append"])
def test_a_null_struct_stays_null(table: Table, how: str) -> None:
    """A missing nested document is not turned into a document of nulls, when inserted or when updated."""
    table.land(0, {"_key": "b", "person": ("Ann", "Oslo")}, {"_key": "c", "person": ("Bo", None)})
    table.land(1, {"_key": "a", "person": None}, {"_key": "d", "person": (None, None)}, how=how)
    table.land(2, {"_key": "b", "person": None}, {"_key": "c", "person": (None, None)})
    rows = table.rows()
    assert rows["a"]["person"] is None
    assert rows["b"]["person"] is None
    assert rows["c"]["person"] is not None
    assert rows["d"]["person"] is not None


def test_evolution_adds_columns_and_nested_fields(table: Table) -> None:
    """Rows of before show nulls, rows of after the values; no batch is used up, and our columns stay last."""
    table.land(0, {"_key": "a", "n": 1, "person": ("Ann", "Oslo")})
    assert table.state.evolve(LARGER) == LARGER
    assert table.state.recorded_batch() == 0
    assert table.state.open() == LARGER
    table.plan = LARGER
    person = ("Bo", "Rome", 30)
    table.land(1, {"_key": "b", "person": person, "lines": [("x",)]}, {"_key": "c", "person": None})
    rows = table.rows()
    assert rows["a"].asDict(recursive=True)["person"] == {"name": "Ann", "city": "Oslo", "age": None}
    assert rows["a"]["lines"] is None
    assert rows["b"].asDict(recursive=True)["lines"] == [{"sku": "x"}]
    assert rows["c"]["person"] is None
    columns = table.spark.read.format("delta").load(table.state.path).columns
    assert sorted(table.source().columns) == sorted(columns)
    version = table.state.version()
    assert table.state.evolve(PLAN) == LARGER
    assert table.state.version() == version


OF_EACH_TABLE = ["_rescued_data", "_cluster_time", "_source_ts", "_op"]


@pytest.mark.parametrize(
    ("begun", "first", "last"),
    [(PLAN, [], ["_key"]), (TablePlan(), [], ["_key"]), (None, ["_key"], [])],
    ids=["a new table", "a new one without columns", "a table of before"],
)
def test_documents_come_first_and_the_key_is_last(
    spark: SparkSession, path: str, begun: TablePlan | None, first: list[str], last: list[str]
) -> None:
    """Also of columns that come later, and of further ones. A table of before begins with its key, and goes on so; rows
    land in either."""
    guard = {"snapshotter.namespace": str(NAMESPACE), "snapshotter.plan": PLAN.to_json()}
    if begun is None:
        make_table(spark, path, state_schema(PLAN), "", guard)
    table = Table(spark, path, plan=begun or TablePlan())
    table.plan = table.state.evolve(LARGER)
    columns = [*first, "n", "person", "lines", *OF_EACH_TABLE, *last]
    assert spark.read.format("delta").load(path).columns == columns
    for batch, how in enumerate(("merge", "append", "merge")):
        table.land(batch, {"_key": f"k{batch % 2}", "n": batch, "lines": [("x",)]}, how=how)
    assert {key: row["n"] for key, row in table.rows().items()} == {"k0": 2, "k1": 1}
    marked = columns_table(spark, path, NAMESPACE, "engine-1", further=FurtherColumns(soft=True))
    assert marked.open() == LARGER
    further = [*first, "n", "person", "lines", *OF_EACH_TABLE, "_deleted", *last]
    assert spark.read.format("delta").load(path).columns == further


def test_a_table_says_what_it_is(spark: SparkSession, path: str) -> None:
    """By a comment and properties, and each column by its own: those that come later, and further ones, too."""
    owner = Owner("shop's", "1f")
    table = columns_table(spark, path, NAMESPACE, "engine-1", owner=owner)
    table.create(PLAN)
    table.evolve(LARGER)
    soft = FurtherColumns(soft=True)
    columns_table(spark, path, NAMESPACE, "engine-1", owner=owner, further=soft).open()
    details = spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first()
    assert details is not None
    assert details["description"] == (
        "the MongoDB collection shop.orders, a row for each document; kept by snapshotter"
    )
    said = {"snapshotter.namespace": "shop.orders", "snapshotter.engine": "shop's"}
    assert said.items() <= details["properties"].items()
    comments = {f.name: f.metadata.get("comment") for f in spark.read.format("delta").load(path).schema}
    assert comments.items() >= COMMENTS.items()
    assert {name: comments[name] for name in ("n", "lines", "_deleted")} == {
        "n": "MongoDB: whole numbers",
        "lines": "MongoDB: arrays",
        "_deleted": "whether the document is deleted; null in rows from before the column",
    }
    assert None not in comments.values()


def test_a_nested_field_of_an_array_is_added(spark: SparkSession, path: str) -> None:
    """Documents inside arrays grow too."""
    first = TablePlan((Column("lines", Array(Struct((Column("sku", Scalar("string")),)))),))
    fields = (Column("sku", Scalar("string")), Column("it's", Scalar("decimal")))
    second = TablePlan((Column("lines", Array(Struct(fields))),))
    table = Table(spark, path, plan=first)
    table.land(0, {"_key": "a", "lines": [("x",)]})
    table.state.evolve(second)
    assert table.rows()["a"].asDict(recursive=True)["lines"] == [{"sku": "x", "it's": None}]


def test_an_evolution_cut_short_is_finished_at_the_next_opening(table: Table) -> None:
    """The plan is written before its columns, so a crash between the two is found and mended."""
    text = LARGER.to_json()
    name = f"delta.`{table.state.path}`"
    table.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('snapshotter.plan' = '{text}')")
    reopened = columns_table(table.spark, table.state.path, NAMESPACE, "engine-1")
    assert reopened.open() == LARGER
    table.plan = LARGER
    assert table.land(0, {"_key": "a", "lines": [("x",)]}).wrote


def test_creating_again_keeps_the_table(table: Table) -> None:
    """`create` is idempotent, and makes no commit when there is nothing to do."""
    table.land(0, {"_key": "a", "n": 1})
    again = Table(table.spark, table.state.path)
    assert again.state.version() == 1
    assert set(again.rows()) == {"a"}


def test_a_creation_that_was_killed_is_begun_again(spark: SparkSession, path: str) -> None:
    """Killed before its first commit was in place, it leaves a log without a version; that is no table yet."""
    log = Path(path) / "_delta_log"
    (log / "_staged_commits").mkdir(parents=True)
    (log / ".00000000000000000000.json.5d0f.tmp").write_text("{")
    table = Table(spark, path)
    assert table.land(0, {"_key": "a", "n": 1}).version == 1


def test_rows_that_do_not_fit_are_refused(table: Table) -> None:
    """The message names each column that is missing, too many, or of another type; nothing is written."""
    source = table.source({"_key": "a", "n": 1}).drop("_op").withColumns({"n": F.lit("one"), "m": F.lit(1)})
    with pytest.raises(LandingError) as refused:
        table.state.land(source, batch_id=0, metadata={}, how="append", key_ranges=None)
    message = str(refused.value)
    assert "no column '_op' in the rows" in message
    assert "no column 'm' in the table" in message
    assert "column 'n' is string in the rows and bigint in the table" in message
    assert table.state.version() == 0


def test_what_is_no_state_table_is_not_touched(spark: SparkSession, path: str) -> None:
    """No table, and a table of someone else, are told apart and named."""
    state = columns_table(spark, path, NAMESPACE, "engine-1")
    assert state.open() is None
    assert state.is_empty()
    assert state.recorded_batch() is None
    with pytest.raises(LandingError, match="create it first"):
        state.version()
    spark.range(1).write.format("delta").save(path)
    with pytest.raises(LandingError, match="not made by snapshotter"):
        state.create(PLAN)


def test_emptiness_and_the_greatest_key(table: Table) -> None:
    """What the engine asks before it appends; a table whose rows were all deleted is empty again."""
    assert table.state.is_empty()
    assert table.state.max_key() is None
    table.land(0, *({"_key": key, "n": 1} for key in ("a", "b'", "c")))
    assert not table.state.is_empty()
    assert table.state.max_key() == "c"
    assert table.state.max_key(upto="b'") == "b'"
    assert table.state.max_key(after="a", upto="bb") == "b'"
    assert table.state.max_key(after="c") is None
    table.land(1, *({"_key": key, "_op": "d"} for key in ("a", "b'", "c")))
    assert table.state.is_empty()


def test_ranges_are_found_by_spark(table: Table) -> None:
    """A source of many keys tells its ranges without sending its keys to the driver."""
    keys = [f"{family}{number:03d}" for family in ("Na", "Nb", "S") for number in range(200)]
    source = table.source(*({"_key": key} for key in keys)).cache()
    assert ranges_of(source, limit=3) == (("Na000", "Na199"), ("Nb000", "Nb199"), ("S000", "S199"))
    assert ranges_of(source, limit=1) == (("Na000", "S199"),)
    assert ranges_of(source.where("_key = 'S007'")) == (("S007", "S007"),)
    assert ranges_of(source.where("_key = ''")) == ()
    source.unpersist()


@pytest.mark.thorough
def test_tables_are_landed_side_by_side(spark: SparkSession, tmp_path: Path) -> None:
    """Four tables, four threads, one cached batch: each gets its rows and record; repeats are skipped."""
    tables = [Table(spark, str(tmp_path / str(number)), app_id=f"engine-{number}") for number in range(4)]
    rows = [{"_key": f"{number}-{key:03d}", "n": number} for number in range(4) for key in range(50)]
    batch = tables[0].source(*rows).cache()
    assert batch.count() == 200

    def work(number: int, batch_id: int) -> Landed:
        source = batch.where(F.col("n") == number)
        ranges = [(f"{number}-000", f"{number}-049")]
        state = columns_table(spark, tables[number].state.path, NAMESPACE, f"engine-{number}")
        return state.land(
            source, batch_id=batch_id, metadata={"table": number}, how="merge", key_ranges=ranges
        )

    with ThreadPoolExecutor(4) as pool:
        first = list(pool.map(work, range(4), range(10, 14)))
        again = list(pool.map(work, range(4), range(10, 14)))
    assert [landed.inserted for landed in first] == [50] * 4
    assert [landed.wrote for landed in again] == [False] * 4
    for number, table in enumerate(tables):
        assert table.state.recorded_batch() == 10 + number
        assert landing_marks(table.state.path)[-1]["metadata"] == {"table": number}
        assert {row["n"] for row in table.rows().values()} == {number}
    batch.unpersist()


def test_the_mark_of_a_commit_is_readable(table: Table) -> None:
    """`userMetadata` is JSON: engine, application id, batch, and what the caller gave, to the letter."""
    given = {"windows": ["shop.${env:HOME}", 'a"b\\c', "\u00e9"]}
    table.state.land(table.source(), batch_id=5, metadata=given, how="merge", key_ranges=())
    row = table.spark.sql(f"DESCRIBE HISTORY delta.`{table.state.path}` LIMIT 1").first()
    assert row is not None
    mark = json.loads(row["userMetadata"])
    del mark["landing"]
    assert mark == {"engine": "snapshotter", "app_id": "engine-1", "batch": 5, "metadata": given}
    with pytest.raises(ValueError, match="substitute"):
        columns_table(table.spark, table.state.path, NAMESPACE, "engine-${env:HOME}")
