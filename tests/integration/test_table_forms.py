"""How new tables are made: properties of a configuration's, and tables for readers that know no deletion vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from streaming.delta.landed import Landed
from streaming.delta.new_files import FileWriter, NewFile, hide, job_name
from streaming.delta.row_writer import NOTHING_KNOWN, By, Known
from streaming.delta.state_table import StateTable
from streaming.delta.table_folder import TableFolder
from streaming.delta.table_properties import ALLOWED, SLOWER, USUAL, TableForm
from streaming.delta.upkeep_plan import Thresholds, due
from streaming.keys.ranges import key_ranges
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from streaming.namespaces import Namespace
from tests.support.state_tables import columns_table, state_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMESPACE = Namespace("shop", "orders")
PLAN = TablePlan((Column("n", Scalar("long")), Column("price", Scalar("decimal(38,2)"))))
GIVEN = {
    "delta.checkpointInterval": "7",
    "delta.logRetentionDuration": "interval 8 days",
    "delta.autoOptimize.autoCompact": "false",
    "team": "payments, and 'others'",
}
EVERYTHING = Known(rows=3, distinct=True, held=True, deletes=1)


def opened(spark: SparkSession, path: str, form: TableForm) -> StateTable:
    table = columns_table(spark, path, NAMESPACE, "engine-1", form=form)
    table.create(PLAN)
    return table


def land(spark: SparkSession, table: StateTable, batch: int, rows: dict[str, Any], **how: Any) -> Landed:
    """Land rows by key; None deletes."""
    schema = state_schema(PLAN)
    values = [
        {"_key": key, "n": n, "_op": "d" if n is None else "u", "_cluster_time": batch}
        for key, n in rows.items()
    ]
    source = spark.createDataFrame([tuple(one.get(name) for name in schema.names) for one in values], schema)
    how = {"how": "merge", "known": EVERYTHING, **how}
    return table.land(source, batch_id=batch, metadata={}, key_ranges=key_ranges(rows), **how)


def numbers(path: str) -> dict[str, int]:
    """Read by delta-rs' own reader of files, which refuses what it does not know."""
    found = DeltaTable(path).to_pyarrow_table(columns=["_key", "n"]).to_pylist()
    assert len(found) == len({row["_key"] for row in found})
    return {row["_key"]: row["n"] for row in found}


def test_a_table_has_the_properties_that_are_configured(spark: SparkSession, tmp_path: Path) -> None:
    """Delta takes each that is allowed, with values as they are checked; ours are beside them."""
    path = str(tmp_path / "t")
    table = opened(spark, path, TableForm(properties=GIVEN))
    land(spark, table, 0, {"a": 1, "b": 2})
    assert table.written_by is not None
    assert table.written_by.by is By.UPSERT
    found = DeltaTable(path).metadata().configuration
    assert found.items() >= {**GIVEN, "delta.enableDeletionVectors": "true"}.items()
    assert found["snapshotter.namespace"] == "shop.orders"
    shorter = "'delta.logRetentionDuration' = 'interval 6 days'"
    with pytest.raises(Exception, match=r"logRetentionDuration.* needs to be greater"):
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({shorter})")


def test_delta_knows_all_that_are_allowed(spark: SparkSession) -> None:
    """By its own list, in the version that is pinned, and takes values that pass for ours."""
    values = "true", "1", "interval 7 days", "v2"
    given = {
        name: next(value for value in values if pattern.fullmatch(value)) for name, pattern in ALLOWED.items()
    }
    jvm = spark._jvm
    assert jvm is not None
    configs = getattr(jvm.org.apache.spark.sql.delta, "DeltaConfigs$").__getattr__("MODULE$")
    utils = jvm.org.apache.spark.api.python.PythonUtils
    checked = configs.validateConfigurations(utils.toScalaMap(given))
    assert {entry: checked.apply(entry) for entry in given} == given
    assert ALLOWED.keys() >= SLOWER


