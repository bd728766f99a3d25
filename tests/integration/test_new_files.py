"""READs that workers have written into a table's folder as files: what a commit makes of them, for every reader."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streaming.delta.new_files import (
    FileGone,
    FileWriter,
    NewFile,
    discard_job,
    hide,
    job_name,
    read_files,
    rows_of,
)
from streaming.delta.table_folder import TableFolder
from streaming.delta.transaction import Transaction
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.plan import Column, Scalar, Struct, TablePlan
from tests.support import tables
from tests.support.bson_documents import batches
from tests.support.new_files import PLAN, TIME, Made, made, some, written
from tests.support.state_tables import state_schema

__all__ = ["made"]


def test_a_file_is_seen_once_a_commit_names_it(made: Made) -> None:
    """Not before; then with its marks, and its figures in the history."""
    one, two = written(made.path, some(0, 30)), written(made.path, some(100, 20), 2)
    assert made.rows() == {}
    landed = made.append(0, [one, two])
    assert (landed.wrote, landed.inserted) == (True, 50)
    assert made.rows() == some(0, 30) | some(100, 20)
    marks = tables.rows(made.path, "DISTINCT _cluster_time, _source_ts, _op")
    assert [tuple(row.values()) for row in marks] == [(TIME, datetime.fromtimestamp(TIME >> 32, UTC), "r")]
    last = made.last()
    assert (last["operation"], last["operationMetrics"]["numOutputRows"]) == ("WRITE", "50")
    assert made.table.recorded_batch() == 0


def test_rows_that_are_marked_are_not_seen(made: Made) -> None:
    """By no reader, whether few are marked or nearly all of a file; what is marked goes on being so when other rows of
    the file are changed."""
    rows = some(0, 3_000)
    streamed = [key for key in rows if key.endswith(("1", "5"))] + [f"k{n:04}" for n in range(1_000, 2_500)]
    file = hide(made.folder, written(made.path, rows), pa.array(["elsewhere", *streamed]))
    assert len(file.gone) == len(set(streamed))
    landed = made.append(0, [file])
    seen = {key: n for key, n in rows.items() if key not in set(streamed)}
    assert landed.inserted == len(seen) == file.visible
    assert made.rows() == seen
    made.merge(1, {"k0000": (-1, "u"), "k0002": (None, "d"), "k0001": (7, "c")}, [])
    del seen["k0002"]
    assert made.rows() == seen | {"k0000": -1, "k0001": 7}


def test_files_land_in_the_commit_of_the_events(made: Made) -> None:
    """Old rows are marked, events written, files named: one version."""
    made.append(0, [written(made.path, some(0, 10))])
    version = made.table.version()
    landed = made.merge(1, {"k0003": (33, "u"), "k0004": (None, "d")}, [written(made.path, some(50, 5))])
    assert made.table.version() == version + 1
    assert made.rows() == {
        k: n for k, n in (some(0, 10) | some(50, 5) | {"k0003": 33}).items() if k != "k0004"
    }
    assert (landed.inserted, landed.updated, landed.deleted) == (5, 1, 1)


def test_a_batch_of_which_nothing_is_left_is_recorded(made: Made) -> None:
    """Every READ gave way."""
    assert made.append(3, []).wrote
    assert made.table.recorded_batch() == 3


def test_a_batch_that_is_recorded_is_left_out(made: Made) -> None:
    """Its files are not named again."""
    file = written(made.path, some(0, 3))
    made.append(4, [file])
    made.table = made.opened()
    assert not made.append(4, [file]).wrote
    assert made.rows() == some(0, 3)


@pytest.mark.parametrize(
    "alteration",
    [
        "SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "ADD CONSTRAINT sane CHECK (n < 1000)",
    ],
)
def test_a_table_that_asks_more_of_its_writers_reads_the_files(made: Made, alteration: str) -> None:
    """Rows pass through Delta's own writer then, those that are marked left out; so a constraint holds for READs."""
    made.append(0, [written(made.path, some(0, 5))])
    assert made.table.takes_files()
    made.spark.sql(f"ALTER TABLE delta.`{made.path}` {alteration}")
    assert not made.table.takes_files()
    more = hide(made.folder, written(made.path, some(10, 5)), pa.array(["k0012"]))
    made.append(1, [more])
    left = {key: n for key, n in some(10, 5).items() if key != "k0012"}
    assert made.rows() == some(0, 5) | left
    made.merge(2, {"k0000": (9, "u")}, [written(made.path, some(20, 2))])
    assert made.rows() == some(0, 5) | left | some(20, 2) | {"k0000": 9}
    if "CHECK" in alteration:
        with pytest.raises(Exception, match="sane"):
            made.append(3, [written(made.path, some(1_000, 2))])


