"""Which updates of a batch came without their document, and nothing full follows them (`landing.incomplete`)."""

from __future__ import annotations

from typing import Any

import bson
import pyarrow as pa
import pytest
from py4j.clientserver import JavaClient
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import SparkSession

from snapshotter.landing import incomplete as landing
from snapshotter.landing.frames import frame_of
from streaming.namespaces import Namespace

QUEUE = Namespace("shop", "queue")
SCHEMA = pa.schema(
    [
        *[(name, pa.string()) for name in ("op", "db", "collection", "_key")],
        *[(name, pa.binary()) for name in ("document_key", "document")],
        ("ord", pa.int64()),
    ]
)


def events(*ops: tuple[str, int]) -> pa.Table:
    """Changes (operation, id) in stream order; updates were looked up in vain."""
    rows = [
        {
            "op": op,
            "db": QUEUE.database,
            "collection": QUEUE.collection,
            "_key": f"{number:06}",
            "ord": at,
            "document_key": bson.encode({"_id": number}),
            "document": bson.encode({"_id": number}) if op == "c" else None,
        }
        for at, (op, number) in enumerate(ops)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def incomplete(spark: SparkSession, table: pa.Table) -> list[str]:
    frame = frame_of(spark, table)
    bare = frame.where("op = 'u'").selectExpr("*", "false AS moves").collect()
    return sorted(landing.incomplete(frame, bare, lambda row: True).get(QUEUE, ()))


def test_what_nothing_full_follows_is_incomplete(spark: SparkSession) -> None:
    """Not what was deleted, or inserted anew, afterwards; but what follows a full event is."""
    table = events(("u", 1), ("u", 2), ("d", 2), ("u", 3), ("d", 3), ("c", 3), ("c", 4), ("u", 4))
    assert incomplete(spark, table) == ["000001", "000004"]


def test_a_queue_costs_the_driver_the_same_for_any_number_of_keys(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents that come, change and go within a batch: about as many calls of the JVM for 5,000 of them as for five.
    (A literal for each took 16.6 s for 20,000.) Those that let go of objects are not counted: Python's collector makes
    them when it likes, also of what other tests have left."""
    calls, real = [0], JavaClient.send_command

    def send_command(client: Any, command: str, *given: Any, **named: Any) -> Any:
        calls[0] += not command.startswith(MEMORY_COMMAND_NAME)
        return real(client, command, *given, **named)

    def cost(keys: int) -> int:
        table = events(*[(op, number) for op in "cud" for number in range(keys)])
        before = calls[0]
        assert incomplete(spark, table) == []
        return calls[0] - before

    monkeypatch.setattr(JavaClient, "send_command", send_command)
    cost(5)
    assert cost(5_000) < cost(5) + 100
