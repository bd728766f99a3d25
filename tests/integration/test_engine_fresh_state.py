"""State that is gone beside tables that are not: what was deleted meanwhile goes, and nothing of anybody else's."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from snapshotter.reporting.status import Status
from snapshotter.state.generation import Cause
from snapshotter.testing.mongodb import MongoDeployment
from tests.support.engines import SECONDS, Gate, Lab, Reads, lab, reads
from tests.support.oplogs import forget, forgetful

__all__ = ["forgetful", "lab", "reads"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]  # every start of an engine does


def prepared(lab: Lab) -> None:
    """Two collections loaded, and changed once more; beside them the table of an engine that captures another database.
    Then five documents are deleted, one is changed, and one collection is dropped, while no engine runs."""
    lab.with_options("cluster_time", snapshot__mode="initial")
    lab.collection("orders").insert_many([{"_id": n, "total": n} for n in range(20)])
    lab.collection("people").insert_one({"_id": 1})
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        lab.collection("orders").update_one({"_id": 8}, {"$set": {"total": -8}})
        engine.catch_up(SECONDS)
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


def begin_now(lab: Lab) -> None:
    """The whole state is gone, and an option says that what the tables tell is not wanted."""
    remove_all(lab)
    lab.options |= {"engine.position.start": "now"}


@pytest.mark.parametrize("remove", [remove_all, remove_checkpoint], ids=["the whole state", "the checkpoint"])
def test_an_engine_goes_on_where_its_folder_is_gone(
    lab: Lab, reads: Reads, remove: Callable[[Lab], None]
) -> None:
    """Nothing is read: deletes and a drop of the time when no engine ran come from the stream, from the batch on that
    was the newest, or that was saved. So it is at the next start, and after another loss."""
    prepared(lab)
    lab.collection("orders").insert_one({"_id": 100})
    count = len(reads.jobs)
    for lives in range(2, 4):
        remove(lab)
        with lab.running() as engine:
            lab.collection("orders").insert_one({"_id": 100 + lives})
            engine.catch_up(SECONDS)
            generation = engine.engine.store.generation
            assert (generation.number, generation.cause) == (lives, Cause.REMOVED)
        lab.assert_equal("orders")
        assert lab.rows("people") == []
        with lab.running() as engine:
            lab.collection("orders").delete_one({"_id": 100 + lives})
            engine.catch_up(SECONDS)
            assert engine.engine.store.generation == generation
        lab.assert_equal("orders")
        if remove is remove_checkpoint:
            break  # the new one has another name
    assert len(reads.jobs) == count
    lab.assert_one_commit_a_batch("orders")


def test_an_older_copy_of_the_state_loses_nothing(lab: Lab, reads: Reads, tmp_path: Path) -> None:
    """Put back from a backup beside tables that have gone on. Their batches have numbers that it would hand out again,
    and what a table records already is not written: so its batches count anew. Nothing is read."""
    prepared(lab)
    count, copy = len(reads.jobs), tmp_path / "copy"
    shutil.copytree(lab.state, copy)
    with lab.running() as engine:
        for n in range(3):
            lab.collection("orders").insert_one({"_id": 100 + n})
            engine.catch_up(SECONDS)
    remove_all(lab)
    shutil.copytree(copy, lab.state)
    with lab.running() as engine:
        for n in range(3):
            lab.collection("orders").insert_one({"_id": 200 + n})
            engine.catch_up(SECONDS)
        generation = engine.engine.store.generation
        assert (generation.number, generation.cause) == (2, Cause.REMOVED)
    lab.assert_equal("orders")
    assert len(reads.jobs) == count
    with lab.running() as engine:
        lab.collection("orders").delete_one({"_id": 200})
        engine.catch_up(SECONDS)
        assert engine.engine.store.generation == generation
    lab.assert_equal("orders")


def test_a_load_that_had_not_finished_is_read_again(lab: Lab, reads: Reads) -> None:
    """What the newest batch calls unsettled has no mark, and a start reads what has none; with reconcile, for it has
    rows. What was whole is not read."""
    prepared(lab)
    gate = reads.before = Gate(lambda number, job: True)
    with lab.engine() as engine:
        engine.execute_snapshot(lab.name("orders"), request_id="half")
        assert gate.ready.wait(SECONDS)
        lab.collection("stock").insert_one({"_id": 1})
        engine.until("a commit beside the read", lambda: lab.table("stock").exists(), SECONDS)
        gate.go.set()
        engine.catch_up(SECONDS)
    remove_all(lab)
    lab.collection("orders").delete_one({"_id": 9})
    with lab.running() as engine:
        done = engine.wait("initial", SECONDS)
        assert [t.namespace.collection for t in done.tasks] == ["orders"]
        assert done.tasks[0].reconcile
        engine.catch_up(SECONDS)
    lab.assert_equal("orders", "stock")


def test_a_first_load_into_tables_with_rows_reconciles(lab: Lab) -> None:
    """Rows of deleted documents go, and those of captured collections that are no more. The engine goes on from there,
    over another start too: what it saves is not taken for what was saved before."""
    prepared(lab)
    begin_now(lab)
    with lab.running() as engine:
        done = engine.wait("initial", SECONDS)
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
        assert [r.id for r in newest.requests] == ["initial"]
    lab.assert_equal("orders")


@pytest.mark.parametrize("remove", [remove_all, remove_checkpoint], ids=["the whole state", "the checkpoint"])
def test_a_position_that_is_not_to_be_found_follows_the_mode(
    lab: Lab, forgetful: MongoDeployment, remove: Callable[[Lab], None]
) -> None:
    """The oplog no longer has it: ``no_data`` reads nothing then, as at a first start; that rows of before may be stale
    is said, with the command that cures it, until it is done."""
    lab.uri, lab.client = forgetful.uri, forgetful.client()
    prepared(lab)
    remove(lab)
    forget(forgetful)
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
