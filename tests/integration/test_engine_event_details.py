"""Columns of state tables that say of an event what only the event knows: its transaction, and what it has changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.engines import SECONDS, Lab, lab

__all__ = ["lab"]

pytestmark = pytest.mark.slow  # every start of an engine does

FIELDS = (
    *("transaction.id", "transaction.total_order", "data_collection_order", "source.lsid", "txnNumber"),
    *("source.wallTime", "updateDescription.removedFields", "updateDescription.updatedFields:changed"),
    "updateDescription.truncatedArrays",
)
TRANSACTION = (
    *("__transaction_id", "__transaction_total_order", "__data_collection_order", "__source_lsid"),
    "__txnNumber",
)
UPDATE = ("__updateDescription_removedFields", "__changed", "__updateDescription_truncatedArrays")
NONE = (None, None, None)
LONG = ["a line of some length"] * 20
"""Of a short list MongoDB tells the new value."""


@pytest.mark.parametrize("told", [False, True], ids=["tables alone", "events are told"])
def test_rows_say_what_their_events_said(lab: Lab, told: bool) -> None:
    """Of the newest event of each document; null in a row that was read and, outside of transactions, of these. A soft
    delete has those of its event, and what it does not say is null; a table is equal to its collection all the same."""
    unwrap = {
        "type": "io.debezium.connector.mongodb.transforms.ExtractNewDocumentState",
        "delete.tombstone.handling.mode": "rewrite",
        "add.fields": ",".join(FIELDS),
    }
    lab.with_options(
        "cluster_time", snapshot__mode="initial", transforms="flat", delta__changelog__enabled=told
    )
    lab.options |= {f"transforms.flat.{name}": value for name, value in unwrap.items()}
    orders, stock = lab.collection("orders"), lab.collection("stock")
    orders.insert_many([{"_id": n, "v": n, "old": 1, "list": LONG} for n in range(6)])
    stock.insert_one({"_id": "a", "n": 1})
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        orders.update_one({"_id": 1}, {"$set": {"v": 10}})
        orders.update_one({"_id": 1}, {"$set": {"v": 11}, "$unset": {"old": 1}})
        orders.update_one({"_id": 2}, [{"$set": {"list": {"$slice": ["$list", 4]}}}])
        orders.replace_one({"_id": 3}, {"v": 30})
        with lab.client.start_session() as session, session.start_transaction():
            orders.update_one({"_id": 4}, {"$set": {"v": 40}}, session=session)
            stock.update_one({"_id": "a"}, {"$set": {"n": 2}}, session=session)
            orders.delete_one({"_id": 5}, session=session)
        engine.catch_up(SECONDS)
        rows: dict[Any, dict[str, Any]] = {row["_id"]: row for row in lab.rows("orders")}
        of_updates = {key: tuple(row[name] for name in UPDATE) for key, row in rows.items()}
        assert of_updates == {
            0: NONE,
            1: (["old"], '{"v": 11}', None),
            2: (None, "{}", [{"field": "list", "size": 4}]),
            3: NONE,
            4: (None, '{"v": 40}', None),
            5: NONE,
        }
        assert {key for key, row in rows.items() if row["__transaction_id"]} == {4, 5}
        assert all(rows[key][name] is None for key in (0, 1, 2, 3) for name in TRANSACTION)
        (there,) = lab.rows("stock")
        within = [rows[4], there, rows[5]]
        assert len({row["__transaction_id"] for row in within}) == 1
        places = [(row["__transaction_total_order"], row["__data_collection_order"]) for row in within]
        assert places == [(1, 1), (2, 1), (3, 2)]
        assert all(json.loads(row["__source_lsid"])["id"] and row["__txnNumber"] for row in within)
        assert all((row["__source_wallTime"] is None) is (key == 0) for key, row in rows.items())
        assert (rows[5]["_deleted"], rows[5]["_op"]) == (True, "d")
        done = engine.wait(engine.execute_snapshot(lab.name("orders"), reconcile=True), SECONDS)
        assert (done.tasks[0].unchanged, done.tasks[0].deleted) == (5, 0)
        result = engine.verify(lab.name("orders"))
        assert result.equal, str(result)
        assert {row["_id"]: row for row in lab.rows("orders")} == rows
