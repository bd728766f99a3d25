"""Memory is bounded by bytes: large documents, and one that changes again and again, streamed and read by a backfill.

The Java heap is what it was given (1 GB). Beside it (Python workers, the driver's Python, what the JVM takes outside
its heap) an engine alone on a machine takes less than another GB; among other work, where more waits in its workers,
less than one and a half, however much data there is. The thorough tests are run alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import InsertOne, MongoClient, UpdateOne

from snapshotter.testing.mongodb import MongoDeployment, start_mongodb
from streaming.mongo.deployment import connect, majority_time
from tests.support.class_archive import C1
from tests.support.engine_process import EngineProcess
from tests.support.memory import Peaks, watched
from tests.support.tables import rows

HEAP = 1 << 30
ALONE = 1 << 30
AMONG_OTHERS = 3 << 29
MB = 1 << 20
LENGTHS = "_id, n, length(text) AS length"


@pytest.fixture(scope="module")
def server() -> Iterator[MongoDeployment]:
    """A server whose oplog reaches over everything that a test writes."""
    with start_mongodb(oplog_size_mb=40_000) as deployment:
        yield deployment


@pytest.fixture
def store(server: MongoDeployment) -> Iterator[MongoClient[dict[str, Any]]]:
    client = server.client()
    client.drop_database("shop")
    yield client
    client.drop_database("shop")


def text(rng: random.Random, size: int) -> str:
    """It compresses well, so that a test fits a disk; in memory it is as large as any other."""
    piece = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=1_024))
    return (piece * (size // 1_024 + 1))[:size]


def insert(client: MongoClient[dict[str, Any]], rng: random.Random, count: int) -> None:
    """Documents of 1 MB each."""
    for first in range(0, count, 32):
        some = range(first, min(first + 32, count))
        client["shop"]["items"].bulk_write(
            [InsertOne({"_id": n, "n": n, "text": text(rng, MB)}) for n in some]
        )


def heat(client: MongoClient[dict[str, Any]], rng: random.Random, times: int) -> None:
    """One document of 200 kB that changes so many times, among some that change once."""
    hot = client["shop"]["hot"]
    hot.insert_one({"_id": 0, "n": 0, "text": text(rng, MB // 5)})
    for first in range(0, times, 500):
        inc = [UpdateOne({"_id": 0}, {"$inc": {"n": 1}}) for _ in range(min(500, times - first))]
        hot.bulk_write([*inc, InsertOne({"_id": first + 1, "n": 0, "text": "once"})])


def engine(server: MongoDeployment, folder: Path, **options: str) -> EngineProcess:
    given = {
        "name": "large",
        "mongodb.connection.string": server.uri,
        "database.include.list": "shop",
        "spark.driver.memory": f"{HEAP // MB}m",
        # As an engine is started by operators: an archive of classes is mapped into each JVM as a whole.
        "spark.driver.extraJavaOptions": C1,
        **options,
    }
    return EngineProcess(folder, given)


def run(engine: EngineProcess) -> Peaks:
    """Until all is caught up with and read."""
    engine.start("--once")
    assert engine.process is not None
    with watched(engine.process.pid) as peaks:
        code = engine.wait(3_000)
    assert code == 0, engine.process.tail(60)
    print(f"JVM {peaks.java >> 20} MB of a heap of {HEAP >> 20}, Python {peaks.python >> 20} MB")
    return peaks


def landed(engine: EngineProcess, collection: str) -> list[tuple[Any, ...]]:
    found = rows(engine.table("shop", collection), LENGTHS)
    return sorted(tuple(row.values()) for row in found)


@pytest.mark.guard
@pytest.mark.parametrize("count", [200, pytest.param(20_000, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("way", ["stream", pytest.param("backfill", marks=pytest.mark.thorough)])
def test_documents_of_a_megabyte(
    server: MongoDeployment,
    store: MongoClient[dict[str, Any]],
    tmp_path: Path,
    rng: random.Random,
    way: str,
    count: int,
) -> None:
    """As many changes as the engine would take in one batch, and as many documents as it would read in one chunk, if
    only their number counted."""
    begin = majority_time(connect(server.uri)).next().to_int()
    insert(store, rng, count)
    streams = {"snapshot.mode": "no_data", "capture.start.op.time": str(begin)}
    large = engine(server, tmp_path, **(streams if way == "stream" else {}))
    peaks = run(large)
    assert landed(large, "items") == [(n, n, MB) for n in range(count)]
    assert peaks.beside(HEAP) < (AMONG_OTHERS if count == 200 else ALONE)


@pytest.mark.guard
@pytest.mark.parametrize("times", [2_000, pytest.param(20_000, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("update_type", ["lookup", pytest.param("post_image", marks=pytest.mark.thorough)])
def test_a_hot_document(
    server: MongoDeployment,
    store: MongoClient[dict[str, Any]],
    tmp_path: Path,
    rng: random.Random,
    update_type: str,
    times: int,
) -> None:
    """It is held once, however often it changed."""
    store["shop"].create_collection("hot", changeStreamPreAndPostImages={"enabled": True})
    begin = majority_time(connect(server.uri)).next().to_int()
    heat(store, rng, times)
    options = {
        "snapshot.mode": "no_data",
        "capture.start.op.time": str(begin),
        "capture.mode.full.update.type": update_type,
    }
    hot = engine(server, tmp_path, **options)
    peaks = run(hot)
    once = [(first + 1, 0, 4) for first in range(0, times, 500)]
    assert landed(hot, "hot") == [(0, times, MB // 5), *once]
    assert peaks.beside(HEAP) < (AMONG_OTHERS if times == 2_000 else ALONE)
