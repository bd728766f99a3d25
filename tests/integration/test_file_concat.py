"""Files that are concatenated: one file has the row groups of all, and what is marked in them stays marked; files that
are not alike are left apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from streaming.delta import file_concat, state_upkeep, upkeep_plan
from streaming.delta.file_concat import NotAlike, RowGroups
from streaming.delta.file_keys import FileKeys
from streaming.delta.object_store import OutOfReach
from streaming.delta.rewriting import Begun, GaveWay
from streaming.delta.row_writer import By
from streaming.delta.transaction import Transaction
from streaming.delta.upkeep_plan import FileFacts, Kind, Step, Thresholds
from tests.integration.test_file_copies import VALUES, rows
from tests.support.kept_tables import Kept, some

ALL = Thresholds(files=1, file_bytes=1 << 30, retention_hours=0)


@pytest.fixture
def kept(spark: SparkSession, tmp_path: Path) -> Kept:
    kept = Kept(spark, tmp_path / "ord [e]rs")
    kept.by_driver = True
    return kept


def files_of(kept: Kept) -> Sequence[FileFacts]:
    files = kept.look(ALL).files
    assert files is not None
    return sorted(files, key=lambda file: file.low or "")


def begun(kept: Kept, files: Sequence[FileFacts] | None = None) -> Begun:
    """All files of the table are to be concatenated, or these."""
    step = Step(Kind.COMPACT, "concatenate", tuple(files or files_of(kept)), 1, concatenates=True)
    found = kept.table.upkeep.begin(step)
    assert found is not None
    return found


def tenths(kept: Kept, count: int) -> None:
    """So many files of ten rows each, one behind the other."""
    for batch in range(count):
        kept.land(some(10 * batch, 10))


def test_row_groups_are_copied_and_marks_stay(kept: Kept) -> None:
    """Rows are marked before files are concatenated, meanwhile, and behind it: in the first file and in the last. The
    next landing finds all of them, and reads no keys."""
    tenths(kept, 4)
    kept.land({"k0001": None, "k0011": None, "k0025": None})
    one = begun(kept)
    assert not one.alone
    kept.land({"k0000": None, "k0012": None})
    copies = one.write()
    assert copies.left is None
    kept.check()
    kept.land({"k0013": 8, "k0039": None})
    kept.land({"k0013": None})
    done = kept.table.upkeep.finish(one, copies)
    assert (done.files, done.made, done.purged) == (4, 1, 0)
    kept.check()
    (made,) = (action["add"] for action in kept.actions() if "add" in action)
    parquet = pq.ParquetFile(kept.path / made["path"])
    assert [parquet.metadata.row_group(at).num_rows for at in range(parquet.num_row_groups)] == [10] * 4
    assert made["deletionVector"]["cardinality"] == 7
    said = json.loads(made["stats"])
    assert (said["numRecords"], said["minValues"]["_key"], said["maxValues"]["_key"]) == (
        40,
        "k0000",
        "k0039",
    )
    assert (said["minValues"]["_cluster_time"], said["maxValues"]["_cluster_time"]) == (0, 3)
    assert not any(
        (a.get("add") or a["remove"])["dataChange"] for a in kept.actions() if {"add", "remove"} & set(a)
    )
    keys, folder = kept.table._writing.kept, kept.table.folder()
    assert keys is not None
    assert keys.has_keys(folder, made["path"])
    assert not any(keys.has_keys(folder, file.name) for file in copies.of)
    kept.land({"k0002": None, "k0038": 4, "k0014": 5, "k0000": 1})
    assert kept.table.written_by is not None
    assert kept.table.written_by.by is By.UPSERT
    assert not kept.table.written_by.slower
    kept.check()


def test_files_without_marks_get_no_vector(kept: Kept) -> None:
    """And one of several row groups is concatenated again, with others."""
    tenths(kept, 2)
    for first in (20, 30):
        one = begun(kept)
        kept.table.upkeep.finish(one, one.write())
        (made,) = (action["add"] for action in kept.actions() if "add" in action)
        assert "deletionVector" not in made
        assert pq.ParquetFile(kept.path / made["path"]).num_row_groups == first // 10
        kept.check()
        kept.land(some(first, 10))
    kept.check()


def test_a_table_that_is_opened_anew_knows_the_file(kept: Kept) -> None:
    """A start takes it for the table's own, and a landing finds its rows."""
    tenths(kept, 3)
    one = begun(kept)
    kept.table.upkeep.finish(one, one.write())
    folder, again = kept.table.folder(), kept.opened("snapshotter:shop:1")
    again.open()
    assert not again.leftovers(folder)
    kept.land({"k0001": 9, "k0022": None}, again)
    kept.check()


