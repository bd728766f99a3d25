"""Files that the driver puts together: the copy is what Spark would have written, or they are left to Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from streaming.delta import file_copies
from streaming.delta.rewriting import Copies
from streaming.delta.upkeep_plan import Kind, Step, Thresholds
from tests.support.kept_tables import Kept, some

ALL = Thresholds(files=1, file_bytes=1 << 30, retention_hours=0)


@pytest.fixture
def kept(spark: SparkSession, tmp_path: Path) -> Kept:
    return Kept(spark, tmp_path / "ord [e]rs")


def written(kept: Kept, **changed: Any) -> Copies:
    """All files of the table as one, which is not put in their place."""
    return replace(kept.begun(limits=ALL), **changed).write()


def put_in_place(kept: Kept) -> str | None:
    """All files of the table become one; why Spark has written it."""
    begun = kept.begun(limits=ALL)
    copies = begun.write()
    kept.table.upkeep.finish(begun, copies)
    return copies.left


def codec(file: Path) -> str:
    compression: str = pq.ParquetFile(file).metadata.row_group(0).column(0).compression
    return compression


def rows(kept: Kept) -> list[Row]:
    return kept.spark.read.format("delta").load(str(kept.path)).sort("_key").collect()


VALUES = """
    CAST(id AS BYTE) AS small, CAST(id AS INT) AS whole, CAST(id * 1.5 AS FLOAT) AS few,
    CASE id WHEN 3 THEN double('NaN') WHEN 4 THEN double('-Infinity') ELSE id / 7 END AS many, id % 2 = 0 AS even,
    CAST(id AS DECIMAL(9, 2)) AS price, CAST(id AS DECIMAL(38, 10)) AS large, CAST(string(id) AS BINARY) AS bytes,
    DATE'1582-10-04' + CAST(id AS INT) AS day, TIMESTAMP'9999-12-31 23:59:59.999999' - make_dt_interval(id) AS late,
    TIMESTAMP'0001-01-01' + make_dt_interval(id) AS early, CASE WHEN id > 2 THEN id || 'ü' END AS text,
    CASE WHEN id <> 5 THEN named_struct('a', id, 'b', array(named_struct('c', string(id), 'd', timestamp_seconds(id))))
    END AS inner, CASE id % 3 WHEN 0 THEN array() WHEN 1 THEN array(id, NULL) END AS numbers
"""


def test_every_type_of_a_table_comes_back_as_spark_reads_it(kept: Kept) -> None:
    """Of files as Spark writes them (with its old times) and as workers do, some of them older than a column; behind a
    copy of copies, too. The copy's statistics bound its keys, and its pages have an index."""
    kept.land(some(0, 10))
    kept.by_driver = True
    kept.land(some(20, 10))
    columns = f"SELECT string(id) AS _key, id AS n, {VALUES} FROM range(40, 50)"
    made = kept.spark.sql(columns).selectExpr(
        "*",
        "CAST(NULL AS STRING) AS _rescued_data",
        "40L AS _cluster_time",
        "now() AS _source_ts",
        "'c' AS _op",
    )
    made.coalesce(1).write.format("delta").mode("append").option("mergeSchema", "true").save(str(kept.path))
    kept.by_driver = False
    kept.land({"k0003": None, "k0025": 7})
    before = rows(kept)
    for _ in range(2):
        assert put_in_place(kept) is None
        assert str(rows(kept)) == str(before), "as texts: no NaN equals another"
        (file,) = (action["add"] for action in kept.actions() if "add" in action)
        assert json.loads(file["stats"])["minValues"]["_key"] == before[0]["_key"]
        assert json.loads(file["stats"])["maxValues"]["_key"] == before[-1]["_key"]
        parquet = pq.ParquetFile(kept.path / file["path"])
        assert parquet.read(columns=["_key"])["_key"].to_pylist() == [row["_key"] for row in before]
        assert parquet.metadata.row_group(0).column(0).has_offset_index
        kept.land({"k0001": 5})
        before = rows(kept)


def test_rows_that_are_all_marked_leave_no_file(kept: Kept) -> None:
    """There is nothing to copy; the files go."""
    kept.by_driver = True
    for batch in range(2):
        kept.land(some(10 * batch, 10))
    begun_with = kept.look(ALL).files
    assert begun_with is not None
    begun = kept.table.upkeep.begin(Step(Kind.PURGE, "", begun_with[:1], 1))
    assert begun is not None
    every = begun.of[0].said.facts.rows
    marked = replace(begun.of[0].said.facts, marked=every)
    gone = replace(begun.of[0], said=replace(begun.of[0].said, facts=marked))

    class All:
        def marked(self, *_: object) -> list[int]:
            return [*range(every)]

        def has_keys(self, *_: object) -> bool:
            return False

    copies = replace(begun, of=[gone], kept=All()).write()  # type: ignore[arg-type]
    assert (list(copies.made), copies.left) == ([], None)


