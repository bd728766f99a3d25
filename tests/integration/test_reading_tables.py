"""`docs/reading-tables.md` says what is, and each of its lines reads a table that the landing code wrote."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bson
import pyarrow as pa
import pytest
from bson import Decimal128
from pyspark.sql import functions as F

from snapshotter.table import Table
from streaming.delta.further_columns import FurtherColumns
from streaming.delta.table_properties import USUAL, TableForm
from streaming.keys.ranges import key_ranges
from streaming.layouts.columns.decimals import SURE
from streaming.layouts.columns.layout import COLUMNS
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from tests.support.state_tables import columns_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "reading-tables.md"
WRITTEN = "/lake/state/shop/orders"
_BLOCK = re.compile(r"^```(python|sql)\n(?:(?:#|--) ([^\n]+)\n)?(.*?)^```$", re.MULTILINE | re.DOTALL)

MADE, CHANGED = ClusterTime(1_795_657_866, 21), ClusterTime(1_795_657_900, 3)
DOCUMENTS: dict[str, dict[str, Any]] = {
    "a": {
        "_id": 1,
        "total": Decimal128("19.99"),
        "to": {"city": "Malmö"},
        "at": datetime(2026, 11, 26, tzinfo=UTC),
    },
    "b": {"_id": 2, "total": "a gift", "to": {"city": "Lund"}, "at": datetime(2026, 11, 27, tzinfo=UTC)},
    "c": {
        "_id": 3,
        "total": Decimal128("5"),
        "to": {"city": "Ystad"},
        "at": datetime(2026, 11, 27, tzinfo=UTC),
    },
}
NEWER = {**DOCUMENTS["a"], "total": Decimal128("25.50")}


@dataclass(frozen=True)
class Line:
    """A block of the page: under which heading, in what language, what its first line calls it, and its text."""

    heading: str
    language: str
    about: str
    text: str


def lines() -> list[Line]:
    found = []
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading = section.split("\n", 1)[0]
        found += [Line(heading, m[1], m[2] or "all rows", m[3]) for m in _BLOCK.finditer(section)]
    return found


LINES = lines()


@pytest.fixture(scope="module", params=[USUAL, TableForm(vectors=False)], ids=["vectors", "any"])
def table(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: Any
) -> tuple[str, TableForm]:
    """Of three documents, in version 1; in version 2 one of them is changed, one deleted, and its row stays."""
    path, form = str(tmp_path_factory.mktemp("lake") / "orders"), request.param
    plan = COLUMNS.observe(bson.encode(DOCUMENTS["a"]) * SURE)
    soft = FurtherColumns(soft=True)
    state = columns_table(spark, path, Namespace("shop", "orders"), "e", further=soft, form=form)
    state.create(plan)
    versions: list[tuple[dict[str, dict[str, Any] | None], ClusterTime]] = [
        ({**DOCUMENTS}, MADE),
        ({"a": NEWER, "c": None}, CHANGED),
    ]
    for batch, (given, position) in enumerate(versions):
        raws = [None if one is None else bson.encode(one) for one in given.values()]
        rows = COLUMNS.decoder(plan).decode_documents([*given], raws).batch
        source = spark.createDataFrame(pa.Table.from_batches([rows])).withColumns(
            {
                "_cluster_time": F.lit(position.to_int()),
                "_source_ts": F.timestamp_seconds(F.lit(position.t)),
                "_op": F.when(F.col("_id").isNull(), "d").otherwise("u"),
            }
        )
        state.land(source, batch_id=batch, metadata={}, how="merge", key_ranges=key_ranges(given))
    return path, form


def by_spark(spark: SparkSession, path: str) -> Callable[[str], Any]:
    return spark.sql


def by_duckdb(spark: SparkSession, path: str) -> Callable[[str], Any]:
    lake = ran(spark, path, next(line for line in LINES if line.heading == "DuckDB"))["lake"]
    return lambda text: lake.sql(text).to_arrow_table()


def by_delta_rs(spark: SparkSession, path: str) -> Callable[[str], Any]:
    lake = ran(spark, path, next(line for line in LINES if line.heading == "delta-rs"))["lake"]
    return lambda text: lake.execute(text).read_all()


PACKAGES = {"DuckDB": "duckdb_extension_delta", "Polars": "polars"}
READERS = {"Spark": by_spark, "DuckDB": by_duckdb, "delta-rs": by_delta_rs}


def ran(spark: SparkSession, path: str, line: Line) -> dict[str, Any]:
    """What the names in a block of Python are, once it has run."""
    names: dict[str, Any] = {"spark": spark}
    exec(compile(line.text.replace(WRITTEN, path), f"{PAGE.name}: {line.heading}", "exec"), names)
    return names


def rows_of(found: Any) -> list[tuple[Any, ...]]:
    """Rows of a frame of whatever reader, by id; decimals and times as texts."""
    if hasattr(found, "collect"):
        found = [tuple(row) for row in found.collect()]
    elif hasattr(found, "rows"):
        found = found.rows()
    elif not isinstance(found, list):
        found = [tuple(row.values()) for row in pa.table(found).to_pylist()]
    return sorted(tuple(map(_plain, row)) for row in found)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        value = value.astimezone(UTC) if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return value.isoformat()
    return value if value is None or isinstance(value, int) else str(value)


def at(position: ClusterTime) -> tuple[str, str, str]:
    text = datetime.fromtimestamp(position.t, UTC).isoformat()
    return text, text, str(position)


EXPECTED = {
    "all rows": [(1, "25.50"), (2, None), (3, "5.00")],
    "for any reader": [(1, "25.50"), (2, None), (3, "5.00")],
    "positions": [(1, *at(CHANGED)), (2, *at(MADE)), (3, *at(CHANGED))],
    "rescued": [(2, "a gift")],
    "live rows, with soft deletes": [(1, "25.50"), (2, None)],
    "an older version": [(1, "19.99"), (2, None), (3, "5.00")],
}


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.heading}: {line.about}")
def test_each_line_reads_the_table(spark: SparkSession, table: tuple[str, TableForm], line: Line) -> None:
    """Of Spark, DuckDB, delta-rs and Polars; with deletion vectors all but what the page says cannot."""
    for package in ("duckdb_extension_delta", "polars"):
        if (
            package in line.text
            or line.heading == {"duckdb_extension_delta": "DuckDB", "polars": "Polars"}[package]
        ):
            pytest.importorskip(package)
    path, form = table

    def read() -> Any:
        if line.language == "python":
            return ran(spark, path, line)["rows"]
        return READERS[line.heading](spark, path)(line.text.replace(WRITTEN, path))

    if line.about == "for any reader" and form.vectors:
        with pytest.raises(Exception, match=r"(?i)deletion ?vector"):
            read()
        return
    assert rows_of(read()) == EXPECTED[line.about]


def test_every_reader_has_every_line() -> None:
    """But for what delta-rs has no function for, and for what is its own."""
    found = {line.heading: {one.about for one in LINES if one.heading == line.heading} for line in LINES}
    usual = EXPECTED.keys() - {"for any reader"}
    delta_rs = EXPECTED.keys() - {"rescued"}
    assert found == {"Spark": usual, "DuckDB": usual, "delta-rs": delta_rs, "Polars": usual}


def test_a_program_reads_positions_and_versions(spark: SparkSession, table: tuple[str, TableForm]) -> None:
    """By `Table.rows`: live rows, with what their positions say."""
    mine = Table("shop.orders", table[0], lambda: spark)
    found = mine.rows(positions=True).select("_id", "_source_ts", "_position_at", "_position")
    assert rows_of(found) == [(1, *at(CHANGED)), (2, *at(MADE))]
    assert rows_of(mine.rows(version=1).select("_id", "total")) == EXPECTED["an older version"]
