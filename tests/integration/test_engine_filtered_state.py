"""State tables that are filtered (docs/filtered.md): stages of the user's own act on everything but signals."""

from __future__ import annotations

import json

import pytest

from tests.support.engines import SECONDS, Lab, lab
from tests.support.tables import rows

__all__ = ["lab"]

pytestmark = pytest.mark.slow  # every start of an engine does


@pytest.mark.parametrize(
    ("strategy", "order"), [("insert_insert", "user_only"), ("insert_delete", "internal_first")]
)
def test_stages_act_on_tables_and_changelogs(lab: Lab, strategy: str, order: str) -> None:
    """Windows open and close all the same, though no stage would let a watermark through. What is left out supersedes
    no READ, and a snapshot brings it."""
    stages = [{"$match": {"fullDocument.kept": True}}, {"$unset": "fullDocument.secret"}]
    lab.with_options(
        strategy,
        snapshot__mode="no_data",
        skipped__operations="d",
        cursor__pipeline=json.dumps(stages),
        cursor__pipeline__order=order,
        delta__state__filtered=True,
        delta__changelog__enabled=True,
    )
    orders = lab.collection("orders")
    with lab.running() as engine:
        orders.insert_many([{"_id": n, "kept": n % 2 == 0, "secret": n} for n in range(6)])
        orders.update_one({"_id": 1}, {"$set": {"kept": True}})
        orders.update_one({"_id": 2}, {"$set": {"kept": False}})
        orders.delete_one({"_id": 4})
        engine.catch_up(SECONDS)
        landed = {row["_id"]: (row["kept"], row.get("secret")) for row in lab.rows("orders")}
        assert landed == dict.fromkeys((0, 1, 2, 4), (True, None))
        request = engine.wait(engine.execute_snapshot(lab.name("orders"), reconcile=True), SECONDS)
        assert (request.tasks[0].rows, request.tasks[0].deleted) == (5, 1)
        read = {row["_id"]: (row["kept"], row["secret"]) for row in lab.rows("orders")}
        assert read == {0: (True, 0), 1: (True, 1), 2: (False, 2), 3: (False, 3), 5: (False, 5)}
        said = "cursor.pipeline, skipped.operations with delta.state.filtered"
        assert any(said in warning for warning in lab.status().warnings)
    told = rows(lab.folder / "warehouse" / "changelog" / lab.database / "orders")
    streamed = [(row["op"], row["key"]) for row in told if row["op"] != "r"]
    assert sorted(streamed) == [("c", "0"), ("c", "2"), ("c", "4"), ("u", "1")]