def few_bytes(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    patched.setattr(file_copies, "ENCODED_BYTES", 10)


def few_values(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    """By the footers: nothing is decoded."""
    patched.setattr(file_copies, "DECODED_BYTES", 500)
    patched.setattr(file_copies, "_rows_of", None)


def more_than_footers_say(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    """A text that is there once in a file, and in memory once a row."""
    patched.setattr(file_copies, "_check_footers", lambda *_: None)
    patched.setattr(file_copies, "DECODED_BYTES", 100)


def dates_of_the_julian_calendar(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    """As old Spark wrote them, and new Spark does where it is told to."""
    legacy = "spark.sql.parquet.datetimeRebaseModeInWrite", "spark.sql.parquet.int96RebaseModeInWrite"
    for name in legacy:
        kept.spark.conf.set(name, "LEGACY")
    try:
        row = "SELECT 'x' AS _key, 1L AS n, 5L AS _cluster_time, TIMESTAMP'1200-01-01' AS _source_ts"
        kept.spark.sql(row).write.format("delta").mode("append").save(str(kept.path))
    finally:
        for name in legacy:
            kept.spark.conf.unset(name)
    kept.expected["x"] = 1


def a_column_of_nobody(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    ours = file_copies._schema_of
    patched.setattr(file_copies, "_schema_of", lambda columns: ours(columns).remove(1))


def other_statistics(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    kept.spark.sql(
        f"ALTER TABLE delta.`{kept.path}` SET TBLPROPERTIES (delta.dataSkippingStatsColumns = 'n')"
    )


def a_type_of_nobody(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    kept.spark.sql(f"ALTER TABLE delta.`{kept.path}` ADD COLUMNS (m MAP<STRING, INT>)")


def a_time_that_is_null(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    kept.spark.sql(f"INSERT INTO delta.`{kept.path}` (_key, n) VALUES ('x', 1)")
    kept.expected["x"] = 1


def no_parquet(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    def opened(*_: Any) -> Any:
        raise OSError("no Parquet")

    patched.setattr(file_copies.TableFile, "opened", opened)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (few_bytes, "more than 10 bytes"),
        (few_values, "500 in memory"),
        (more_than_footers_say, "take more than 100 bytes"),
        (dates_of_the_julian_calendar, "Julian calendar"),
        (a_column_of_nobody, "columns that the table lacks"),
        (other_statistics, "statistics of other columns"),
        (a_type_of_nobody, "columns that no table of ours has"),
        (a_time_that_is_null, "is null somewhere"),
        (no_parquet, "no Parquet"),
    ],
)
def test_what_is_not_for_the_driver_is_left_to_spark(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, case: Callable[[Kept, pytest.MonkeyPatch], None], why: str
) -> None:
    """No file of the driver's stays behind, and the table has the same rows."""
    for batch in range(2):
        kept.land(some(10 * batch, 10))
    case(kept, monkeypatch)
    copies = written(kept)
    assert copies.left is not None
    assert why in copies.left
    assert [add.path().startswith("part-") for add in copies.made] == [True]
    assert {codec(kept.path / add.path()) for add in copies.made} == {"ZSTD"}, (
        "as the driver and workers compress"
    )
    assert not list(kept.path.glob("copies-*"))
    monkeypatch.undo()
    before = str(rows(kept))
    put_in_place(kept)
    assert str(rows(kept)) == before
    kept.check()


def test_a_file_that_cannot_be_written_is_left_to_spark(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was begun of it is gone."""
    for batch in range(2):
        kept.land(some(10 * batch, 10))

    def close(_: Any) -> Any:
        raise OSError("no space left on device")

    monkeypatch.setattr(file_copies.FileWriter, "close", close)
    copies = written(kept)
    assert copies.left is not None
    assert "no space left" in copies.left
    assert not list(kept.path.glob("copies-*"))


def test_a_table_that_is_opened_anew_knows_a_copy(kept: Kept) -> None:
    """A start takes it for the table's own, and a landing finds its rows."""
    kept.by_driver = True
    for batch in range(3):
        kept.land(some(10 * batch, 10))
    assert put_in_place(kept) is None
    folder = kept.table.folder()
    again = kept.opened("snapshotter:shop:1")
    again.open()
    assert not again.leftovers(folder)
    again.clear_leftovers(folder)
    kept.land({"k0001": 9, "k0022": None}, again)
    kept.check()