@pytest.mark.parametrize("name", sorted(SLOWER))
def test_what_delta_alone_serves_is_written_by_it(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """And all the same it lands."""
    path = str(tmp_path / "t")
    value = "v2" if name.endswith("Policy") else "true"
    table = opened(spark, path, TableForm(properties={name: value}))
    land(spark, table, 0, {"a": 1, "b": 2})
    land(spark, table, 1, {"a": 10, "b": None})
    assert table.written_by is not None
    assert (table.written_by.by, table.written_by.slower) == (By.MERGE, True)
    assert [row["n"] for row in spark.read.format("delta").load(path).collect()] == [10]


def test_any_reader_reads_a_table_without_deletion_vectors(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever has been landed in it, and in what way: no row is ever marked, no reader needs a feature. A landing says
    how much of the new file it has copied for that, where the usual form copies nothing."""
    path = str(tmp_path / "any")
    table = opened(spark, path, TableForm(vectors=False))
    land(spark, table, 0, {f"k{n:03}": n for n in range(100)}, how="append")
    assert table.written_by is not None
    assert table.written_by.by is By.APPEND
    before = DeltaTable(path).file_uris()
    done = land(spark, table, 1, {"k001": -1, "k002": None, "new": 5})
    new = {*DeltaTable(path).file_uris()} - {*before}
    assert done.copied_bytes + done.changed_bytes == sum(Path(file).stat().st_size for file in new)
    assert done.copied_bytes > 10 * done.changed_bytes
    assert (table.written_by.by, table.written_by.slower) == (By.MERGE, False)  # it was asked for
    assert "no deletion vectors" in table.written_by.reason
    wanted = {f"k{n:03}": n for n in range(100) if n != 2} | {"k001": -1, "new": 5}
    assert numbers(path) == wanted
    protocol = DeltaTable(path).protocol()
    assert (protocol.min_reader_version, protocol.reader_features) == (1, None)

    usual = opened(spark, str(tmp_path / "usual"), USUAL)
    land(spark, usual, 0, {f"k{n:03}": n for n in range(100)}, how="append")
    for batch, known in enumerate((EVERYTHING, NOTHING_KNOWN), 1):  # by ourselves, and by Delta's MERGE
        assert land(spark, usual, batch, {"k001": -batch, "k002": None}, known=known).copied_bytes == 0
    with pytest.raises(Exception, match=r"(?i)deletion ?vector"):
        numbers(str(tmp_path / "usual"))


def written(table: StateTable, keys: list[str]) -> NewFile:
    """READs of these keys as a file of the table's."""
    columns = COLUMNS.arrow_schema(PLAN)
    writer = FileWriter(TableFolder.on_disk(table.path), columns, job_name(), 0, 1 << 32)
    rows: list[dict[str, Any]] = [{"_key": key, "n": at, "price": None} for at, key in enumerate(keys)]
    writer.add(pa.RecordBatch.from_pylist(rows, columns))
    made = writer.close()
    assert made is not None
    return made


def test_reads_are_added_as_files_there_too(spark: SparkSession, tmp_path: Path) -> None:
    """Unless some of their rows are not to be seen: these are read, and written without them."""
    path = str(tmp_path / "any")
    table = opened(spark, path, TableForm(vectors=False))
    assert table.takes_files()
    assert not table.marks_rows()
    whole = written(table, ["a", "b"])
    spread = {"metadata": {}, "how": "append"}
    table.land(None, batch_id=0, key_ranges=(("a", "b"),), new=[whole], **spread)
    assert whole.name in {Path(file).name for file in DeltaTable(path).file_uris()}
    some = written(table, ["c", "d"])
    hidden = hide(TableFolder.on_disk(path), some, pa.array(["d"]))
    table.land(None, batch_id=1, key_ranges=(("c", "d"),), new=[hidden], **spread)
    assert some.name not in {Path(file).name for file in DeltaTable(path).file_uris()}
    assert set(numbers(path)) == {"a", "b", "c"}


def test_its_files_are_kept_in_order(spark: SparkSession, tmp_path: Path) -> None:
    """Upkeep puts small ones together, as elsewhere."""
    path = str(tmp_path / "any")
    table = opened(spark, path, TableForm(vectors=False))
    for batch in range(4):
        land(spark, table, batch, {f"k{batch}": batch}, how="append")
    limits = replace(Thresholds(), files=4)
    look = table.upkeep.look(limits)
    assert look is not None
    assert look.lacks is None
    assert look.files is not None
    step = due(look.files, limits, 1 << 40, 0.0)
    assert step is not None
    done = table.upkeep.rewrite(step)
    assert done is not None
    assert (done.files, done.made) == (4, 1)
    assert len(DeltaTable(path).file_uris()) == 1
    assert numbers(path) == {f"k{n}": n for n in range(4)}
    land(spark, table, 4, {"k0": 10})
    assert numbers(path)["k0"] == 10
