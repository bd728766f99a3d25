"""Files that are put together as they are: one file has the row groups of all, and what is marked in them stays
marked; files that are not alike are left apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from streaming.delta import file_concat
from streaming.delta.file_concat import NotAlike, RowGroups
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
    """All files of the table are to be put together as they are, or these."""
    step = Step(Kind.COMPACT, "", tuple(files or files_of(kept)), 1, as_they_are=True)
    found = kept.table.upkeep.begin(step)
    assert found is not None
    return found


def tenths(kept: Kept, count: int) -> None:
    """So many files of ten rows each, one behind the other."""
    for batch in range(count):
        kept.land(some(10 * batch, 10))


def test_row_groups_are_copied_and_marks_stay(kept: Kept) -> None:
    """Rows are marked before the files are put together, while they are, and behind it: in the first file and in the
    last. The next landing finds all of them, and reads no keys."""
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
    """And one that was put together is put together again, with others."""
    tenths(kept, 2)
    for first in (20, 30):
        one = begun(kept)
        kept.table.upkeep.finish(one, one.write())
        (made,) = (action["add"] for action in kept.actions() if "add" in action)
        assert "deletionVector" not in made
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


def another_column(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    """Which each file has in another type, or not at all."""
    for number, type_ in enumerate(("INT", "LONG")):
        kept.spark.sql(f"ALTER TABLE delta.`{kept.path}` ADD COLUMNS (c{number} {type_})")
        kept.spark.sql(
            f"INSERT INTO delta.`{kept.path}` (_key, n, _cluster_time, _source_ts, _op, c{number}) "
            f"VALUES ('x{number}', 1, 5, now(), 'c', 1)"
        )
        kept.expected[f"x{number}"] = 1
    patched.setattr(file_concat, "_LEAST_PART", 1)


def other_statistics(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    kept.spark.sql(
        f"ALTER TABLE delta.`{kept.path}` SET TBLPROPERTIES (delta.dataSkippingStatsColumns = 'n')"
    )


def dates_of_the_julian_calendar(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    patched.setattr(file_concat, "is_gregorian", lambda _: False)


def a_time_that_is_null(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    kept.spark.sql(f"INSERT INTO delta.`{kept.path}` (_key, n) VALUES ('x', 1)")
    kept.expected["x"] = 1


def a_file_is_gone(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    def no_footer(_: Any) -> Any:
        raise OSError("no Parquet")

    patched.setattr(file_concat.pq, "read_metadata", no_footer)


def beyond_the_driver(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    patched.setattr(kept.table._writing, "kept", None)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (another_column, "of 4 files no more than 2 have the same columns"),
        (other_statistics, "statistics of other columns"),
        (dates_of_the_julian_calendar, "no more than 0 have the same columns"),
        (a_time_that_is_null, "without a key or a time"),
        (a_file_is_gone, "can't be read here: no Parquet"),
        (beyond_the_driver, "the driver does not reach them"),
    ],
)
def test_files_that_are_not_alike_are_left_apart(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, case: Callable[[Kept, pytest.MonkeyPatch], None], why: str
) -> None:
    """No file stays behind. From then on they are not due to be put together so, but as rows."""
    kept.by_driver = False
    tenths(kept, 2)
    case(kept, monkeypatch)
    with pytest.raises(NotAlike, match=why):
        begun(kept).write()
    assert not list(kept.path.glob("copies-*"))
    assert [file.low for file in files_of(kept)] == [None] * len(files_of(kept))
    monkeypatch.undo()
    kept.check()


def test_most_of_the_files_may_be_alike(kept: Kept) -> None:
    """They become one; another one stays as it is."""
    tenths(kept, 3)
    kept.by_driver = False  # Spark says of columns what Arrow does not
    kept.spark.sql(f"ALTER TABLE delta.`{kept.path}` ADD COLUMNS (more INT)")
    kept.land(some(30, 10))
    one = begun(kept)
    done = kept.table.upkeep.finish(one, one.write())
    assert (done.files, done.made) == (3, 1)
    assert kept.look(ALL).count == 2
    kept.check()


def test_nothing_is_left_of_a_try_that_fails(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fails in Parquet's writer; the files are still due."""
    tenths(kept, 2)
    concat = RowGroups.concat

    def broken(self: RowGroups, *given: Any) -> None:
        concat(self, *given)
        raise RuntimeError("the JVM is gone")

    monkeypatch.setattr(RowGroups, "concat", broken)
    with pytest.raises(RuntimeError, match="the JVM is gone"):
        begun(kept).write()
    assert not list(kept.path.glob("copies-*"))
    assert [file.low for file in files_of(kept)] == ["k0000", "k0010"]
