"""`streaming.delta.state_table` beside other writers, which really write in the middle of a landing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streaming.delta.landed import Landed
from streaming.delta.landing_errors import TableOwned
from streaming.delta.row_writer import Known
from streaming.delta.state_table import StateTable
from streaming.delta.table_identity import Owner
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from streaming.namespaces import Namespace
from tests.support.state_tables import MERGED, columns_table, state_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

NAMESPACE = Namespace("shop", "orders")
PLAN = TablePlan((Column("n", Scalar("long")),))
SCHEMA = state_schema(PLAN)
DEADLINE_S = 600


def rows(spark: SparkSession, *values: tuple[str, int, str]) -> DataFrame:
    """Rows of (`_key`, `n`, `_op`)."""
    return spark.createDataFrame([(key, n, None, 1, None, op) for key, n, op in values], SCHEMA)


def held(source: DataFrame, gate: Path) -> DataFrame:
    """The source; whoever reads it says so, and waits until the gate is open. A MERGE has begun by then."""
    reached, opened = str(gate / "reached"), str(gate / "opened")

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        Path(reached).touch()
        deadline = time.monotonic() + DEADLINE_S
        while not Path(opened).exists():
            assert time.monotonic() < deadline, "nobody opened the gate"
            time.sleep(0.02)
        yield from batches

    return source.coalesce(1).mapInArrow(wait, source.schema)


def while_landing(gate: Path, land: Callable[[], Landed], meddle: Callable[[], object]) -> Landed:
    """Start the landing, meddle once it holds its snapshot of the table, let it go on; its result."""
    results: list[Landed | BaseException] = []

    def run() -> None:
        try:
            results.append(land())
        except BaseException as error:  # noqa: BLE001 - handed to the test's thread
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + DEADLINE_S
    while not (gate / "reached").exists():
        assert thread.is_alive(), f"the landing ended early: {results}"
        assert time.monotonic() < deadline, "the landing never read its source"
        time.sleep(0.02)
    meddle()
    (gate / "opened").touch()
    thread.join(DEADLINE_S)
    assert results, "the landing did not end"
    (result,) = results
    if isinstance(result, BaseException):
        raise result
    return result


BOTH = pytest.mark.parametrize("settings", [MERGED, {}], ids=["merge", "upsert"])


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> StateTable:
    """A table with two files, so that OPTIMIZE has something to do."""
    state = opened(spark, str(tmp_path / "orders"))
    state.create(PLAN)
    for batch, key in enumerate("ab"):
        state.land(rows(spark, (key, 0, "c")), batch_id=batch, metadata={}, how="append", key_ranges=None)
    return state


def opened(spark: SparkSession, path: str, settings: dict[str, str] = MERGED) -> StateTable:
    return columns_table(spark, path, NAMESPACE, "engine-1", settings)


def content(spark: SparkSession, table: StateTable) -> dict[str, int]:
    return {row["_key"]: row["n"] for row in spark.read.format("delta").load(table.path).collect()}


@BOTH
def test_a_landing_survives_a_concurrent_optimize(
    spark: SparkSession, table: StateTable, tmp_path: Path, settings: dict[str, str]
) -> None:
    """OPTIMIZE takes away the files that the landing read: it is done again, as one batch."""
    table = opened(spark, table.path, settings)
    known = Known(3, distinct=True, held=True, deletes=1)
    source = held(rows(spark, ("a", 1, "u"), ("b", 0, "d"), ("c", 1, "c")), tmp_path)
    landed = while_landing(
        tmp_path,
        lambda: table.land(
            source, batch_id=2, metadata={}, how="merge", key_ranges=[("a", "c")], known=known
        ),
        lambda: spark.sql(f"OPTIMIZE delta.`{table.path}` FULL"),
    )
    assert (landed.wrote, landed.inserted, landed.updated, landed.deleted) == (True, 1, 1, 1)
    operations = [commit.operation for commit in table._log.commits.down(table.version())]
    assert operations == ["MERGE", "OPTIMIZE", "WRITE", "WRITE", "CREATE TABLE"]
    assert content(spark, table) == {"a": 1, "c": 1}
    assert table.recorded_batch() == 2


@BOTH
def test_of_two_engines_on_one_table_one_learns_that_it_did_not_write(
    spark: SparkSession, table: StateTable, tmp_path: Path, settings: dict[str, str]
) -> None:
    """Both land batch 2 under one application id: the slower one fails, and its rows are not in the table."""
    table, other = opened(spark, table.path, settings), opened(spark, table.path, settings)
    known = Known(1, distinct=True, held=True, deletes=0)
    source = held(rows(spark, ("a", 1, "u")), tmp_path)
    quick = rows(spark, ("a", 2, "u"))
    with pytest.raises(Exception, match=r"(?i)another one, with the same|ConcurrentTransaction"):
        while_landing(
            tmp_path,
            lambda: table.land(
                source, batch_id=2, metadata={}, how="merge", key_ranges=[("a", "a")], known=known
            ),
            lambda: other.land(
                quick, batch_id=2, metadata={}, how="merge", key_ranges=[("a", "a")], known=known
            ),
        )
    assert content(spark, table) == {"a": 2, "b": 0}
    assert table.version() == 3


def test_an_append_survives_a_concurrent_optimize(
    spark: SparkSession, table: StateTable, tmp_path: Path
) -> None:
    """It has read that its keys are new, and OPTIMIZE writes files that could hold them: it looks for them, and inserts
    what is not there."""
    source = held(rows(spark, ("c", 1, "c")), tmp_path)
    landed = while_landing(
        tmp_path,
        lambda: table.land(source, batch_id=2, metadata={}, how="append", key_ranges=[("c", "c")]),
        lambda: spark.sql(f"OPTIMIZE delta.`{table.path}` FULL"),
    )
    assert landed == Landed(True, 4, source_rows=1, inserted=1)
    assert content(spark, table) == {"a": 0, "b": 0, "c": 1}


def test_two_that_append_the_same_rows_do_not_double_them(
    spark: SparkSession, table: StateTable, tmp_path: Path
) -> None:
    """Each has proven that its keys are new, under an application id of its own. The slower one learns that they are
    not any more."""
    path = table.path
    other = columns_table(spark, path, NAMESPACE, "engine-2")
    source = held(rows(spark, ("c", 1, "c"), ("d", 1, "c")), tmp_path)
    quick = rows(spark, ("c", 2, "c"))
    mine = columns_table(spark, path, NAMESPACE, "engine-1")
    landed = while_landing(
        tmp_path,
        lambda: mine.land(source, batch_id=2, metadata={}, how="append", key_ranges=[("c", "d")]),
        lambda: other.land(quick, batch_id=2, metadata={}, how="append", key_ranges=[("c", "c")]),
    )
    assert (landed.source_rows, landed.inserted) == (2, 1)
    found = spark.read.format("delta").load(path).where("_key >= 'c'").collect()
    assert sorted((row["_key"], row["n"]) for row in found) == [("c", 2), ("d", 1)]


def test_rows_added_beside_a_merge_are_not_doubled_either(
    spark: SparkSession, table: StateTable, tmp_path: Path
) -> None:
    """READs that are proven new land with a batch's events in one commit, and another engine is quicker with theirs."""
    mine, other = opened(spark, table.path, {}), columns_table(spark, table.path, NAMESPACE, "engine-2")
    source = held(rows(spark, ("a", 1, "u")), tmp_path)
    added, quick = rows(spark, ("c", 1, "r")), rows(spark, ("c", 2, "c"))
    known = Known(1, distinct=True, held=True, deletes=0)
    while_landing(
        tmp_path,
        lambda: mine.land(
            source,
            batch_id=2,
            metadata={},
            how="merge",
            key_ranges=[("a", "a")],
            known=known,
            added=added,
        ),
        lambda: other.land(quick, batch_id=2, metadata={}, how="append", key_ranges=[("c", "c")]),
    )
    found = spark.read.format("delta").load(table.path).collect()
    assert sorted(row["_key"] for row in found) == ["a", "b", "c"]


@BOTH
@pytest.mark.parametrize("how", ["merge", "append"])
def test_a_takeover_in_the_middle_of_a_landing_is_a_conflict_and_then_a_refusal(
    spark: SparkSession, table: StateTable, tmp_path: Path, settings: dict[str, str], how: Any
) -> None:
    """The landing had begun while the table was its engine's: nothing of it is in the table."""
    shop, other = Owner("shop", "1"), Owner("other", "2")
    mine = columns_table(spark, table.path, NAMESPACE, "snapshotter:shop:0", settings, owner=shop)
    theirs = columns_table(spark, table.path, NAMESPACE, "snapshotter:other:0", owner=other)
    assert mine.take_over() is not None
    source = held(rows(spark, ("c", 1, "c")), tmp_path)
    known = Known(1, distinct=True, held=True, deletes=0)
    with pytest.raises(TableOwned, match="'other'"):
        while_landing(
            tmp_path,
            lambda: mine.land(source, batch_id=2, metadata={}, how=how, key_ranges=[("c", "c")], known=known),
            theirs.take_over,
        )
    assert content(spark, table) == {"a": 0, "b": 0}
