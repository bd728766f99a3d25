"""The same engine on a real Spark standalone cluster: READs go the same way there, and a worker is lost in the middle
of a window."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import QueryBuilder
from pymongo import MongoClient
from pyspark.sql import SparkSession

from snapshotter.errors import EXIT_OK
from snapshotter.testing.spark_cluster import start_spark_cluster
from streaming.delta.local_checkpoints import LOST_BLOCK
from tests.support.engine_process import EngineProcess
from tests.support.equality import differences
from tests.support.warehouses import shared_folder, store
from tests.support.workload import Workload, WorkloadPlan, load

GIVEN_UP = ("READ buffers lost", "window given up")
LOST = (*GIVEN_UP, LOST_BLOCK)
"""How it shows: before a window closes, or while it lands."""
FILES = {"engine.read.files.min.documents": "0"}
"""READs are written as files, however few they are."""


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.thorough
@pytest.mark.proof
@pytest.mark.parametrize("road", ["rows", "files"])
def test_a_backfill_survives_the_loss_of_a_worker(
    mongo_uri: str, database: str, tmp_path: Path, rng: random.Random, spark: SparkSession, road: str
) -> None:
    """Of the engine's own options none differs, and of Spark's the master (and that executors fit into this machine). A
    worker is killed while windows hold their READs. What it held as rows is read again; what it has written lies in
    files, and no window is given up for it (where it held events of the batch in hand, the run starts again)."""
    plan = WorkloadPlan(mongo_uri, database, rng.getrandbits(32), documents=300, rate=30, settled=True)
    load(plan)
    options = {
        "name": "cluster",
        "mongodb.connection.string": mongo_uri,
        "database.include.list": database,
        "signal.data.collection": f"{database}.signals",
        "snapshot.mode": "no_data",
        "incremental.snapshot.chunk.size": "100",
        "engine.commit.target.rows": "300",
        **(FILES if road == "files" else {}),
    }
    with start_spark_cluster(workers=2, memory="600m") as cluster, Workload(plan) as workload:
        engine = EngineProcess(
            tmp_path, {**options, **cluster.settings(), "spark.master": cluster.master_url}
        )
        engine.start()
        request = engine.execute_snapshot(*(f"{database}.{name}" for name in plan.collections))
        engine.until("all windows to hold their READs", lambda: holding(engine))
        cluster.kill_worker(0)
        print(f"worker killed; windows: {windows(engine)}")
        report = engine.until("the backfill's end", lambda: ended(engine, request))
        print(f"{workload.stop()} documents written")
        assert report == "completed", engine.request(request)
        log = engine.log.read_text(errors="replace")
        lost = [words for words in (LOST if road == "rows" else GIVEN_UP) if words in log]
        assert bool(lost) == (road == "rows"), f"which windows lost what they had read? {lost}"
        assert engine.terminate() == 0
        assert engine.start("--once").wait() == 0
    assert differences(spark, engine.settings, database, plan.collections) == []


DOCUMENTS = 2_000


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.guard
@pytest.mark.parametrize("where", [shared_folder, store])
def test_workers_of_a_cluster_write_files(
    mongo_uri: str, mongo_client: MongoClient[dict[str, Any]], database: str, tmp_path: Path, where: Any
) -> None:
    """Into a folder that all share, and into an object store: the table is made of their files, nothing waits as rows,
    and it is the collection."""
    orders = mongo_client[database]["orders"]
    orders.insert_many([{"_id": number, "n": 7 * number} for number in range(DOCUMENTS)])
    with where(tmp_path) as place, start_spark_cluster(workers=2, memory="600m") as cluster:
        options = {
            "name": "files",
            "mongodb.connection.string": mongo_uri,
            "database.include.list": database,
            "incremental.snapshot.chunk.size": "500",
            **FILES,
            **place.options,
            **cluster.settings(),
            "spark.master": cluster.master_url,
        }
        engine = EngineProcess(tmp_path, options)
        assert engine.start("--once").wait() == EXIT_OK, engine.log.read_text(errors="replace")
        assert "READs wait as rows" not in engine.log.read_text(errors="replace")
        table = place.table(database, "orders")
        files = [Path(uri).name for uri in table.file_uris()]
        assert [name for name in files if not name.startswith("reads-")] == []
        found = pa.table(QueryBuilder().register("t", table).execute("SELECT _id, n FROM t")).to_pylist()
        landed = sorted((row["_id"], row["n"]) for row in found)
        assert landed == [(number, 7 * number) for number in range(DOCUMENTS)]


def windows(engine: EngineProcess) -> list[str]:
    status = engine.status()
    return [f"{w.collection} {w.number} {w.state}" for w in status.windows] if status is not None else []


def holding(engine: EngineProcess) -> bool:
    status = engine.status()
    return (
        status is not None
        and len({w.collection for w in status.windows}) == 2
        and all(w.state in ("read", "closing") for w in status.windows)
    )


def ended(engine: EngineProcess, request_id: str) -> str | None:
    request = engine.request(request_id)
    return request.state.value if request is not None and request.state.ended else None
