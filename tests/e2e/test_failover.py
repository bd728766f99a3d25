"""A replica set of three nodes loses its primary in the middle of a window: nothing is lost, nothing doubled."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from snapshotter.api import Snapshotter
from snapshotter.core.values.watermark_ids import Strategy
from snapshotter.core.values.window import WindowState
from snapshotter.testing.mongodb import MongoDeployment, start_mongodb
from snapshotter.testing.processes import wait_until
from tests.support.equality import differences
from tests.support.workload import Workload, WorkloadPlan, load

SECONDS = 600.0


@pytest.fixture(scope="module")
def replica_set() -> Iterator[MongoDeployment]:
    with start_mongodb(nodes=3, set_parameters={"periodicNoopIntervalSecs": 1}) as deployment:
        yield deployment


def step_down(deployment: MongoDeployment) -> None:
    deployment.step_down(seconds=10)


def kill(deployment: MongoDeployment) -> None:
    killed = deployment.kill(deployment.primary_address())
    deployment.primary_address()
    deployment.restart(killed)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("strategy", "lose_primary"),
    [
        (Strategy.INSERT_INSERT, step_down),
        (Strategy.INSERT_DELETE, kill),
        (Strategy.CLUSTER_TIME, kill),
    ],
)
def test_a_lost_primary_in_the_middle_of_a_window(
    strategy: Strategy,
    lose_primary: Callable[[MongoDeployment], None],
    replica_set: MongoDeployment,
    spark: SparkSession,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    """While windows are open, twice; the backfill goes on by itself, and tables and collections are equal."""
    database = f"failover_{strategy}"
    plan = WorkloadPlan(replica_set.uri, database, rng.getrandbits(32), documents=300, rate=40, settled=True)
    load(plan)
    options = {
        "name": f"failover-{strategy}".replace("_", "-"),
        "mongodb.connection.string": replica_set.uri,
        "database.include.list": database,
        "snapshot.mode": "no_data",
        "incremental.snapshot.chunk.size": "50",
        "engine.read.files.min.documents": "0",
        "engine.commit.target.rows": "100",
        "incremental.snapshot.watermarking.strategy": strategy.value,
        "retriable.restart.connector.wait.ms": "500",
        "delta.warehouse": str(tmp_path / "warehouse"),
        **({"signal.data.collection": f"{database}.signals"} if strategy.in_stream else {}),
    }
    with Workload(plan) as workload, Snapshotter(options, spark) as engine:
        for _ in range(2):
            before = term(replica_set)
            request = engine.execute_snapshot(f"{database}.orders", f"{database}.people")
            engine.until("an open window", lambda: window_open(engine), SECONDS)
            lose_primary(replica_set)
            elected(replica_set, before)
            ended = engine.wait(request, SECONDS)
            assert not ended.failed, [task.error for task in ended.tasks]
            print([(str(t.namespace), t.chunks, t.rows, t.superseded) for t in ended.tasks])
        print(f"{workload.stop()} documents written")
        engine.catch_up(SECONDS)
    assert differences(spark, engine.settings, database, plan.collections) == []


def elected(deployment: MongoDeployment, before: int) -> None:
    wait_until(lambda: term(deployment) > before, "another primary")


def term(deployment: MongoDeployment) -> int:
    """Of the newest election."""
    return int(deployment.client().admin.command("replSetGetStatus")["term"])


def window_open(engine: Snapshotter) -> bool:
    run = engine.engine.run_state
    return run is not None and any(w.state is not WindowState.REGISTERED for w in run.windows)
