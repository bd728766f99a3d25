"""Collections that are captured later: read by the start that finds them, and only by that."""

from __future__ import annotations

from functools import partial

import pytest

from snapshotter.engine import engine as engines
from snapshotter.engine.catalogue_watch import CatalogueWatch
from snapshotter.errors import ConfigurationError
from tests.support.engines import SECONDS, Gate, Lab, Reads, lab, limits, reads, task_of

__all__ = ["lab", "reads"]

pytestmark = pytest.mark.slow  # every start of an engine does


def capturing(lab: Lab, *names: str) -> Lab:
    lab.options["collection.include.list"] = ",".join(rf"{lab.database}\.{name}" for name in names)
    return lab


def test_a_collection_that_is_included_later_is_read(lab: Lab, reads: Reads) -> None:
    """By the start that captures it first, and with reconcile by one that captures it again; one that is made while the
    engine streams is whole by its events."""
    lab.with_options("cluster_time", snapshot__mode="initial")
    for name in ("orders", "people"):
        lab.collection(name).insert_many([{"_id": n} for n in range(10)])
    with capturing(lab, "orders", "born").running() as engine:
        engine.wait("initial", SECONDS)
        lab.collection("born").insert_one({"_id": 1})
        engine.catch_up(SECONDS)
    lab.collection("people").insert_one({"_id": 10})
    count = len(reads.jobs)
    with capturing(lab, "orders", "born", "people").running() as engine:
        done = engine.wait("initial-2", SECONDS)
        assert [(t.namespace.collection, t.rows, t.reconcile) for t in done.tasks] == [("people", 11, False)]
        engine.catch_up(SECONDS)
    assert {job.namespace.collection for job in reads.jobs[count:]} == {"people"}
    lab.assert_equal("orders", "people", "born")
    with capturing(lab, "orders", "born").running() as engine:
        lab.collection("people").delete_one({"_id": 3})
        lab.collection("people").update_one({"_id": 4}, {"$set": {"changed": True}})
        lab.collection("orders").insert_one({"_id": 100})
        engine.catch_up(SECONDS)
    with capturing(lab, "orders", "born", "people").running() as engine:
        (task,) = engine.wait("initial-3", SECONDS).tasks
        assert (task.namespace.collection, task.deleted, task.reconcile) == ("people", 1, True)
        engine.catch_up(SECONDS)
    lab.assert_equal("orders", "people", "born")


def test_a_request_for_what_is_captured_no_more_reads_nothing_of_it(lab: Lab, reads: Reads) -> None:
    """No change would keep right what it reads. Its other collections are read; once it is included again, it may be
    resumed."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    lab.tune = limits(5, 1)
    for name in ("orders", "people"):
        lab.collection(name).insert_many([{"_id": n} for n in range(25)])
    reads.before = gate = Gate(lambda number, job: job.namespace.collection == "people" and number == 1)
    with capturing(lab, "orders", "people").running() as engine:
        name = engine.execute_snapshot(lab.name("people"), lab.name("orders"))
        gate.stop_here(engine)
    landed = len(lab.rows("people"))
    assert landed < 25
    count = len(reads.jobs)
    with capturing(lab, "orders").running() as engine:
        people, orders = engine.wait(name, SECONDS).tasks
        assert (people.state, orders.state) == ("failed", "done")
        assert "is not captured any more" in str(people.error)
    assert {job.namespace.collection for job in reads.jobs[count:]} == {"orders"}
    assert len(lab.rows("people")) == landed
    with capturing(lab, "orders", "people").running() as engine:
        engine.resume(name)
        engine.until("people to be read", lambda: task_of(engine, name).state == "done", SECONDS)
        engine.catch_up(SECONDS)
    lab.assert_equal("orders", "people")


def test_a_new_name_that_the_server_reads_otherwise_ends_the_engine(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalogue is looked at while the engine runs. A dotted capital I is an i to Python and none to the server, so
    that such a collection would be loaded and never streamed."""
    monkeypatch.setattr(engines, "CatalogueWatch", partial(CatalogueWatch, every=0.1))
    lab.with_options("cluster_time", snapshot__mode="initial")
    lab.collection("isim").insert_one({"_id": 1})

    def a_life() -> None:
        with capturing(lab, "isim").running() as engine:
            engine.wait("initial", SECONDS)
            lab.collection("İsim").insert_one({"_id": 1})
            engine.until("the engine's end", lambda: False, SECONDS)

    with pytest.raises(ConfigurationError, match="İsim"):
        a_life()
    lab.assert_equal("isim")
