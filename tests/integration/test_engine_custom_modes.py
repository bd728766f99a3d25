"""A snapshot mode of one's own on real parts: its queries, the tables that it has made, and what it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapshotter.configuration.snapshot_modes import GROUP
from snapshotter.core.values.tasks import TaskState
from snapshotter.errors import ConfigurationError
from tests.support.engines import SECONDS, Gate, Lab, Reads, lab, limits, reads
from tests.support.packages import install

__all__ = ["lab", "reads"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]  # every start of an engine does

PARTLY = """
from pathlib import Path

TOLD = Path("TOLD-PATH")

class Partly:
    def name(self): return "partly"
    def should_snapshot_data(self, offset_exists, snapshot_in_progress): return not offset_exists
    def should_snapshot_schema(self, offset_exists, snapshot_in_progress): return True
    def should_stream(self): return True
    def should_snapshot_on_data_error(self): return False
    def should_snapshot_on_schema_error(self): return False
    def snapshot_query(self, collection):
        name = collection.partition(".")[2]
        return {"orders": 'ORDERS-QUERY', "people": None}.get(name, "{}")
    def snapshot_completed(self): self.tell("completed")
    def snapshot_aborted(self): self.tell("aborted")
    def tell(self, what):
        with TOLD.open("a") as file:
            file.write(what + "\\n")
        raise OSError("a hook that fails ends nothing")
"""


def prepared(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str) -> Path:
    """An engine with a mode that reads some ``orders``, no ``people``, and all ``items``. Returns where the mode writes
    what it is told."""
    told = tmp_path / "told"
    code = PARTLY.replace("TOLD-PATH", str(told)).replace("ORDERS-QUERY", query)
    install(tmp_path, monkeypatch, "partly_modes", code, GROUP, {"partly": "Partly"})
    lab.with_options("cluster_time", snapshot__mode="custom", snapshot__mode__custom__name="partly")
    for name in ("orders", "people", "items"):
        lab.collection(name).insert_many([{"_id": n, "total": n} for n in range(20)])
    lab.client[lab.database].create_collection("empty")
    return told


def test_a_mode_says_what_is_read_of_each_collection(
    lab: Lab, reads: Reads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its query matches, nothing, or all; changes of all of them stream. An empty collection has a table, too. The
    mode is told once that its load is completed, and what it raises then ends nothing."""
    told = prepared(lab, tmp_path, monkeypatch, '{"total": {"$gte": 15}}')
    with lab.running() as engine:
        done = engine.wait("initial", SECONDS)
        assert {task.namespace.collection: task.rows for task in done.tasks} == {
            "empty": 0,
            "items": 20,
            "orders": 5,
        }
        assert lab.rows("empty") == lab.rows("people") == []
        for name in ("orders", "people"):
            lab.collection(name).insert_one({"_id": 100})
        engine.catch_up(SECONDS)
        engine.until("the mode to be told", told.exists, SECONDS)
    assert sorted(row["_id"] for row in lab.rows("orders")) == [15, 16, 17, 18, 19, 100]
    assert [row["_id"] for row in lab.rows("people")] == [100]
    lab.assert_equal("items")
    with lab.running() as engine:
        engine.catch_up(SECONDS)
    assert told.read_text() == "completed\n"


def test_a_mode_is_told_of_a_load_that_is_stopped(
    lab: Lab, reads: Reads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an operator, in the middle; a stop of the engine is none, for the load goes on."""
    told = prepared(lab, tmp_path, monkeypatch, "{}")
    lab.tune = limits(2, 1)
    reads.before = gate = Gate(lambda number, job: number == 1)
    with lab.running() as engine:
        gate.stop_here(engine)
    assert not told.exists()
    with lab.running() as engine:
        engine.stop_snapshot("initial")
        ended = engine.wait("initial", SECONDS)
        assert any(task.state is TaskState.STOPPED for task in ended.tasks)
        engine.until("the mode to be told", told.exists, SECONDS)
    assert told.read_text() == "aborted\n"


def test_a_query_that_mongodb_refuses(
    lab: Lab, reads: Reads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is started, with the mode and the collection; so is one that runs code."""
    prepared(lab, tmp_path, monkeypatch, '{"total": {"$nonsense": 1}}')
    with pytest.raises(
        ConfigurationError, match=r"the query of the snapshot mode partly for .*\.orders = .*nonsense"
    ):
        lab.engine().engine.run()
    assert not lab.state.exists()


def test_switches_make_tables(lab: Lab, reads: Reads) -> None:
    """``snapshot.mode.configuration.based.snapshot.schema``: every captured collection has its table at the start, with
    the columns that its documents have, though nothing is read."""
    switch = "snapshot__mode__configuration__based__"
    on = {f"{switch}snapshot__schema": "true", f"{switch}start__stream": "true"}
    lab.with_options("cluster_time", snapshot__mode="configuration_based", **on)
    lab.collection("orders").insert_one({"_id": 1, "total": 5, "city": "Ulm"})
    lab.client[lab.database].create_collection("empty")
    with lab.running() as engine:
        engine.catch_up(SECONDS)
    assert reads.jobs == []
    assert lab.rows("orders") == lab.rows("empty") == []
    columns = lab.spark.read.format("delta").load(str(lab.table("orders"))).columns
    assert {"_id", "total", "city"} <= set(columns)
