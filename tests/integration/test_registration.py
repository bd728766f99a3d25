"""State tables in Spark's catalogue: `delta.catalog.table`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from snapshotter.landing.registration import Registration
from snapshotter.landing.tables import Tables
from snapshotter.testing.processes import wait_until
from streaming.delta.catalog_names import CatalogTemplate
from streaming.delta.table_properties import TableForm
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from streaming.namespaces import Namespace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAN = TablePlan((Column("n", Scalar("long")),))
ORDERS, ALIKE = Namespace("reg-shop", "orders.new"), Namespace("reg_shop", "orders_new")
PEOPLE = Namespace("reg_shop", "people")
NAME = "reg_shop.orders_new"


class Away(Registration):
    """In a catalogue that is not ``back`` yet."""

    def __init__(self, *of: Any, **more: Any) -> None:
        super().__init__(*of, **more)
        self.tries, self.back = 0, threading.Event()

    def _register(self, parts: tuple[str, ...], path: str) -> str | None:
        self.tries += 1
        if not self.back.is_set():
            raise ConnectionError("no metastore")
        return super()._register(parts, path)


@pytest.fixture
def catalogue(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark's, without this test's schema, before and after it."""
    spark.sql("DROP SCHEMA IF EXISTS reg_shop CASCADE")
    yield spark
    spark.sql("DROP SCHEMA IF EXISTS reg_shop CASCADE")


def tables(spark: SparkSession, warehouse: Path, template: str = "{db}.{collection}") -> Tables:
    """Of an engine with this template."""
    form = TableForm(catalog=CatalogTemplate(template))
    return Tables(spark, str(warehouse), lambda: "snapshotter:e:1", COLUMNS, lambda _: PLAN, form=form)


def test_a_table_is_found_by_its_name(catalogue: SparkSession, tmp_path: Path) -> None:
    """From when it is made; in another catalogue from when it is opened. A second time nothing happens."""
    opened = tables(catalogue, tmp_path)
    opened.of(ORDERS)
    assert not catalogue.catalog.tableExists(NAME)
    opened.plan(ORDERS)
    assert catalogue.table(NAME).columns[0] == "n"
    detail = catalogue.sql(f"DESCRIBE DETAIL {NAME}").first()
    assert detail is not None
    assert detail["properties"]["snapshotter.namespace"] == str(ORDERS)
    catalogue.sql(f"DROP TABLE {NAME}")
    with capture_logs() as logged:
        tables(catalogue, tmp_path).of(ORDERS)
        again = tables(catalogue, tmp_path)
        again.of(ORDERS)
        again.plan(ORDERS)
    assert catalogue.catalog.tableExists(NAME)
    assert [line["event"] for line in logged] == ["a table is in the catalogue"]
    catalogue.catalog.refreshTable(NAME)
    opened.of(ORDERS).grow(TablePlan((Column("m", Scalar("long")),)))
    assert {"n", "m"} <= {*catalogue.table(NAME).columns}


def test_a_name_that_somebody_has_is_left_to_him(catalogue: SparkSession, tmp_path: Path) -> None:
    """A table elsewhere, a view, a collection whose name comes to the same: it is said, once, and the table is made."""
    catalogue.sql("CREATE SCHEMA reg_shop")
    catalogue.range(3).write.format("delta").save(str(tmp_path / "other"))
    catalogue.catalog.createTable(NAME, str(tmp_path / "other"), "delta")
    catalogue.sql("CREATE VIEW reg_shop.people AS SELECT 1 AS one")
    with capture_logs() as logged:
        opened = tables(catalogue, tmp_path / "lake")
        assert opened.plan(ORDERS) == opened.plan(ALIKE) == PLAN
        opened.plan(ORDERS)
        opened.plan(PEOPLE)
    warned = [line for line in logged if line["event"] == "a table is not in the catalogue"]
    assert [line["collection"] for line in warned] == [str(ORDERS), str(ALIKE), str(PEOPLE)]
    assert str(tmp_path / "other") in warned[0]["why"]
    assert "delta.catalog.table" in warned[0]["next"]
    assert catalogue.table(NAME).count() == 3


def test_a_catalogue_that_is_not_there_keeps_nothing_from_landing(
    catalogue: SparkSession, tmp_path: Path
) -> None:
    """It is said, and the table is made."""
    with capture_logs() as logged:
        assert tables(catalogue, tmp_path, "nowhere.{db}.{collection}").plan(ORDERS) == PLAN
    (warned,) = [line for line in logged if line["log_level"] == "warning"]
    assert warned["name"] == "nowhere.reg_shop.orders_new"
    assert "nowhere" in warned["why"]


def test_a_catalogue_that_comes_back_gets_the_tables(catalogue: SparkSession, tmp_path: Path) -> None:
    """What it would not take is tried again after a while, and was said once."""
    catalogue.sql("CREATE SCHEMA reg_shop")
    form = TableForm(catalog=CatalogTemplate("{db}.{collection}"))
    opened = Tables(catalogue, str(tmp_path), lambda: "snapshotter:e:1", COLUMNS, lambda _: PLAN, form=form)
    away = Away(catalogue, CatalogTemplate("{db}.{collection}"), again=0.05)
    opened._registration = away
    with capture_logs() as logged:
        opened.plan(ORDERS)
        wait_until(lambda: away.tries >= 3, what="it to be tried again")
        assert not catalogue.catalog.tableExists(NAME)
        away.back.set()
        wait_until(lambda: catalogue.catalog.tableExists(NAME), what="the table in the catalogue")
    warned = [line for line in logged if line["log_level"] == "warning"]
    assert [line["event"] for line in warned] == ["a table is not in the catalogue"]
    assert "tried again every 0.05 s" in warned[0]["next"]
