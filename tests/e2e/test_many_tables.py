"""Many collections of several databases in one engine, some of which are dropped or renamed while it runs."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pyspark.sql import SparkSession

from snapshotter.api import Snapshotter
from tests.support.equality import differences
from tests.support.history import table_versions
from tests.support.workload import Workload, WorkloadPlan, load

ODD_NAMES = ("order items", "Ünïcode.näme", "100%", "_hidden")


@pytest.fixture
def databases(mongo_client: MongoClient[dict[str, Any]]) -> Iterator[list[str]]:
    names = [f"many_{uuid.uuid4().hex[:8]}_{n}" for n in range(2)]
    yield names
    for name in names:
        mongo_client.drop_database(name)


def engine_for(uri: str, databases: list[str], folder: Path, spark: SparkSession) -> Snapshotter:
    options = {
        "name": "many",
        "mongodb.connection.string": uri,
        "database.include.list": ",".join(databases),
        "signal.data.collection": f"{databases[0]}.signals",
        "incremental.snapshot.chunk.size": "40",
        "delta.warehouse": str(folder / "warehouse"),
    }
    return Snapshotter(options, spark)


@pytest.mark.slow
@pytest.mark.thorough
def test_tables_land_side_by_side(
    mongo_uri: str,
    mongo_client: MongoClient[dict[str, Any]],
    databases: list[str],
    tmp_path: Path,
    rng: random.Random,
    spark: SparkSession,
) -> None:
    """Two databases of six collections each, with odd names, loaded and written to at once: all equal in the end, and
    a part of a batch is one commit in each table that it touches."""
    plans = [
        WorkloadPlan(mongo_uri, name, rng.getrandbits(32), documents=100, rate=20, settled=True)
        for name in databases
    ]
    for plan in plans:
        load(plan)
        for name in ODD_NAMES:
            mongo_client[plan.database][name].insert_many([{"_id": n, "n": n} for n in range(60)])
    with Workload(plans[0]), Workload(plans[1]), engine_for(mongo_uri, databases, tmp_path, spark) as engine:
        engine.wait("initial")
        for database in databases:
            for n, name in enumerate(ODD_NAMES):
                mongo_client[database][name].update_many({"n": {"$lt": 10 * n}}, {"$inc": {"n": 100}})
        engine.wait(engine.execute_snapshot(*(rf"{name}\..*" for name in databases)))
    again = engine_for(mongo_uri, databases, tmp_path, spark)
    again.engine.run(once=True)
    names = [*plans[0].collections, *ODD_NAMES]
    for database in databases:
        assert differences(spark, engine.settings, database, names) == []
    batches = {}
    for path in (tmp_path / "warehouse" / "state").glob("*/*"):
        landed = table_versions(path)
        parts = [(version.batch, version.app_id) for version in landed]
        assert parts == sorted(set(parts)), "a table took two commits of a part of a batch"
        batches[path] = {version.batch for version in landed}
    assert len(batches) == len(databases) * len(names)
    tables = Counter(batch for found in batches.values() for batch in found)
    assert max(tables.values()) > 1, "no batch landed in more than one table"


@pytest.mark.slow
@pytest.mark.thorough
def test_dropped_and_renamed_collections_do_not_hold_up_the_others(
    mongo_uri: str,
    mongo_client: MongoClient[dict[str, Any]],
    databases: list[str],
    tmp_path: Path,
    rng: random.Random,
    spark: SparkSession,
) -> None:
    """Dropped in the middle of its backfill, renamed, made again, a whole database dropped: what is left goes on,
    and every table holds what its collection does."""
    plan = WorkloadPlan(mongo_uri, databases[0], rng.getrandbits(32), documents=200, rate=20, settled=True)
    load(plan)
    first, second = mongo_client[databases[0]], mongo_client[databases[1]]
    for collection in (first["doomed"], first["moved"], second["doomed"]):
        collection.insert_many([{"_id": n, "life": 1} for n in range(400)])
    with Workload(plan) as workload, engine_for(mongo_uri, databases, tmp_path, spark) as engine:
        engine.wait("initial")
        request = engine.execute_snapshot(
            f"{first.name}.doomed", f"{first.name}.moved", f"{first.name}.orders"
        )
        engine.until(
            "an open window", lambda: bool(engine.engine.run_state and engine.engine.run_state.windows)
        )
        first["doomed"].drop()
        first["moved"].rename("arrived")
        mongo_client.drop_database(second.name)
        first["doomed"].insert_many([{"_id": n, "life": 2} for n in range(1_000, 1_010)])
        ended = engine.wait(request)
        print([(str(t.namespace), t.state, t.error) for t in ended.tasks])
        assert [t.error for t in ended.tasks if t.namespace.collection == "orders"] == [None]
        engine.wait(engine.execute_snapshot(f"{first.name}.arrived", f"{first.name}.doomed"))
        workload.stop()
        engine.catch_up()
    names = [*plan.collections, "doomed", "moved", "arrived"]
    assert differences(spark, engine.settings, first.name, names) == []
    assert differences(spark, engine.settings, second.name, ["doomed"]) == []
