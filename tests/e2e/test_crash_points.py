"""A crash at every boundary of a batch, in process: before and after each table's commit, the save, the batch's end.

One scenario, many lives: life n ends at its n-th boundary, and the next one takes up what it left. So every place in a
batch's order (land, save, commit the offset, announce) is crashed at, with windows open, and work goes on all the same.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient, WriteConcern
from pymongo.database import Database
from pyspark.sql import SparkSession

from signals.actions import ExecuteSnapshot
from snapshotter.configuration.settings import Settings
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.tasks import TaskState
from snapshotter.engine.assembly import engine_config
from snapshotter.engine.engine import Engine
from snapshotter.engine.run import Run
from snapshotter.errors import DefiniteError
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storages import storage_for
from snapshotter.testing.processes import wait_until
from streaming.delta.state_table import StateTable
from tests.support.engines import SECONDS
from tests.support.equality import differences
from tests.support.workload import Changes, WorkloadPlan, load

LIVES_MAX = 60
CHANGES_BETWEEN = 40
SENT = {
    2: [("execute", "asked-2")],
    3: [("execute", "asked-3"), ("pause", "asked-3")],
    4: [("resume", "asked-3")],
}
"""The signals that lives begin with. What is inserted before the very first start is not seen."""
PLACES = {f"{when} {what}" for when in ("before", "after") for what in ("land", "save")}
PLACES |= {"before _take_signals", "after _learn"}  # a batch's first effect, and what follows its last


class Crash(DefiniteError):
    """Ends an engine where a SIGKILL would: nothing after it happens, and no run begins again."""


class CrashPoints:
    """Counts the boundaries that a life passes, and ends it at the one that is armed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hit: Counter[str] = Counter()
        self.passed = 0
        self.evolved = 0
        self._armed = 0
        self._lock = threading.Lock()
        self._around(monkeypatch, StateTable, "land")
        self._around(monkeypatch, StateTable, "evolve")
        self._around(monkeypatch, ProgressStore, "save")
        self._around(monkeypatch, Run, "_take_signals")
        self._around(monkeypatch, Run, "_learn")

    def arm(self, number: int) -> None:
        self.passed, self._armed = 0, number

    def _around(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self._pass(f"before {name}")
            result = original(*args, **kwargs)
            self._pass(f"after {name}")
            return result

        monkeypatch.setattr(owner, name, wrapped)

    def _pass(self, boundary: str) -> None:
        with self._lock:
            self.passed += 1
            self.evolved += boundary == "after evolve"
            crashed = 0 < self._armed <= self.passed  # what runs beside it dies at its own next boundary
        if crashed:
            self.hit[boundary] += 1
            raise Crash(boundary)


@pytest.mark.slow
@pytest.mark.parametrize(
    "to_the_end",
    [
        pytest.param(False, marks=pytest.mark.guard, id="once each"),
        pytest.param(True, marks=pytest.mark.thorough, id="all"),
    ],
)
def test_a_crash_at_every_boundary_loses_and_doubles_nothing(
    to_the_end: bool,
    spark: SparkSession,
    mongo_uri: str,
    mongo_client: MongoClient[dict[str, Any]],
    database: str,
    tmp_path: Path,
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lives that end at their first, second, third... boundary, with writes between, then one that is left in peace: as
    soon as each kind of boundary has been crashed at, or (thorough) when a life's work has no boundary left to end it.
    Some are sent signals: each request of these is done in the end, and there once. Tables get columns on the way.
    """
    plan = WorkloadPlan(mongo_uri, database, rng.getrandbits(32), documents=60)
    load(plan)
    settings = _settings(mongo_uri, database, tmp_path)
    points = CrashPoints(monkeypatch)
    changes = Changes(mongo_client, plan)
    boundaries = 0
    for life in range(1, LIVES_MAX + 1):
        changes.make(CHANGES_BETWEEN)
        # A field of its own: whichever life makes the table, a later one has to make it grow.
        mongo_client[database][plan.collections[0]].insert_one(
            {"_id": f"life {life}", f"of_life_{life}": life}
        )
        _send(mongo_client[database], life)
        points.arm(life if to_the_end or not set(points.hit) >= PLACES else 0)
        crashed = _live(spark, settings)
        boundaries += crashed
        # The life that makes a table samples what is there, so where it is also the last one, another has to follow.
        if not crashed and points.evolved:
            break
    print(f"{boundaries} lives crashed: {dict(points.hit)}")
    assert not crashed, "the work was never done"
    assert set(points.hit) >= PLACES
    assert points.evolved, "no table got a column"
    assert differences(spark, settings, database, plan.collections) == []
    newest = ProgressStore(storage_for(engine_config(settings).state_location, spark)).newest()
    assert newest is not None
    asked = [r for r in newest.requests if r.id.startswith("asked-")]
    found = sorted((r.id, [task.state for task in r.tasks], r.paused) for r in asked)
    assert found == [(name, [TaskState.DONE], False) for name in ("asked-2", "asked-3")]


def _send(database: Database[dict[str, Any]], life: int) -> None:
    """The signals of this life; a request is for a few documents."""
    orders = f"{database.name}.orders"
    some = {"data-collection": orders, "filter": {"k": {"$lt": 10}}}
    asked = {"data-collections": [orders], "additional-conditions": [some]}
    for kind, name in SENT.get(life, ()):
        signal_id, data = (name, asked) if kind == "execute" else (f"{kind}-{name}", {"requests": [name]})
        document = {"_id": signal_id, "type": f"{kind}-snapshot", "data": data}
        database["signals"].with_options(write_concern=WriteConcern("majority")).insert_one(document)


def _live(spark: SparkSession, settings: Settings) -> bool:
    """One life of an engine, until its work is done; returns whether it crashed."""
    try:
        Engine(spark, engine_config(settings)).run(once=True)
    except Crash:
        return True
    return False


@pytest.mark.slow
def test_a_request_that_ended_in_a_replayed_batch_is_not_forgotten(
    spark: SparkSession,
    mongo_uri: str,
    mongo_client: MongoClient[dict[str, Any]],
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The collection is empty, so one batch accepts and ends the request; after a crash past its save, that batch
    comes again from the state before it, and the request must still be there to end once more."""
    mongo_client[database].create_collection("empty")
    settings = _settings(mongo_uri, database, tmp_path)
    Engine(spark, engine_config(settings)).run(once=True)
    engine = Engine(spark, engine_config(settings))
    save = ProgressStore.save

    def crash_after(store: ProgressStore, progress: Progress) -> None:
        save(store, progress)
        known = progress.request("nothing-to-read")
        if known is not None and known.ended:
            raise Crash("after save")

    engine.execute_snapshot(ExecuteSnapshot("nothing-to-read", (f"{database}.empty",)))
    monkeypatch.setattr(ProgressStore, "save", crash_after)
    with pytest.raises(Crash):
        engine.run(once=True)
    monkeypatch.undo()
    assert _after_another_life(spark, settings, "nothing-to-read").ended


@pytest.mark.slow
def test_a_request_that_a_running_engine_accepted_outlives_a_crash(
    spark: SparkSession,
    mongo_uri: str,
    mongo_client: MongoClient[dict[str, Any]],
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Accepted between two batches; the engine ends before the first save that would know it. The sender was told that
    it is accepted, so the next start carries it out."""
    mongo_client[database]["orders"].insert_one({"_id": 1})
    settings = _settings(mongo_uri, database, tmp_path)
    engine = Engine(spark, engine_config(settings))
    died = threading.Event()
    save = ProgressStore.save

    def crash_before(store: ProgressStore, progress: Progress) -> None:
        if progress.request("asked") is not None:
            raise Crash("before save")
        save(store, progress)

    def live() -> None:
        with pytest.raises(Crash):
            engine.run()
        died.set()

    monkeypatch.setattr(ProgressStore, "save", crash_before)
    life = threading.Thread(target=live)
    life.start()
    wait_until(
        lambda: engine.run_state is not None and engine.run_state.progress.batch_id >= 0,
        "a batch",
        seconds=SECONDS,
    )
    engine.execute_snapshot(ExecuteSnapshot("asked", (f"{database}.orders",)))
    mongo_client[database]["orders"].insert_one({"_id": 2})
    life.join(SECONDS)
    assert died.is_set()
    monkeypatch.undo()
    request = _after_another_life(spark, settings, "asked")
    assert [task.state for task in request.tasks] == [TaskState.DONE]


def _after_another_life(spark: SparkSession, settings: Settings, name: str) -> RequestProgress:
    """The request as it is saved once another engine has caught up; it has to be known."""
    again = Engine(spark, engine_config(settings))
    again.run(once=True)
    newest = again.store.newest()
    assert newest is not None
    request = newest.request(name)
    assert request is not None
    return request


def _settings(uri: str, database: str, folder: Path) -> Settings:
    return Settings.from_options(
        {
            "name": "crashing",
            "mongodb.connection.string": uri,
            "database.include.list": database,
            "signal.data.collection": f"{database}.signals",
            "incremental.snapshot.chunk.size": "30",
            "engine.read.files.min.documents": "0",
            "engine.commit.target.rows": "60",
            "engine.trigger.interval.ms": "20",
            "delta.warehouse": str(folder / "warehouse"),
        },
        environ={},
    )
