"""Tables and state in an object store (`s3a://`): one that asks for fewer requests, answers that are lost, two
engines at once, a kill in a backfill under writes, and upkeep there, of what is old as well."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import TableNotFoundError
from pymongo import MongoClient

from snapshotter.errors import EXIT_DEFINITE, EXIT_GAVE_UP, EXIT_OK
from snapshotter.reporting.status import Status
from snapshotter.testing.kafka import KafkaBroker
from snapshotter.testing.processes import meanwhile, wait_until
from tests.support.engine_process import EngineProcess
from tests.support.kafka_records import consumed
from tests.support.object_store import (
    Refusing,
    client_options,
    keys_under,
    object_store,
    put,
    s3_jars,
    spark_options,
    text_of,
)

SECONDS = 360.0
REFUSED_READS = 12
"""Each fails a chunk, of which two are read at a time: more often than a chunk may fail by its own doing."""
REFUSALS = 40
"""Some of them meet the status, which is only a report; Hadoop's client makes about five of each request."""
COMMIT = r"/_delta_log/\d{20}\.json"
LOCK = r"/lock/store/\d+$"


def options(uri: str, database: str, port: int) -> dict[str, str]:
    """Of an engine whose READs are written as files, however few they are."""
    return {
        "name": "store",
        "mongodb.connection.string": uri,
        "database.include.list": database,
        "delta.warehouse": "s3a://tables/warehouse",
        "engine.read.files.min.documents": "0",
        "errors.max.retries": "9",
        "retriable.restart.connector.wait.ms": "200",
        **spark_options(s3_jars(), port),
    }


def rows(port: int, path: str, columns: str = "_id") -> list[dict[str, Any]]:
    """Of a table in the store, asked there without the proxy, by another reader than Spark."""
    table = DeltaTable(f"s3://tables/{path}", storage_options=client_options(port))
    found = pa.table(QueryBuilder().register("t", table).execute(f"SELECT {columns} FROM t"))
    return list(found.to_pylist())


def ids(port: int, path: str) -> list[int]:
    return sorted(int(row["_id"]) for row in rows(port, path))


def lines(engine: EngineProcess, event: str) -> list[dict[str, Any]]:
    """The log's lines of this event."""
    said = (line for line in engine.log.read_text(errors="replace").splitlines() if line.startswith("{"))
    return [found for line in said if (found := json.loads(line)).get("event") == event]


@pytest.mark.slow
@pytest.mark.guard
def test_answers_that_are_lost_do_no_harm(
    mongo_uri: str,
    mongo_client: MongoClient[dict[str, Any]],
    database: str,
    tmp_path: Path,
    kafka: KafkaBroker,
) -> None:
    """Whether a lock was taken, or a batch committed to a table or the outbox, is looked for where the answer was lost:
    no run ends for it. Workers reach the store with the keys that Spark was given."""
    orders, path = mongo_client[database]["orders"], f"warehouse/state/{database}/orders"
    orders.insert_many([{"_id": number} for number in range(3)])
    topics = {"engine.topics.enabled": "true", "engine.topics.bootstrap.servers": kafka.bootstrap}
    topics["signal.data.collection"] = f"{database}.signals"
    kafka.create_topic(topic := f"store.{database}.orders")
    with object_store(tmp_path, "tables") as (proxy, port):
        engine = EngineProcess(tmp_path, options(mongo_uri, database, proxy.port) | topics)
        proxy.lose_answer(LOCK)
        engine.start("--log-format", "json")
        engine.until("the first load", lambda: _has(port, path, 3), SECONDS)
        files = [key.rpartition("/")[2] for key in keys_under(port, "tables", path)]
        assert {name[:6] for name in files if name.endswith(".parquet")} == {"reads-"}
        proxy.lose_answer(COMMIT)
        orders.insert_many([{"_id": number} for number in range(3, 6)])
        engine.until("what came meanwhile", lambda: _has(port, path, 6), SECONDS)
        consumed(kafka, topic, 6)
        proxy.lose_answer(f"/outbox{COMMIT}")
        signal = {"type": "execute-snapshot", "data": {"data-collections": [f"{database}.orders"]}}
        mongo_client[database]["signals"].insert_one(signal)
        found = consumed(kafka, topic, 12)
        assert engine.terminate(SECONDS) == EXIT_OK
        assert [key.rsplit("/", 2)[1] for key in proxy.lost] == ["store", "_delta_log", "_delta_log"]
        assert lines(engine, "the run failed and starts again") == []
        assert keys_under(port, "tables", "warehouse/_snapshotter/store/outbox/stretch=") == []
    told = [json.loads(message.value())["payload"]["op"] for message in found]
    assert told == ["r"] * 3 + ["c"] * 3 + ["r"] * 6


