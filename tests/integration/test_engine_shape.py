"""Rows in another shape than that of their documents, as a transform of Debezium's asks for it."""

from __future__ import annotations

import json

import pytest

from tests.support.engines import SECONDS, Lab, lab
from tests.support.tables import rows

__all__ = ["lab"]

pytestmark = pytest.mark.slow  # every start of an engine does

UNWRAP = {
    "transforms": "flat",
    "transforms.flat.type": "io.debezium.connector.mongodb.transforms.ExtractNewDocumentState",
    "transforms.flat.flatten.struct": "true",
    "transforms.flat.array.encoding": "document",
}


def shown(lab: Lab, *names: str) -> dict[object, tuple[object, ...]]:
    return {row["_id"]: tuple(row[name] for name in names) for row in lab.rows("orders")}


def test_rows_have_the_shape_that_a_transform_asks_for(lab: Lab) -> None:
    """READs and events alike, with rules about fields, which name them as they are in MongoDB. What tells events tells
    documents as they are. A table of another shape is read again by the next start, and every row is written."""
    lab.with_options("insert_insert", snapshot__mode="initial", delta__changelog__enabled=True)
    lab.options["field.exclude.list"] = f"{lab.database}.orders.ship.secret"
    orders = lab.collection("orders")
    orders.insert_many(
        [{"_id": n, "ship": {"city": "Graz", "secret": n}, "lines": [n, {"sku": "a"}]} for n in range(3)]
    )
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        engine.catch_up(SECONDS)
        assert lab.rows("orders")[0]["ship"] == {"city": "Graz"}
    lab.options |= UNWRAP
    with lab.running() as engine:
        (task,) = engine.wait("initial-2", SECONDS).tasks
        assert (task.rows, task.rewrite) == (3, True)
        orders.insert_one({"_id": 3, "ship": {"city": "Linz", "secret": 3}, "lines": []})
        orders.update_one({"_id": 1}, {"$set": {"ship.city": "Wels"}})
        orders.delete_one({"_id": 0})
        engine.catch_up(SECONDS)
        assert shown(lab, "ship_city", "lines__0", "lines__1_sku", "ship") == {
            1: ("Wels", 1, "a", None),
            2: ("Graz", 2, "a", None),
            3: ("Linz", None, None, None),
        }
        assert engine.verify(lab.name("orders")).equal
        request = engine.wait(engine.execute_snapshot(lab.name("orders"), reconcile=True), SECONDS)
        assert request.tasks[0].unchanged == 3
        engine.catch_up(SECONDS)
    told = rows(lab.folder / "warehouse" / "changelog" / lab.database / "orders")
    (inserted,) = [json.loads(row["after"]) for row in told if row["op"] == "c"]
    assert inserted == {"_id": 3, "ship": {"city": "Linz"}, "lines": []}


def test_fields_that_meet_under_one_name_stop_nothing_else(lab: Lab) -> None:
    """They are a document that cannot be processed: a dead letter, where these are let pass."""
    lab.with_options(snapshot__mode="no_data", event__processing__failure__handling__mode="skip")
    lab.options |= UNWRAP
    with lab.running() as engine:
        lab.collection("orders").insert_many([{"_id": 1, "a_b": 1, "a": {"b": 2}}, {"_id": 2, "a": {"b": 2}}])
        engine.catch_up(SECONDS)
        assert shown(lab, "a_b") == {2: (2,)}
    (letter,) = rows(lab.state / "dead_letters")
    assert "both come to 'a_b'" in letter["error"]
