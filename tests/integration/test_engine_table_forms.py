"""An engine whose tables are made as its configuration says, and what whoever reads them finds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bson import Decimal128
from deltalake import DeltaTable

from snapshotter.table import Table
from tests.support.engines import SECONDS, Lab, lab
from tests.support.shop_engine import invoke

__all__ = ["lab"]

PRICED = 200


def versions(lab: Lab, *options: str) -> list[dict[str, Any]]:
    found = invoke("table", "show", "-c", lab.config_file(), lab.name("orders"), "--json", *options)
    assert found.exit_code == 0, found.output
    listed: list[dict[str, Any]] = json.loads(found.stdout)["versions"]
    return listed


@pytest.mark.guard
def test_tables_for_any_reader_with_a_name_and_prices(lab: Lab) -> None:
    """First load, changes beside a backfill, deletes and a reconcile: nothing that a reader has to know comes of it.
    Prices have two digits, the catalogue has the table, and each version says which changes it has."""
    options = {
        "delta.reader": "any",
        "delta.table.properties.team": "shop",
        "delta.catalog.table": "{db}.{collection}",
    }
    lab.with_options(snapshot__mode="initial", **options)
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "price": Decimal128(f"{n}.99")} for n in range(PRICED)])
    try:
        with lab.running() as engine:
            engine.wait("initial", SECONDS)
            loaded = engine.catch_up(SECONDS)
            orders.update_many({"_id": {"$lt": 9}}, {"$set": {"price": Decimal128("0.5")}})
            orders.delete_many({"_id": {"$gte": PRICED - 20}})
            lab.signal("execute-snapshot", "again", data__collections=[lab.name("orders")], reconcile=True)
            engine.wait("again", SECONDS)
            reached = engine.catch_up(SECONDS)
            assert engine.verify(lab.name("orders")).equal
            named = lab.spark.table(lab.name("orders")).where("price = 0.5").count()
    finally:
        lab.spark.sql(f"DROP SCHEMA IF EXISTS {lab.database} CASCADE")
    assert named == 9
    table = DeltaTable(str(lab.table("orders")))
    rows = table.to_pyarrow_table(columns=["_id", "price"]).to_pylist()
    assert {row["_id"]: str(row["price"]) for row in rows} == {
        n: "0.50" if n < 9 else f"{n}.99" for n in range(PRICED - 20)
    }
    assert table.metadata().configuration["team"] == "shop"
    assert [field.name for field in table.schema().fields][-1] == "_key"

    (then,) = versions(lab, "--position", str(loaded))
    before = Table.of(lab.name("orders"), str(lab.folder / "warehouse")).rows(
        lab.spark, version=then["version"]
    )
    assert before.count() == PRICED
    (newest, *_) = versions(lab)
    assert newest["cluster_time"] <= reached.to_int()
    assert newest["version"] > then["version"]