@pytest.mark.slow
@pytest.mark.thorough
def test_a_store_that_asks_for_fewer_requests_is_waited_for_and_named(
    mongo_uri: str, mongo_client: MongoClient[dict[str, Any]], database: str, tmp_path: Path
) -> None:
    """A few refusals end a run, which begins again: all lands. Refused for good, retries are used up: exit code 4, and
    the state is named. Another start goes on behind what has landed, and nothing is lost."""
    orders, path = mongo_client[database]["orders"], f"warehouse/state/{database}/orders"
    orders.insert_many([{"_id": number} for number in range(3)])
    with object_store(tmp_path, "tables") as (proxy, port):
        engine = EngineProcess(tmp_path, options(mongo_uri, database, proxy.port))
        engine.start("--log-format", "json")
        engine.until("the first load", lambda: _has(port, path, 3), SECONDS)
        proxy.refuse(REFUSALS)
        orders.insert_many([{"_id": number} for number in range(3, 6)])
        engine.until("what came meanwhile", lambda: _has(port, path, 6), SECONDS)
        retried = lines(engine, "the run failed and starts again")
        assert [(line["failure"], line["condition"]) for line in retried[:1]] == [("sink", "storage-busy")]
        assert proxy.refused == REFUSALS
        _refused_for_good(engine, proxy, orders)
        assert ids(port, path) == list(range(6))
        proxy.refuse(0)
        assert engine.start("--once").wait(SECONDS) == EXIT_OK
        assert ids(port, path) == list(range(9))


def _refused_for_good(engine: EngineProcess, proxy: Refusing, orders: Any) -> None:
    proxy.refuse(float("inf"))
    orders.insert_many([{"_id": number} for number in range(6, 9)])
    assert engine.wait(SECONDS) == EXIT_GAVE_UP
    said = [json.loads(line) for line in engine.log.read_text().splitlines() if line.startswith("{")]
    last = next(line for line in reversed(said) if line["level"] == "error" and "condition" in line)
    assert (last["failure"], last["condition"], last["retriable"]) == ("sink", "storage-busy", "true")


@pytest.mark.slow
@pytest.mark.thorough
def test_a_client_that_may_not_write_there_is_named(
    mongo_uri: str, mongo_client: MongoClient[dict[str, Any]], database: str, tmp_path: Path
) -> None:
    """Each writes an object before workers write files: where Python's client may not, Spark writes the READs, and the
    log says whose it is. Nothing is left of the trial."""
    orders, path = mongo_client[database]["orders"], f"warehouse/state/{database}/orders"
    orders.insert_many([{"_id": number} for number in range(3)])
    with object_store(tmp_path, "tables") as (proxy, port):
        engine = EngineProcess(tmp_path, options(mongo_uri, database, proxy.port))
        proxy.forbidden = "aws-sdk-cpp"
        assert engine.start("--once", "--log-format", "json").wait(SECONDS) == EXIT_OK
        assert ids(port, path) == [0, 1, 2]
        (said,) = lines(engine, "READs wait as rows, which is slower than files")
        assert "Spark's client can write there, and Python's cannot: " in said["why"]
        assert "ACCESS_DENIED" in said["why"]
        assert [key for key in keys_under(port, "tables", path) if "reads-" in key] == []


