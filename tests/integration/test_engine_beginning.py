"""A first start misses nothing from the moment on at which preflight has found nothing wrong, however long Spark takes
to start, and whatever ends the engine before it has saved a batch."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from snapshotter.api import Snapshotter
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.tasks import TaskState
from snapshotter.engine import engine as engines
from snapshotter.engine import run
from snapshotter.engine.engine import Engine
from snapshotter.errors import DefiniteError
from snapshotter.state.progress_store import ProgressStore
from snapshotter.testing.mongodb import MongoDeployment
from streaming.mongo.deployment import majority_time
from tests.support.engines import SECONDS, Lab, lab, shared
from tests.support.oplogs import forget, forgetful

__all__ = ["forgetful", "lab"]

pytestmark = pytest.mark.guard


class Crash(DefiniteError):
    """Ends a life of the engine where it is: no run begins again."""


def starting(lab: Lab, meanwhile: Any) -> Snapshotter:
    """An engine that has no session yet; ``meanwhile`` happens while Spark starts."""

    def make() -> SparkSession:
        meanwhile()
        return shared(lab.spark)

    engine = lab.engine()
    engine.engine = Engine(make, engine.engine.config)
    return engine


def crash(*arguments: Any) -> Any:
    """In the place of something that is not to happen in this life."""
    raise Crash("the end of this life")


def ends(engine: Engine, *, within_a_batch: bool) -> None:
    """A life of the engine that ends in its first batch, or where it ends by itself."""
    with pytest.MonkeyPatch.context() as patched:
        if within_a_batch:
            patched.setattr(run, "opened", crash)
        with pytest.raises(Crash):
            engine.run()


@pytest.mark.parametrize("mode", ["no_data", "initial"])
def test_what_happens_while_the_engine_starts_is_seen(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Changes and signals while Spark starts, and after it and before the first batch; a first load is one all the
    same, into a table that is empty when it begins."""
    lab.with_options(snapshot__mode=mode)
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n} for n in range(10)])
    open_channels = engines.open_channels

    def while_spark_starts() -> None:
        orders.insert_one({"_id": "with Spark"})
        orders.update_one({"_id": 3}, {"$set": {"changed": True}})
        lab.signal("log", "heard", message="while Spark starts")
        lab.signal("execute-snapshot", "asked", data__collections=[lab.name("orders")])

    def before_the_first_batch(*arguments: Any) -> Any:
        orders.insert_one({"_id": "with channels"})
        return open_channels(*arguments)

    monkeypatch.setattr(engines, "open_channels", before_the_first_batch)
    with capture_logs() as logs, starting(lab, while_spark_starts) as engine:
        asked = engine.wait("asked", SECONDS)
        assert asked.tasks[0].state is TaskState.DONE
        if mode == "initial":
            engine.wait("initial", SECONDS)
        engine.catch_up(SECONDS)
    assert "while Spark starts" in [line["event"] for line in logs]
    lab.assert_equal("orders")