def test_a_column_that_has_to_have_a_value_is_checked_by_deltas_writer(made: Made) -> None:
    """NOT NULL, which somebody has made the table with: a READ without such a value is refused, and not added as it
    is."""
    made.append(0, [written(made.path, some(0, 3))])
    newest = max((made.path / "_delta_log").glob("*.json"))
    log = newest.parent.glob("*.json")
    (metadata,) = [
        a for file in log for a in map(json.loads, file.read_text().splitlines()) if "metaData" in a
    ]
    schema = metadata["metaData"]["schemaString"]
    nullable, required = (
        '"name":"n","type":"long","nullable":true',
        '"name":"n","type":"long","nullable":false',
    )
    assert nullable in schema
    metadata["metaData"]["schemaString"] = schema.replace(nullable, required)
    info = {"commitInfo": {"timestamp": 1, "operation": "by hand"}}
    by_hand = newest.with_name(f"{int(newest.stem) + 1:020}.json")
    by_hand.write_text("\n".join(map(json.dumps, (info, metadata))), encoding="utf-8")
    assert not made.table.takes_files()
    made.append(1, [written(made.path, some(10, 2))])
    assert made.rows() == some(0, 3) | some(10, 2)
    with pytest.raises(Exception, match=r"(?i)not.?null"):
        made.append(2, [written(made.path, {"k0020": None})])
    assert made.rows() == some(0, 3) | some(10, 2)


def test_columns_that_came_meanwhile_are_null(made: Made) -> None:
    """The file has what its table had when it was written."""
    file = written(made.path, some(0, 4))
    grown = TablePlan((*PLAN.columns, Column("later", Scalar("string"))))
    made.table.evolve(grown)
    made.append(0, [file])
    assert {row["later"] for row in tables.rows(made.path, "_key, later")} == {None}
    assert made.rows() == some(0, 4)


