"""Tables and state in an object store (`s3a://`) that asks for fewer requests, for a while and for good."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import TableNotFoundError
from pymongo import MongoClient

from snapshotter.errors import EXIT_GAVE_UP, EXIT_OK
from tests.support.engine_process import EngineProcess
from tests.support.object_store import KEYS, Refusing, object_store, s3_jars, spark_options

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

SECONDS = 120.0
REFUSALS = 40
"""Some of them meet the status, which is only a report; Hadoop's client makes about five of each request."""


def ids(port: int, path: str) -> list[int]:
    """Of the rows of a table in the store, asked there without the proxy, by another reader than Spark."""
    options = {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true"}
    table = DeltaTable(f"s3://tables/{path}", storage_options=options)
    found = QueryBuilder().register("t", table).execute("SELECT _id FROM t")
    return sorted(int(row["_id"]) for row in pa.table(found).to_pylist())


def lines(engine: EngineProcess, event: str) -> list[dict[str, Any]]:
    """The log's lines of this event."""
    said = (line for line in engine.log.read_text(errors="replace").splitlines() if line.startswith("{"))
    return [found for line in said if (found := json.loads(line)).get("event") == event]


def test_a_store_that_asks_for_fewer_requests_is_waited_for_and_named(
    mongo_uri: str, mongo_client: MongoClient[dict[str, Any]], database: str, tmp_path: Path
) -> None:
    """A few refusals end a run, which begins again: all lands. Refused for good, retries are used up: exit code 4, and
    the state is named. Another start goes on behind what has landed, and nothing is lost."""
    orders, path = mongo_client[database]["orders"], f"warehouse/state/{database}/orders"
    orders.insert_many([{"_id": number} for number in range(3)])
    with object_store(tmp_path, "tables") as (proxy, port):
        options = {
            "name": "store",
            "mongodb.connection.string": mongo_uri,
            "database.include.list": database,
            "delta.warehouse": "s3a://tables/warehouse",
            "errors.max.retries": "9",
            "retriable.restart.connector.wait.ms": "200",
            **spark_options(s3_jars(), proxy.port),
        }
        engine = EngineProcess(tmp_path, options)
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


def _has(port: int, path: str, count: int) -> bool:
    try:
        return ids(port, path) == list(range(count))
    except TableNotFoundError:
        return False