def test_values_come_back_as_spark_reads_them(kept: Kept) -> None:
    """Of every type, in files that Spark has written."""
    for first in (40, 50):
        columns = f"SELECT string(id) AS _key, id AS n, {VALUES} FROM range({first}, {first + 10})"
        marks = (
            "CAST(NULL AS STRING) AS _rescued_data",
            f"{first}L AS _cluster_time",
            "now() AS _source_ts",
            "'c' AS _op",
        )
        made = kept.spark.sql(columns).selectExpr("*", *marks).coalesce(1)
        made.write.format("delta").mode("append").option("mergeSchema", "true").save(str(kept.path))
    before = rows(kept)
    assert len(before) == 20
    one = begun(kept)
    kept.table.upkeep.finish(one, one.write())
    assert str(rows(kept)) == str(before), "as texts: no NaN equals another"
    assert kept.look(ALL).count == 1


def a_file_goes(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    kept.land(dict.fromkeys(some(10, 10), None))


def a_copy_goes(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    """Somebody clears the folder of what no version of the table has."""
    for copy in kept.path.glob("copies-*"):
        copy.write_bytes(b"")


def no_vector_can_be_written(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    def write(*_: Any) -> Any:
        raise OSError("no space left on device")

    patched.setattr("streaming.delta.rewriting.write_vectors", write)


def out_of_reach(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    reached, asked = Transaction.folder, []

    def folder(self: Transaction) -> Any:
        asked.append(self)
        if len(asked) == 2:  # the first looks whether the copy is what it was
            raise OutOfReach("no client")
        return reached(self)

    patched.setattr(Transaction, "folder", folder)


def no_keys_are_kept(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    patched.setattr(kept.table._writing, "kept", None)


@pytest.mark.parametrize(
    ("meanwhile", "why"),
    [
        (a_file_goes, "1 of 3 files are gone"),
        (a_copy_goes, "a copy is not what it was"),
        (no_vector_can_be_written, "could not be read or written: no space left"),
        (out_of_reach, "only the JVM reaches what is marked"),
        (no_keys_are_kept, "is not to read what is marked"),
    ],
)
def test_it_gives_way_where_there_is_no_place_for_it(
    kept: Kept,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[Kept, pytest.MonkeyPatch], None],
    why: str,
) -> None:
    """Nothing is committed, the file is removed, and the next try succeeds."""
    tenths(kept, 3)
    kept.land({"k0001": None})
    files = files_of(kept)
    one = begun(kept, files)
    copies = one.write()
    meanwhile(kept, monkeypatch)
    version = kept.table.version()
    with pytest.raises(GaveWay, match=why):
        kept.table.upkeep.finish(replace(one, kept=kept.table._writing.kept), copies)
    monkeypatch.undo()
    assert kept.table.version() == version
    assert not list(kept.path.glob("copies-*"))
    kept.check()
    assert kept.table.upkeep.rewrite(begun(kept).step) is not None
    kept.check()


def apart(kept: Kept) -> set[str]:
    """The names of files that are not to be concatenated."""
    return {file.path for file in files_of(kept) if file.low is None}


def inserted(kept: Kept, key: str, column: str, value: str) -> None:
    """By Spark, which writes the columns of the statement alone."""
    named = "_key, n, _cluster_time, _source_ts, _op"
    row = kept.spark.sql(
        f"SELECT '{key}' AS _key, 1L AS n, 5L AS _cluster_time, now() AS _source_ts, 'c' AS _op"
    )
    made = row.selectExpr(*named.split(", "), f"{value} AS {column}").coalesce(1)
    made.write.format("delta").mode("append").option("mergeSchema", "true").save(str(kept.path))
    kept.expected[key] = 1


def other_columns(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    inserted(kept, "k0001", "a", "1")
    inserted(kept, "k0002", "b", "1")


def groups_of_other_names(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    """Of which the columns have the same names."""
    inserted(kept, "k0001", "a", "named_struct('x', 1)")
    inserted(kept, "k0002", "b", "named_struct('x', 1)")


def dates_of_the_julian_calendar(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    tenths(kept, 2)
    patched.setattr(file_concat, "is_gregorian", lambda _: False)


def no_footer_can_be_read(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    def read_metadata(_: Any) -> Any:
        raise OSError("no Parquet")

    tenths(kept, 2)
    patched.setattr(file_concat.pq, "read_metadata", read_metadata)


def no_vector_can_be_read(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    def marked(*_: Any) -> Any:
        raise ValueError("no bitmap")

    tenths(kept, 2)
    patched.setattr(FileKeys, "marked", marked)


def out_of_reach_from_the_start(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    def folder(_: Transaction) -> Any:
        raise OutOfReach("no client for hdfs://")

    tenths(kept, 2)
    patched.setattr(Transaction, "folder", folder)


def parquets_writer_fails(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    """Behind some of it."""
    concat = RowGroups.concat

    def broken(self: RowGroups, *given: Any) -> None:
        concat(self, *given)
        raise Py4JError("Missing column")

    tenths(kept, 2)
    patched.setattr(RowGroups, "concat", broken)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (other_columns, "of 2 files no more than 1 are alike"),
        (groups_of_other_names, "of 2 files no more than 1 are alike"),
        (dates_of_the_julian_calendar, "no more than 0 are alike"),
        (no_footer_can_be_read, "no more than 0 are alike"),
        (no_vector_can_be_read, "no more than 0 are alike"),
        (out_of_reach_from_the_start, "no client for hdfs"),
        (parquets_writer_fails, "Parquet's writer failed: Missing column"),
    ],
)
def test_files_that_cannot_be_concatenated_are_left_apart(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, case: Callable[[Kept, pytest.MonkeyPatch], None], why: str
) -> None:
    """No new file stays behind. For an hour they are put together as rows, if that is due; then it is tried again."""
    case(kept, monkeypatch)
    one = begun(kept)
    with pytest.raises(NotAlike, match=why):
        one.write()
    assert not list(kept.path.glob("copies-*"))
    assert len(apart(kept)) == 2
    with monkeypatch.context() as an_hour_later:
        an_hour_later.setattr(state_upkeep, "_APART_SECONDS", 0.0)
        assert not apart(kept)
    assert kept.table.upkeep.rewrite(replace(one.step, concatenates=False)) is not None
    monkeypatch.undo()
    kept.check()


def another_column(kept: Kept) -> None:
    inserted(kept, "x", "more", "1")


def a_time_that_is_null(kept: Kept) -> None:
    kept.spark.sql(f"INSERT INTO delta.`{kept.path}` (_key, n) VALUES ('x', 1)")
    kept.expected["x"] = 1


@pytest.mark.parametrize("other", [another_column, a_time_that_is_null])
def test_most_of_the_files_may_be_alike(kept: Kept, other: Callable[[Kept], None]) -> None:
    """They become one; another one stays as it is, apart."""
    tenths(kept, 3)
    other(kept)
    one = begun(kept)
    done = kept.table.upkeep.finish(one, one.write())
    assert (done.files, done.made) == (3, 1)
    (left,) = apart(kept)
    assert kept.look(ALL).count == 2
    assert left in {file.name for file in one.of}
    kept.check()


def without_vectors(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    kept.spark.sql(f"ALTER TABLE delta.`{kept.path}` SET TBLPROPERTIES (delta.enableDeletionVectors = false)")


def other_statistics(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    kept.spark.sql(
        f"ALTER TABLE delta.`{kept.path}` SET TBLPROPERTIES (delta.dataSkippingStatsColumns = 'n')"
    )


def without_keys(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    patched.setattr(kept.table._writing, "kept", None)


@pytest.mark.parametrize("case", [without_vectors, other_statistics, without_keys])
def test_of_some_tables_no_files_are_concatenated(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, case: Callable[[Kept, pytest.MonkeyPatch], None]
) -> None:
    """Whose files are written anew for each change in them, whose statistics would be lost, whose vectors the driver is
    not to read. Small files are put together as rows, also such of which rows are marked."""
    monkeypatch.setattr(upkeep_plan, "_CHAINED_BYTES", 0)
    tenths(kept, 4)
    kept.land({"k0001": None, "k0012": 3})
    step = kept.step()
    assert step is not None
    assert step.concatenates
    case(kept, monkeypatch)
    step = kept.step()
    assert step is not None
    assert not step.concatenates
    assert kept.table.upkeep.rewrite(step) is not None
    kept.check()


def test_one_that_is_not_to_go_on_leaves_nothing(kept: Kept) -> None:
    """The engine stops between two files; nothing is wrong with these."""
    tenths(kept, 3)
    asked: list[int] = []

    def check() -> None:
        asked.append(1)
        if len(asked) == 2:
            raise RuntimeError("the engine stops")

    with pytest.raises(RuntimeError, match="the engine stops"):
        begun(kept).write(check)
    assert not list(kept.path.glob("copies-*"))
    assert not apart(kept)


def test_the_new_file_is_looked_at(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """One with other rows than the files have is not committed, and nothing is tried in its place."""
    tenths(kept, 3)
    concat = RowGroups.concat

    def forgetful(self: RowGroups, folder: Any, names: Sequence[str], *given: Any) -> None:
        concat(self, folder, names[1:], *given)

    monkeypatch.setattr(RowGroups, "concat", forgetful)
    with pytest.raises(RuntimeError, match="their rows are others than before"):
        begun(kept).write()
    assert not list(kept.path.glob("copies-*"))
