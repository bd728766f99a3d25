"""Which tables are read without Spark, by what their logs say; and why the others are not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from snapshotter.verification import small_table
from snapshotter.verification.collection import Source
from snapshotter.verification.small_table import NeedsSpark, look
from snapshotter.verification.verify import _sides
from streaming.layouts.columns.layout import COLUMNS
from streaming.namespaces import Namespace

ORDERS = Namespace("shop", "orders")


def said(**altered: Any) -> dict[str, Any]:
    """What a checksum file says of a version."""
    fields = [{"name": "_key", "type": "string"}, {"name": "_deleted", "type": "boolean"}]
    return {
        "tableSizeBytes": 7_051,
        "protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]},
        "metadata": {
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "configuration": {"snapshotter.plan": "{}"},
        },
        **altered,
    }


def written(folder: Path, checksum: object, version: int = 3) -> Path:
    """A table whose newest version is this one."""
    table = folder / "state" / "shop" / "orders"
    log = table / "_delta_log"
    log.mkdir(parents=True)
    for number in range(version + 1):
        (log / f"{number:020d}.json").touch()
        (log / f".{number:020d}.json.crc").touch()
    text = checksum if isinstance(checksum, str) else json.dumps(checksum)
    (log / f"{version:020d}.crc").write_text(text)
    return table


def test_the_newest_version_is_looked_at(tmp_path: Path) -> None:
    """By its number, its properties, and whether rows may be marked; also at a ``file:`` address."""
    table = written(tmp_path, said(), version=12)
    found = look(table.as_uri())
    assert found is not None
    assert found == look(str(table))
    assert (found.folder, found.version, found.marked) == (table, 12, True)
    assert found.properties == {"snapshotter.plan": "{}"}


def test_rows_are_marked_by_a_column_of_ours(tmp_path: Path) -> None:
    """Not by another one of that name, or by none."""
    fields = [{"name": "_deleted", "type": "string"}]
    metadata = {"schemaString": json.dumps({"fields": fields}), "configuration": {}}
    found = look(str(written(tmp_path, said(metadata=metadata))))
    assert found is not None
    assert not found.marked


def test_there_is_no_table_where_others_lie(tmp_path: Path) -> None:
    """Where none ever lay, Spark may know of them elsewhere. A log without a version is none."""
    table = tmp_path / "state" / "shop" / "orders"
    with pytest.raises(NeedsSpark, match=r"no folder .*state on this machine"):
        look(str(table))
    table.parent.mkdir(parents=True)
    assert look(str(table)) is None
    (table / "_delta_log" / "_staged_commits").mkdir(parents=True)
    (table / "_delta_log" / ".0.json.tmp").touch()
    assert look(str(table)) is None


def _protocol(reader: int, *features: str) -> dict[str, Any]:
    return said(protocol={"minReaderVersion": reader, "readerFeatures": [*features]})


UNFIT: dict[str, tuple[object, str]] = {
    "column mapping of old": (_protocol(2), "left to Delta's own reader: columnMapping"),
    "features": (_protocol(3, "deletionVectors", "variantType", "typeWidening"), "typeWidening, variantType"),
    "a protocol to come": (_protocol(4), "version 4 of its protocol"),
    "many bytes": (said(tableSizeBytes=65 * 2**20), "it has 65 MB, and Spark is quicker from 64 MB on"),
    "half a file": ('{"tableSizeBytes":', "checksum of version 3 is no JSON"),
    "a list": ([], "checksum of version 3 is no JSON object"),
    "no columns": (said(metadata={"configuration": {}}), r"cannot be read: KeyError\('schemaString'\)"),
    "a size that is none": (said(tableSizeBytes=None), "cannot be read: TypeError"),
}


@pytest.mark.parametrize(("checksum", "why"), UNFIT.values(), ids=UNFIT)
def test_what_is_left_to_spark(tmp_path: Path, checksum: object, why: str) -> None:
    """It is said what it is."""
    with pytest.raises(NeedsSpark, match=why):
        look(str(written(tmp_path, checksum)))


def test_a_path_that_is_read_in_two_ways_is_left_to_spark(tmp_path: Path) -> None:
    """DuckDB's extension would decode it, and look into another folder."""
    with pytest.raises(NeedsSpark, match="percent sign"):
        look(str(written(tmp_path / "lake%20one", said())))


@pytest.mark.parametrize("protocol", [{"minReaderVersion": 1}, _protocol(3)["protocol"]])
def test_tables_for_any_reader_are_read(tmp_path: Path, protocol: dict[str, Any]) -> None:
    """With no feature, or with none that a reader has to know."""
    assert look(str(written(tmp_path, said(protocol=protocol)))) is not None


@pytest.mark.parametrize("newest", [f"{4:020d}.json", f"{4:020d}.checkpoint.parquet"])
def test_a_version_without_a_checksum_is_left_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newest: str
) -> None:
    """That of an older one says nothing of it."""
    monkeypatch.setattr(small_table, "_CHECKSUM_SECONDS", 0.0)
    table = written(tmp_path, said())
    (table / "_delta_log" / newest).touch()
    with pytest.raises(NeedsSpark, match="version 4 has no checksum"):
        look(str(table))


def test_object_stores_are_left_to_spark() -> None:
    """No package would help with them, so none is named."""
    with pytest.raises(NeedsSpark, match="lies in no folder of this machine"):
        _sides(None, Source("", ORDERS, None), "s3a://lake/state/shop/orders", COLUMNS)


def test_without_the_packages_it_is_said_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra is named."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.delitem(sys.modules, "snapshotter.verification.by_duckdb", raising=False)
    with pytest.raises(NeedsSpark, match=r"pip install 'snapshotter\[verify\]'"):
        _sides(None, Source("", ORDERS, None), str(written(tmp_path, said())), COLUMNS)