def _has(port: int, path: str, count: int) -> bool:
    try:
        return ids(port, path) == list(range(count))
    except TableNotFoundError:
        return False


DOCUMENTS, FIRST = 4_000, 1_000
NOTES = "warehouse/_snapshotter/store/upkeep.json"


@pytest.mark.slow
@pytest.mark.thorough
def test_a_killed_backfill_under_writes_goes_on_in_one_of_two_engines(
    mongo_uri: str, mongo_client: MongoClient[dict[str, Any]], database: str, tmp_path: Path
) -> None:
    """Begun again by two engines at once, one of which is refused; requests are refused while READs are written. In the
    end the table equals the collection, nothing that the killed one has left is there, and files were put together."""
    orders, path = mongo_client[database]["orders"], f"warehouse/state/{database}/orders"
    orders.insert_many([{"_id": number, "n": 0} for number in range(DOCUMENTS)])
    with object_store(tmp_path, "tables") as (proxy, port):
        given = {
            **options(mongo_uri, database, proxy.port),
            "incremental.snapshot.chunk.size": "100",
            "engine.commit.target.rows": "200",
            "engine.upkeep.small.files": "4",
        }
        one, other = (EngineProcess(_made(tmp_path / name), given) for name in ("one", "other"))
        with _writing(orders):
            one.start("--log-format", "json")
            one.until("some of the load", lambda: _count(port, path) >= FIRST, SECONDS)
            one.kill(alone=False)
            before = _count(port, path)
            assert before < DOCUMENTS, "the kill came too late"
            put(
                port, f"/tables/{NOTES}", b"{}"
            )  # it may have removed old files: the next is to do so as well
            for engine in (one, other):
                engine.start("--log-format", "json")
            wait_until(lambda: not (one.alive and other.alive), "one of two to be refused", seconds=SECONDS)
            winner, loser = (one, other) if one.alive else (other, one)
            assert loser.wait(SECONDS) == EXIT_DEFINITE
            assert "another engine named 'store' is running" in loser.log.read_text()
            winner.until("more of the load", lambda: _count(port, path) > before, SECONDS)
            proxy.refuse(REFUSED_READS, of="(PUT|POST) .*/reads-")
            winner.until("the load", lambda: _count(port, path) == DOCUMENTS, SECONDS)
            assert proxy.refused == REFUSED_READS
            winner.until("upkeep", partial(_kept, port), SECONDS)
        assert winner.terminate(SECONDS) == EXIT_OK
        assert winner.start("--once").wait(SECONDS) == EXIT_OK
        landed = {int(row["_id"]): int(row["n"]) for row in rows(port, path, "_id, n")}
        assert landed == {order["_id"]: order["n"] for order in orders.find()}
        assert _left(port, path) == []


@pytest.mark.slow
@pytest.mark.thorough
def test_what_is_old_goes_there_too(
    mongo_uri: str, mongo_client: MongoClient[dict[str, Any]], database: str, tmp_path: Path
) -> None:
    """Of a table that is as old as files and log are to become: upkeep removes a file that no version has, writes a
    checkpoint, and lets go of the log before it. Whoever reads the table, and the next start, miss nothing."""
    orders, path = mongo_client[database]["orders"], f"warehouse/state/{database}/orders"
    log, nobodys = f"{path}/_delta_log", f"{path}/part-of-nobody.parquet"
    orders.insert_many([{"_id": number, "n": 0} for number in range(3)])
    with object_store(tmp_path, "tables") as (proxy, port):
        engine = EngineProcess(tmp_path, options(mongo_uri, database, proxy.port))
        assert engine.start("--once").wait(SECONDS) == EXIT_OK
        put(port, f"/tables/{nobodys}", b"x")
        proxy.age(path, timedelta(days=40))
        put(port, f"/tables/{NOTES}", b"{}")  # nobody knows when old files went
        engine.start("--log-format", "json")
        orders.insert_one({"_id": 3, "n": 0})  # what is being written then would seem as old
        engine.until("the file to go", lambda: nobodys not in keys_under(port, "tables", path), SECONDS)
        with _writing(orders, most=4):
            first = f"{log}/{0:020}.json"
            engine.until(
                "the log to begin later", lambda: first not in keys_under(port, "tables", log), SECONDS
            )
        assert [key for key in keys_under(port, "tables", log) if ".checkpoint" in key]
        assert engine.terminate(SECONDS) == EXIT_OK
        assert engine.start("--once").wait(SECONDS) == EXIT_OK
        landed = {int(row["_id"]): int(row["n"]) for row in rows(port, path, "_id, n")}
        assert landed == {order["_id"]: order["n"] for order in orders.find()}