def test_where_somebody_was_quicker_keys_are_looked_for(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are no more proven new: the files are read, and merged."""
    file, added = written(made.path, some(0, 4)), Transaction.add

    def while_it_adds(transaction: Transaction, files: Sequence[NewFile]) -> tuple[int, int]:
        monkeypatch.undo()
        rows = [("k0001", -5, None, TIME, None, "c")]
        source = made.spark.createDataFrame(rows, state_schema(PLAN))
        source.write.format("delta").mode("append").save(str(made.path))
        return added(transaction, files)

    monkeypatch.setattr(Transaction, "add", while_it_adds)
    made.append(0, [file])
    assert {key: n for key, n in made.rows().items() if key != "k0001"} == {
        key: n for key, n in some(0, 4).items() if key != "k0001"
    }


def test_what_a_killed_run_has_left_goes(made: Made) -> None:
    """Files that no commit has added; those that the table has, or had, stay."""
    kept, gone = written(made.path, some(0, 4)), written(made.path, some(0, 2))
    made.append(0, [kept])
    made.spark.sql(f"DELETE FROM delta.`{made.path}` WHERE n >= 0")
    newer, old = written(made.path, some(10, 4), 2), written(made.path, some(10, 4), 3)
    os.utime(made.path / old.name, (0, 0))
    made.append(1, [newer])
    made.opened().clear_leftovers(made.folder)
    assert {file.name for file in made.path.glob("reads-*")} == {kept.name, newer.name, old.name}
    assert not (made.path / gone.name).exists()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=batches())
def test_rows_come_back_as_they_were_decoded(
    spark: SparkSession, tmp_path: Path, batch: tuple[TablePlan, list[bytes]]
) -> None:
    """Whatever their types: extremes of dates and decimals, nulls and emptiness at any depth."""
    plan, documents = batch
    rows = COLUMNS.decoder(plan).decode(b"".join(documents)).batch
    writer = FileWriter(TableFolder.on_disk(str(tmp_path)), COLUMNS.arrow_schema(plan), job_name(), 1, TIME)
    writer.add(rows)
    file = writer.close()
    assert file is not None
    found = read_files(spark, str(tmp_path), [file.name], COLUMNS.spark_schema(plan)).toArrow()
    assert repr(found.to_pylist()) == repr(rows.to_pylist())  # NaN is not equal to itself


def test_a_file_that_is_gone_is_never_named(made: Made) -> None:
    """It is looked for last of all; nothing is committed."""
    kept, gone = written(made.path, some(0, 4)), written(made.path, some(10, 4), 2)
    (made.path / gone.name).unlink()
    version = made.table.version()
    with pytest.raises(FileGone, match=gone.name):
        made.append(0, [kept, gone])
    assert made.table.version() == version


def test_a_run_that_does_not_know_that_it_is_over_adds_nothing(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one clears what it takes for left over. The commit of the first is a conflict, and then it looks for its
    file."""
    file, other, committing = written(made.path, some(0, 4)), made.opened(), Transaction._commit

    def while_it_commits(transaction: Transaction, version: int, operation: Any) -> None:
        monkeypatch.undo()
        monkeypatch.setattr("streaming.delta.transaction.size_in", lambda _, file: file.size_bytes)
        other.clear_leftovers(made.folder)
        committing(transaction, version, operation)

    monkeypatch.setattr(Transaction, "_commit", while_it_commits)
    with pytest.raises(FileGone, match="of 1 files"):
        made.append(0, [file])
    assert made.rows() == {}


def test_files_say_by_which_calendar_they_are(made: Made) -> None:
    """Else Spark before its fourth version takes dates of long ago for those of another calendar. Fields of documents
    within documents have dictionaries, keys have none."""
    plan = TablePlan((Column("ship", Struct((Column("city", Scalar("string")),))),))
    raw = [bson.encode({"_id": n, "ship": {"city": "Oslo"}}) for n in range(1_000)]
    writer = FileWriter(made.folder, COLUMNS.arrow_schema(plan), job_name(), 1, TIME)
    writer.add(COLUMNS.decoder(plan).decode(b"".join(raw)).batch)
    file = writer.close()
    assert file is not None
    footer = pq.read_metadata(made.path / file.name)
    assert footer.metadata[b"org.apache.spark.version"] == b"4.0.0"
    group = footer.row_group(0)
    dictionaries = {
        group.column(at).path_in_schema: group.column(at).has_dictionary_page
        for at in range(group.num_columns)
    }
    assert (dictionaries["ship.city"], dictionaries["_key"]) == (True, False)


def test_a_byte_that_a_disk_has_changed_is_noticed(made: Made) -> None:
    """By readers that verify the checksums of pages."""
    file = made.path / written(made.path, some(0, 2_000)).name
    content, pages = bytearray(file.read_bytes()), pq.read_metadata(file).row_group(0).column(0)
    content[pages.data_page_offset + pages.total_compressed_size - 1] ^= 1
    file.write_bytes(content)
    with pytest.raises(OSError, match="CRC"):
        pq.read_table(file, columns=["_key"], page_checksum_verification=True)


def test_what_a_job_has_left_goes(made: Made) -> None:
    """What others have written stays."""
    one, two = written(made.path, some(0, 4)), written(made.path, some(10, 4))
    discard_job(made.folder, one.name.rsplit("-", 2)[0])
    assert {file.name for file in made.path.glob("reads-*")} == {two.name}


def test_rows_of_files_are_those_that_are_seen(made: Made) -> None:
    """For whoever has to read them instead of naming them."""
    rows = some(0, 50)
    one = hide(made.folder, written(made.path, rows), pa.array(["k0007", "k0049"]))
    two = written(made.path, some(60, 3), 2)
    found = rows_of(made.spark, str(made.path), [one, two], state_schema(PLAN)).select("_key", F.col("n"))
    expected = {key: n for key, n in (rows | some(60, 3)).items() if key not in ("k0007", "k0049")}
    assert {row[0]: row[1] for row in found.collect()} == expected


def test_statistics_leave_files_out(made: Made) -> None:
    """A key looks into the one file that may hold it, however long keys are."""
    long = {f"{'x' * 40}{n}": n for n in range(10)}
    made.append(
        0,
        [
            written(made.path, some(0, 100)),
            written(made.path, some(200, 100), 2),
            written(made.path, long, 3),
        ],
    )
    log = [
        json.loads(line) for path in sorted((made.path / "_delta_log").glob("*.json")) for line in path.open()
    ]
    said = {line["add"]["path"]: json.loads(line["add"]["stats"]) for line in log if "add" in line}
    assert sorted(entry["numRecords"] for entry in said.values()) == [10, 100, 100]
    table = made.spark.read.format("delta").load(str(made.path))
    for key, n in (("k0250", 250), (f"{'x' * 40}7", 7)):
        found = table.where(F.col("_key") == key)
        assert [row["n"] for row in found.collect()] == [n]
        [met] = [path for path, entry in said.items() if bounds(entry)[0] <= key <= bounds(entry)[1]]
        assert {Path(row[0]).name for row in found.select(F.input_file_name()).collect()} == {met}


def bounds(statistics: dict[str, Any]) -> tuple[str, str]:
    low, high = statistics["minValues"], statistics["maxValues"]
    return low["_key"], high["_key"]
