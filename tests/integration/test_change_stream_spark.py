"""`mongodb-changes` in Spark: checkpoints, replays, triggers, and what reaches the driver when it fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from snapshotter.testing.processes import wait_until
from streaming.mongo.errors import classify
from streaming.mongo.server_codes import Kind
from streaming.source.change_stream import MongoChangesDataSource
from streaming.source.hints import Hints, write_hints
from tests.support.changes import now

Client = MongoClient[dict[str, Any]]
Batch = tuple[int, list[tuple[str, str]]]


class Stream:
    """A query on one database, whose batches are kept: (batch id, [(operation, key)])."""

    def __init__(self, spark: SparkSession, uri: str, database: str, folder: Path) -> None:
        spark.dataSource.register(MongoChangesDataSource)
        self.batches: list[Batch] = []
        self.trailers: list[dict[str, Any]] = []
        self.before: Callable[[int], None] = lambda batch_id: None
        self._spark = spark
        self._checkpoint = str(folder / "checkpoint")
        self._options = {"mongodb.connection.string": uri, "database.include.list": database}

    def start(self, available_now: bool = True, **options: str) -> StreamingQuery:
        named = {name.replace("__", "."): value for name, value in options.items()}
        rows = self._spark.readStream.format("mongodb-changes").options(**{**self._options, **named}).load()
        trigger = {"availableNow": True} if available_now else {"processingTime": "0 seconds"}
        writer = rows.writeStream.foreachBatch(self._keep).option("checkpointLocation", self._checkpoint)
        return writer.trigger(**trigger).start()

    def run(self, **options: str) -> None:
        """Everything there is now."""
        query = self.start(**options)
        assert query.awaitTermination(120), "availableNow did not stop"

    @property
    def keys(self) -> list[str]:
        return [key for _, rows in self.batches for _, key in rows]

    def _keep(self, frame: DataFrame, batch_id: int) -> None:
        rows = frame.select("kind", "operation_type", "_key", "trailer").collect()
        self.before(batch_id)
        self.batches.append((batch_id, [(r.operation_type, r["_key"]) for r in rows if r.kind == "event"]))
        self.trailers += [json.loads(row.trailer) for row in rows if row.kind == "trailer"]


@pytest.fixture
def stream(spark: SparkSession, mongo_uri: str, database: str, tmp_path: Path) -> Stream:
    return Stream(spark, mongo_uri, database, tmp_path)


def from_here(uri: str) -> str:
    """A start position before what the test writes next."""
    return str(now(uri).next().to_int())


def test_used_alone_it_catches_up_stops_and_goes_on(
    stream: Stream, mongo_uri: str, mongo_client: Client, database: str
) -> None:
    """availableNow reads what there is, and ends; the next run, from the checkpoint, only what is new."""
    items = mongo_client[database]["items"]
    begin = from_here(mongo_uri)
    items.insert_many([{"_id": f"{number:02}"} for number in range(20)])
    stream.run(capture__start__op__time=begin)
    assert stream.keys == [f"S{number:02}" for number in range(20)]
    items.delete_one({"_id": "07"})
    stream.run(capture__start__op__time=begin)
    assert stream.batches[-1][1] == [("delete", "S07")]
    assert len(stream.keys) == 21


def test_a_backlog_in_small_batches(
    stream: Stream, mongo_uri: str, mongo_client: Client, database: str
) -> None:
    """50,000 events, about 8,000 a batch: none lost, none doubled, in order, and each with a trailer."""
    items = mongo_client[database]["items"]
    begin = from_here(mongo_uri)
    for first in range(0, 50_000, 10_000):
        items.insert_many([{"_id": f"{number:05}"} for number in range(first, first + 10_000)])
    options = {"engine__batch__max__events": "8000", "trailer": "true", "capture__mode": "change_streams"}
    stream.run(capture__start__op__time=begin, **options)
    assert stream.keys == [f"S{number:05}" for number in range(50_000)]
    sizes = [len(rows) for _, rows in stream.batches]
    # The last takes a rest of up to a quarter along.
    assert sorted(sizes)[-2] <= 9_000
    assert max(sizes) <= 10_500
    assert [trailer["events"] for trailer in stream.trailers] == sizes
    assert all(trailer["token"] for trailer in stream.trailers)


def test_a_backlog_of_large_documents_in_small_batches(
    stream: Stream, mongo_uri: str, mongo_client: Client, database: str
) -> None:
    """40 documents of 256 kB: eight a batch of 2 MiB, and up to a quarter more."""
    begin = from_here(mongo_uri)
    mongo_client[database]["items"].insert_many([{"_id": n, "text": "x" * 256_000} for n in range(40)])
    options = {"engine__batch__max__events": "8000", "engine__batch__max__bytes": str(2 << 20)}
    stream.run(capture__start__op__time=begin, trailer="true", **options)
    sizes = [len(rows) for _, rows in stream.batches if rows]
    assert sum(sizes) == 40
    assert max(sizes) <= 10
    assert max(trailer["bytes"] for trailer in stream.trailers) <= 3 << 20


def test_a_batch_that_failed_is_replayed_as_it_was(
    stream: Stream, mongo_uri: str, mongo_client: Client, database: str
) -> None:
    """The restarted query repeats the batch with the same id and rows, although more has been written."""
    items = mongo_client[database]["items"]
    begin = from_here(mongo_uri)
    items.insert_many([{"_id": f"{number}"} for number in range(5)])

    def crash(batch_id: int) -> None:
        raise RuntimeError("the sink broke")

    stream.before = crash
    with pytest.raises(StreamingQueryException, match="the sink broke"):
        stream.run(capture__start__op__time=begin)
    items.insert_one({"_id": "later"})
    stream.before = lambda batch_id: None
    stream.run(capture__start__op__time=begin)
    assert stream.batches[0] == (0, [("insert", f"S{number}") for number in range(5)])
    assert [rows for _, rows in stream.batches[1:] if rows] == [[("insert", "Slater")]]


def test_a_start_from_now_survives_a_crash_in_the_first_batch(
    stream: Stream, mongo_client: Client, database: str
) -> None:
    """What was written between the crash and the restart is read: "now" was when the query first started."""

    def crash(batch_id: int) -> None:
        raise RuntimeError("the sink broke")

    stream.before = crash
    with pytest.raises(StreamingQueryException, match="the sink broke"):
        stream.run()
    mongo_client[database]["items"].insert_one({"_id": "in between"})
    stream.before = lambda batch_id: None
    stream.run()
    assert stream.keys == ["Sin between"]


def test_a_nonce_makes_a_batch(stream: Stream, mongo_uri: str, tmp_path: Path) -> None:
    """An engine writes it into a file, and a batch with a trailer comes, although nothing was written."""
    hints = tmp_path / "hints.json"
    query = stream.start(available_now=False, hints__file=str(hints), trailer="true")
    try:
        for nonce in (1, 2):
            write_hints(hints, Hints(nonce=nonce))

            def recorded(expected: int = nonce) -> bool:
                progress = query.lastProgress
                return progress is not None and json.loads(progress.sources[0].endOffset)["nonce"] == expected

            wait_until(recorded, f"a batch with nonce {nonce}")
    finally:
        query.stop()
    assert len(stream.trailers) >= 2
    assert stream.keys == []


def test_wrong_options_are_refused_when_the_source_is_loaded(stream: Stream) -> None:
    """Before anything is started; the name that was meant is suggested."""
    with pytest.raises(PySparkException, match=r"did you mean capture\.mode\?") as caught:
        stream.start(capture__mod="x")
    assert classify(str(caught.value)).kind is Kind.CONFIGURATION


def test_an_error_on_an_executor_keeps_its_class(
    stream: Stream, mongo_uri: str, mongo_client: Client, database: str
) -> None:
    """It reaches the driver as text, wrapped several times, and is told from other errors there."""
    begin = from_here(mongo_uri)
    mongo_client[database]["items"].insert_one({})
    with pytest.raises(StreamingQueryException) as caught:
        stream.run(capture__start__op__time=begin, collection__include__list="a" * 40_000)
    found = classify(str(caught.value))
    assert found.kind is Kind.CONFIGURATION
    assert found.name == "OperationFailure"


def test_an_error_beside_the_driver_keeps_its_class(stream: Stream) -> None:
    """The same for the process that is asked for offsets."""
    address = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200"
    with pytest.raises(StreamingQueryException) as caught:
        stream.run(mongodb__connection__string=address)
    assert classify(str(caught.value)).kind is Kind.TRANSIENT
