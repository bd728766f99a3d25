"""With post-images, over every version of a table: never an older state of a key, never half a transaction.

More than that: between and during backfills of a table that is loaded, each version *is* the collection at the position
that its commit names.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pyspark.sql import SparkSession

from snapshotter.api import Snapshotter
from snapshotter.core.values.watermark_ids import Strategy
from streaming.mongo.deployment import majority_time
from tests.support.equality import differences
from tests.support.history import TableVersion, changes_since, judge, never_back, table_state, table_versions
from tests.support.workload import Workload, WorkloadPlan, load

DOCUMENTS = 240


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("strategy", Strategy)
def test_every_version_is_the_collection_at_its_position(
    strategy: Strategy,
    spark: SparkSession,
    mongo_uri: str,
    mongo_client: MongoClient[dict[str, Any]],
    database: str,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    """A loaded table is backfilled again, twice, under writes and transactions; every version is looked at."""
    plan = WorkloadPlan(mongo_uri, database, rng.getrandbits(32), documents=DOCUMENTS, rate=60, settled=True)
    for name in plan.collections:
        mongo_client[database].create_collection(name, changeStreamPreAndPostImages={"enabled": True})
    load(plan)
    start = majority_time(mongo_client)
    names = [f"{database}.{name}" for name in plan.collections]
    options = {
        "name": "history",
        "mongodb.connection.string": mongo_uri,
        "database.include.list": database,
        "collection.exclude.list": ".*history.end",
        "snapshot.mode": "no_data",
        "capture.mode.full.update.type": "post_image",
        "incremental.snapshot.chunk.size": "60",
        "engine.read.files.min.documents": "0",
        "engine.commit.target.rows": "120",
        "incremental.snapshot.watermarking.strategy": strategy.value,
        "delta.warehouse": str(tmp_path / "warehouse"),
        **({"signal.data.collection": f"{database}.signals"} if strategy.in_stream else {}),
    }
    with Workload(plan) as workload, Snapshotter(options, spark) as engine:
        engine.wait(engine.execute_snapshot(*names))
        loaded = {name: len(versions_of(engine, name)) for name in names}
        for _ in range(2):
            request = engine.wait(engine.execute_snapshot(*names))
            print([(str(t.namespace), t.chunks, t.rows, t.superseded) for t in request.tasks])
            assert not request.failed
        written = workload.stop()
        engine.catch_up()
    for name in names:
        collection = mongo_client[database][name.split(".")[1]]
        changes = changes_since(mongo_client, collection, start)
        versions = versions_of(engine, name)
        print(f"{name}: {written} writes, {len(changes)} changes, {len(versions)} versions")
        never_back([table_state(path_of(engine, name), version.version) for version in versions])
        judge(path_of(engine, name), versions[loaded[name] - 1 :], changes, DOCUMENTS)
    assert differences(spark, engine.settings, database, plan.collections) == []


def path_of(engine: Snapshotter, name: str) -> Path:
    return Path(engine.settings.warehouse()) / "state" / Path(*name.split("."))


def versions_of(engine: Snapshotter, name: str) -> list[TableVersion]:
    return table_versions(path_of(engine, name))
