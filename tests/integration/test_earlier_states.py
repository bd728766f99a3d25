"""What earlier versions have left on disk opens: the engine of now goes on with it, and loses and repeats nothing.

The states are data (`tests.support.earlier_states`); a version that changes what is durable adds its own.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pyspark.sql import SparkSession

from snapshotter.api import Snapshotter
from snapshotter.core.values.tasks import TaskState
from tests.support.earlier_states import (
    COLLECTIONS,
    DATA,
    DATABASE,
    MOMENTS,
    ORDERS,
    PAUSED,
    PEOPLE,
    open_state,
    options,
)
from tests.support.engines import SECONDS, Lab, task_of

pytestmark = [pytest.mark.slow, pytest.mark.guard]  # an engine each
VERSIONS = sorted(path.name for path in DATA.iterdir())


@pytest.fixture
def place(
    mongo_uri: str, mongo_client: MongoClient[Any], tmp_path: Path, spark: SparkSession
) -> Iterator[Lab]:
    """Where a state is opened: an empty database of the name that is in it, and the options that it was left with, but
    for larger chunks: they are many enough, and the tests shorter."""
    mongo_client.drop_database(DATABASE)
    larger = {"incremental.snapshot.chunk.size": 20, "engine.commit.target.rows": 60}
    yield Lab(mongo_uri, mongo_client, DATABASE, tmp_path, spark, {**options(mongo_uri), **larger})
    mongo_client.drop_database(DATABASE)


def write_on(lab: Lab) -> None:
    """Changes at both ends and in between, as they come to an engine that goes on."""
    orders = lab.collection(ORDERS)
    for n in (5, 150, 295):
        orders.update_one({"_id": n}, {"$set": {"total": -n, "later": {"seen": True}}})
        orders.delete_one({"_id": n + 1})
    orders.insert_many([{"_id": -2, "total": 1}, {"_id": 1_000, "total": "much"}])
    lab.collection(PEOPLE).delete_one({"_id": "p-010"})


def read_on(engine: Snapshotter, request: str, before: int) -> None:
    """It ended, and read only what it had not read before."""
    done = engine.wait(request, SECONDS)
    assert {task.state for task in done.tasks} == {TaskState.DONE}
    orders = next(task for task in done.tasks if task.namespace.collection == ORDERS)
    assert orders.chunks > before
    assert orders.rows <= 305, "it was read from the beginning"


@pytest.mark.parametrize("version", VERSIONS)
def test_an_idle_state_goes_on(version: str, place: Lab, mongo_client: MongoClient[Any]) -> None:
    """What is written lands in the tables that are there; nothing is loaded again; a paused request is still paused,
    and goes on where it was when it is resumed."""
    open_state(version, "idle", mongo_client, place.folder)
    loaded = len(place.commits(ORDERS))
    with place.running() as engine:
        write_on(place)
        engine.catch_up(SECONDS)
        place.assert_equal(*COLLECTIONS)
        assert engine.engine.run_state is not None
        requests = {request.id: request for request in engine.engine.run_state.progress.requests}
        assert set(requests) == {"initial", "done-one", "stopped-one", PAUSED}
        assert requests[PAUSED].paused
        assert requests["initial"].ended
        before = task_of(engine, PAUSED).chunks
        assert 0 < before < 150
        place.signal("resume-snapshot", "go-on", requests=[PAUSED])
        read_on(engine, PAUSED, before)
    place.assert_equal(*COLLECTIONS)
    assert len(place.commits(ORDERS)) > loaded, "the tables that were there are those that are landed in"


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(v, marks=[pytest.mark.thorough] * (v not in (VERSIONS[0], VERSIONS[-1])))
        for v in VERSIONS
    ],
)
def test_a_load_goes_on_in_the_middle(version: str, place: Lab, mongo_client: MongoClient[Any]) -> None:
    """A load that a kill has ended is completed from where it was, beside what is written meanwhile, on both sides of
    it."""
    open_state(version, "middle", mongo_client, place.folder)
    write_on(place)
    with place.running() as engine:
        engine.until("the load to be known", lambda: engine.engine.run_state, SECONDS)
        read_on(engine, "initial", 8)
        engine.catch_up(SECONDS)
    place.assert_equal(*COLLECTIONS)


def test_states_are_small_and_whole() -> None:
    """Every version has both moments, in less than a quarter of a megabyte each, and no path but relative ones."""
    for version in VERSIONS:
        files = {path.name: path for path in (DATA / version).iterdir()}
        assert set(files) == {f"{moment}.tar.gz" for moment in MOMENTS}
        for path in files.values():
            assert path.stat().st_size < 250_000
            with tarfile.open(path) as packed:
                entries = [
                    entry for entry in packed if entry.isfile() and not entry.name.endswith(".parquet")
                ]
                texts = [(packed.extractfile(entry) or io.BytesIO()).read() for entry in entries]
            assert len(texts) > 20
            assert not any(b"file:" in text or b'"storageType":"p"' in text for text in texts)
