"""Chunk reads on three nodes: one that lags behind, and one that dies under a cursor."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import Any

import bson
import pyarrow as pa
import pytest
from pymongo import MongoClient, WriteConcern
from pymongo.collection import Collection

from snapshotter.core.values.chunks import KeyRange
from snapshotter.reading.chunk_reader import ReadJob, SubRange, partition_reader
from snapshotter.testing.mongodb import MongoDeployment, start_mongodb
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.observe import observe
from streaming.mongo.errors import classify
from streaming.namespaces import Namespace
from tests.support.changes import now

pytestmark = pytest.mark.slow
PLAN = observe(bson.encode({"_id": 1, "v": 1}))


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[MongoDeployment]:
    """With fail points, so that replication to a node can be stopped."""
    with start_mongodb(nodes=3, set_parameters={"enableTestCommands": 1}) as deployment:
        yield deployment


def filled(nodes: MongoDeployment, name: str, documents: int) -> Collection[Any]:
    """A collection that all nodes have."""
    items = nodes.client()["shop"].get_collection(name, write_concern=WriteConcern(3))
    items.insert_many([{"_id": n, "v": 0} for n in range(documents)])
    return items.with_options(write_concern=WriteConcern("majority"))


def chunk(nodes: MongoDeployment, uri: str, name: str) -> Iterator[pa.RecordBatch]:
    """All of a collection as one chunk: what an executor gives, at or after this moment at the primary."""
    part = SubRange(1, KeyRange(None, None), now(nodes.uri))
    with (
        nodes.client().start_session() as session
    ):  # a node that has not got so far believes no unsigned time
        session.client["admin"].command("ping", session=session)
        signed = bson.encode(dict(session.cluster_time or {}))
    job = ReadJob(uri, Namespace("shop", name), None, COLUMNS, PLAN, (part,), signed)
    return partition_reader(job)(iter([pa.RecordBatch.from_pydict({"id": [0]})]))


def values(batches: list[pa.RecordBatch]) -> dict[int, int]:
    rows = [row for batch in batches for row in batch.to_pylist() if row["_trailer"] is None]
    return {row["_id"]: row["v"] for row in rows}


@pytest.mark.thorough
def test_a_secondary_that_lags_is_waited_for(three_nodes: MongoDeployment) -> None:
    """Read from secondaries, as the address says, a chunk is no older than its low watermark: nothing of it comes while
    the node has not got that far."""
    lagging = next(node for node in three_nodes.nodes if node.address != three_nodes.primary_address())
    uri = f"mongodb://{lagging.address}/?directConnection=true&readPreference=secondary"
    items = filled(three_nodes, "stale", 10)
    with MongoClient[dict[str, Any]](uri) as direct, ThreadPoolExecutor(1) as pool:
        direct["admin"].command("configureFailPoint", "stopReplProducer", mode="alwaysOn")
        try:
            items.update_many({}, {"$set": {"v": 1}})
            assert now(uri) < now(three_nodes.uri)
            reading = pool.submit(list, chunk(three_nodes, uri, "stale"))
            with pytest.raises(NotYet):
                reading.result(timeout=2)
        finally:
            direct["admin"].command("configureFailPoint", "stopReplProducer", mode="off")
        assert values(reading.result(timeout=180)) == dict.fromkeys(range(10), 1)


def test_a_primary_that_dies_under_a_chunk(three_nodes: MongoDeployment) -> None:
    """The read ends in an error that is worth another attempt, never in half a chunk; that attempt, from the new
    primary, has all of it, at or after what was written last."""
    items = filled(three_nodes, "chunk", 60_000)
    reading = chunk(three_nodes, three_nodes.uri, "chunk")
    head = [next(reading)]
    killed = three_nodes.kill(three_nodes.primary_address())
    try:
        with pytest.raises(Exception, match=r"cannot read a chunk of shop\.chunk") as caught:
            head += reading
        assert classify(caught.value).retriable
        assert not [batch for batch in head if batch["_trailer"].drop_null()], "it said that it was whole"
        three_nodes.primary_address()
        items.update_many({"_id": {"$gte": 59_000}}, {"$set": {"v": 2}})
        found = values(list(chunk(three_nodes, three_nodes.uri, "chunk")))
    finally:
        three_nodes.restart(killed)
    assert found == {n: 2 if n >= 59_000 else 0 for n in range(60_000)}
