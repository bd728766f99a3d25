"""State that is gone beside tables that are not: what was deleted meanwhile goes, and nothing of anybody else's."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from snapshotter.reporting.status import Status
from tests.support.engines import SECONDS, Lab, lab

__all__ = ["lab"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]  # every start of an engine does


def prepared(lab: Lab) -> None:
    """Two collections loaded, and beside them the table of an engine that captures another database; then five
    documents are deleted, one is changed, and one collection is dropped, while no engine runs."""
    lab.with_options("cluster_time", snapshot__mode="initial")
    lab.collection("orders").insert_many([{"_id": n, "total": n} for n in range(20)])
    lab.collection("people").insert_one({"_id": 1})
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
    elsewhere = lab.table("people").parents[1] / "elsewhere" / "people"
    shutil.copytree(lab.table("people"), elsewhere)
    lab.collection("orders").delete_many({"_id": {"$lt": 5}})
    lab.collection("orders").update_one({"_id": 7}, {"$set": {"total": -7}})
    lab.collection("people").drop()


def assert_untouched_elsewhere(lab: Lab) -> None:
    log = lab.table("people").parents[1] / "elsewhere" / "people" / "_delta_log"
    assert len(list(log.glob("*.json"))) <= len(list((lab.table("people") / "_delta_log").glob("*.json"))) - 1


def remove_all(lab: Lab) -> None:
    shutil.rmtree(lab.state)


def remove_checkpoint(lab: Lab) -> None:
    shutil.rmtree(lab.state / "checkpoint")


@pytest.mark.parametrize(
    ("remove", "load"),
    [(remove_all, "initial"), (remove_checkpoint, "initial-2")],
    ids=["the whole state", "the checkpoint"],
)
def test_a_first_load_into_tables_with_rows_reconciles(
    lab: Lab, remove: Callable[[Lab], None], load: str
) -> None:
    """Rows of deleted documents go, and those of captured collections that are no more. The engine goes on from there,
    over another start too: what it saves is not taken for what was saved before."""
    prepared(lab)
    remove(lab)
    with lab.running() as engine:
        done = engine.wait(load, SECONDS)
        assert {t.namespace.collection: t.deleted for t in done.tasks} == {"orders": 5, "people": 1}
        lab.collection("orders").insert_one({"_id": 100})
        engine.catch_up(SECONDS)
    lab.assert_equal("orders")
    assert lab.rows("people") == []
    assert_untouched_elsewhere(lab)
    with lab.running() as engine:
        lab.collection("orders").delete_one({"_id": 100})
        engine.catch_up(SECONDS)
        newest = engine.engine.store.newest()
        assert newest is not None
        assert [r.id for r in newest.requests] == (["initial"] if load == "initial" else ["initial", load])
    lab.assert_equal("orders")


def test_a_removed_checkpoint_follows_the_mode(lab: Lab) -> None:
    """``no_data`` reads nothing then, as at a first start; that rows of before may be stale is said, with the command
    that cures it, until it is done."""
    prepared(lab)
    remove_checkpoint(lab)
    lab.with_options("cluster_time", snapshot__mode="no_data")
    with lab.running() as engine:
        lab.collection("orders").insert_one({"_id": 100})
        engine.catch_up(SECONDS)
        assert len(lab.rows("orders")) == 21
        engine.until("the warning", lambda: told(lab), SECONDS)
        assert f"execute-snapshot -c FILE --reconcile {lab.name('orders')}" in told(lab)[0]
        engine.wait(engine.execute_snapshot(lab.name("orders"), reconcile=True), SECONDS)
        lab.assert_equal("orders")
        engine.until("the warning to go", lambda: lab.name("orders") not in str(told(lab)), SECONDS)


def told(lab: Lab) -> tuple[str, ...]:
    """The warnings in the engine's status."""
    return Status.from_json((lab.state / "status.json").read_text()).warnings