@pytest.mark.slow
@pytest.mark.thorough
def test_files_of_a_load_are_concatenated_there(
    mongo_uri: str, mongo_client: MongoClient[dict[str, Any]], database: str, tmp_path: Path, rng: Random
) -> None:
    """By Hadoop's client, which writes the one file that they become; and rows of it are found and marked."""
    orders, path = mongo_client[database]["orders"], f"warehouse/state/{database}/orders"
    orders.insert_many([{"_id": number, "n": 0, "b": rng.randbytes(60_000)} for number in range(40)])
    with object_store(tmp_path, "tables") as (proxy, port):
        given = {"incremental.snapshot.chunk.size": "10", "engine.upkeep.small.files": "4"}
        engine = EngineProcess(tmp_path, {**options(mongo_uri, database, proxy.port), **given})
        engine.start("--log-format", "json")
        engine.until("upkeep", lambda: _concatenated(engine), SECONDS)
        orders.update_many({"_id": {"$in": [3, 33]}}, {"$inc": {"n": 1}})
        orders.delete_one({"_id": 14})
        engine.until("the changes", lambda: _count(port, path) == 39, SECONDS)
        assert engine.terminate(SECONDS) == EXIT_OK
        assert engine.start("--once").wait(SECONDS) == EXIT_OK
        landed = {int(row["_id"]): int(row["n"]) for row in rows(port, path, "_id, n")}
        assert landed == {order["_id"]: order["n"] for order in orders.find()}
        assert [key for key in keys_under(port, "tables", path) if "copies-" in key]


def _concatenated(engine: EngineProcess) -> bool:
    reasons = [said["why"] for said in lines(engine, "upkeep of a table")]
    return any(
        why.startswith("4 of 4 files") and why.endswith("follow one another by key") for why in reasons
    )


def _writing(orders: Any, most: int = DOCUMENTS) -> AbstractContextManager[None]:
    """Documents are updated meanwhile, one after the other."""
    numbers = count()
    return meanwhile(lambda: orders.update_one({"_id": next(numbers) * 37 % most}, {"$inc": {"n": 1}}))


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _count(port: int, path: str) -> int:
    try:
        return len(set(ids(port, path)))
    except TableNotFoundError:
        return 0


def _kept(port: int) -> bool:
    """Whether the status tells of a rewrite, of a look for old files, and of nothing that went wrong."""
    text = text_of(port, "/tables/warehouse/_snapshotter/store/status.json")
    reports = () if text is None else Status.from_json(text).upkeep
    return any(r.rewrites and r.vacuumed_at is not None and r.error is None for r in reports)


def _left(port: int, path: str) -> list[str]:
    """Files of READs that no commit names."""
    commits = (key for key in keys_under(port, "tables", f"{path}/_delta_log/") if key.endswith(".json"))
    named = "".join(text_of(port, f"/tables/{key}") or "" for key in commits)
    files = (key.rpartition("/")[2] for key in keys_under(port, "tables", f"{path}/reads-"))
    return [name for name in files if name not in named]