def test_changes_alone_are_seen_where_nothing_is_read(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``no_data`` a change that was missed would be missed for ever."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    orders = lab.collection("orders")
    orders.insert_one({"_id": "before"})
    open_channels = engines.open_channels

    def before_the_first_batch(*arguments: Any) -> Any:
        orders.insert_one({"_id": "after the lock was taken"})
        return open_channels(*arguments)

    monkeypatch.setattr(engines, "open_channels", before_the_first_batch)
    with lab.running() as engine:
        engine.catch_up(SECONDS)
    assert [row["_id"] for row in lab.rows("orders")] == ["after the lock was taken"]


def test_a_first_load_that_changes_came_before_is_appended(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes from before the first batch wait until the load is opened: they would make its table one with rows, and
    each of its chunks a MERGE."""
    lab.with_options("cluster_time", snapshot__mode="initial")
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n} for n in range(10)])
    begun: set[bool] = set()
    save = ProgressStore.save

    def watched(store: ProgressStore, progress: Progress) -> None:
        running = [t for r in progress.requests for t in r.tasks if t.state is TaskState.RUNNING]
        begun.update(task.first_load for task in running)
        save(store, progress)

    monkeypatch.setattr(ProgressStore, "save", watched)
    with starting(lab, lambda: orders.insert_many([{"_id": n} for n in range(10, 20)])) as engine:
        engine.wait("initial", SECONDS)
        engine.catch_up(SECONDS)
    assert begun == {True}
    lab.assert_equal("orders")


@pytest.mark.parametrize("dies", ["before Spark", "in the first batch", "before it is saved"])
def test_the_position_stands_until_a_batch_is_saved(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    """The engine ends before that, three times; the fourth start sees all that happened since the first one."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    orders = lab.collection("orders")
    orders.insert_one({"_id": "before"})

    for life in range(3):
        if dies == "before it is saved":
            engine = lab.engine()
            engine.engine.store.save = crash  # type: ignore[method-assign] # of this life
        else:
            engine = starting(lab, crash) if dies == "before Spark" else lab.engine()
        ends(engine.engine, within_a_batch=dies == "in the first batch")
        orders.insert_one({"_id": life})
    assert (lab.state / "beginning.json").exists()
    with lab.running() as engine:
        engine.catch_up(SECONDS)
    assert sorted(row["_id"] for row in lab.rows("orders")) == [0, 1, 2]
    with lab.running() as engine:
        engine.catch_up(SECONDS)
    assert not (lab.state / "beginning.json").exists(), "progress holds the position now"
    lab.assert_one_commit_a_batch("orders")


@pytest.mark.parametrize("dies", ["before Spark", "in the first batch"])
def test_a_position_that_the_oplog_lost_is_taken_anew(
    lab: Lab, forgetful: MongoDeployment, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    """Before any batch has landed there is nothing to go back to: the engine begins anew, and says what it has not
    seen."""
    lab.uri, lab.client = forgetful.uri, forgetful.client()
    lab.with_options("cluster_time", snapshot__mode="no_data")
    orders = lab.collection("orders")

    engine = starting(lab, crash) if dies == "before Spark" else lab.engine()
    ends(engine.engine, within_a_batch=dies == "in the first batch")
    orders.insert_one({"_id": "lost"})
    forget(forgetful)
    with capture_logs() as logs, lab.running() as engine:
        orders.insert_one({"_id": "seen"})
        engine.catch_up(SECONDS)
    said = [line for line in logs if "has lost the position at which this engine began" in line["event"]]
    assert len(said) == 1
    assert said[0]["log_level"] == "warning"
    assert [row["_id"] for row in lab.rows("orders")] == ["seen"]


def test_an_option_goes_before_it(lab: Lab) -> None:
    """``capture.start.op.time``: nothing is taken, and everything from there on is seen."""
    orders = lab.collection("orders")
    orders.insert_one({"_id": "before"})
    start = majority_time(lab.client).next()
    orders.insert_one({"_id": "after"})
    lab.with_options("cluster_time", snapshot__mode="no_data", capture__start__op__time=start.to_int())
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        assert not (lab.state / "beginning.json").exists()
    assert [row["_id"] for row in lab.rows("orders")] == ["after"]


def test_where_only_spark_reaches_the_state_it_is_held_in_memory(lab: Lab) -> None:
    """Taken before Spark starts, and saved first thing after: a crash before the first batch does not move it."""
    folder = lab.folder / "far"
    folder.mkdir()
    hadoop: Any = lab.spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    hadoop.set("fs.viewfs.mounttable.default.link./far", folder.as_uri())
    lab.with_options("cluster_time", snapshot__mode="no_data", delta__warehouse="viewfs://default/far/lake")
    orders = lab.collection("orders")
    engine = starting(lab, lambda: orders.insert_one({"_id": "with Spark"}))
    ends(engine.engine, within_a_batch=True)
    assert list(folder.rglob("beginning.json"))
    orders.insert_one({"_id": "later"})
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        table = engine.table_path(lab.name("orders"))
        landed = lab.spark.read.format("delta").load(table).select("_id").collect()
    assert sorted(row[0] for row in landed) == ["later", "with Spark"]


def test_the_lock_is_kept_while_spark_starts(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that takes: it is renewed, and another engine of the same name is refused meanwhile."""
    monkeypatch.setattr(engines, "RENEW_SECONDS", 0.05)
    lab.with_options("cluster_time", snapshot__mode="no_data")
    texts: set[str] = set()
    second: list[str] = []

    def slow() -> None:
        (token,) = (lab.state / "lock").rglob("0*")
        enough = threading.Event()
        while len(texts) < 3:
            texts.add(token.read_text())
            enough.wait(0.02)
        with pytest.raises(Exception, match="another engine named") as refused:
            lab.engine().engine.prepare()
        second.append(str(refused.value))

    with starting(lab, slow) as engine:
        engine.catch_up(SECONDS)
    assert second


def test_the_public_way_starts_spark_late(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``Snapshotter(settings)`` makes its session at the start, under the lock, with the position taken."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    made: list[bool] = []

    def session(settings: Any) -> SparkSession:
        made.append((lab.state / "beginning.json").exists())
        lab.collection("orders").insert_one({"_id": "meanwhile"})
        return shared(lab.spark)

    monkeypatch.setattr("snapshotter.engine.assembly.spark_session", session)
    engine = Snapshotter(lab.settings())
    assert made == []
    with engine:
        assert made == [True]
        engine.catch_up(SECONDS)
    assert [row["_id"] for row in lab.rows("orders")] == ["meanwhile"]
