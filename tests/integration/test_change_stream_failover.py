"""Three nodes: the primary steps down, a secondary lags behind, a reader stays with its node."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import Any

import bson
import pytest
from pymongo import MongoClient, WriteConcern
from pymongo.errors import CursorNotFound, PyMongoError

from snapshotter.testing.mongodb import MongoDeployment, start_mongodb
from snapshotter.testing.processes import wait_until
from streaming.source import change_cursor
from streaming.source.change_cursor import ChangeRange
from streaming.source.change_options import ChangeOptions
from streaming.source.change_stream import Offset, RangePartition
from streaming.source.document_lookup import DocumentLookup
from streaming.source.server_cursor import Reply, ServerCursor
from tests.support.changes import now, read, reader

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[MongoDeployment]:
    """With fail points, so that replication to a node can be stopped."""
    with start_mongodb(nodes=3, set_parameters={"enableTestCommands": 1}) as deployment:
        yield deployment


def ids(rows: list[dict[str, object]]) -> list[object]:
    return [row["document_key"]["_id"] for row in rows]  # type: ignore[index]


def test_the_primary_steps_down_between_batches_and_within_one(three_nodes: MongoDeployment) -> None:
    """Every batch is complete, whichever node it is read from, and read again it is the same."""
    items = three_nodes.client(retryWrites=True)["shop"]["items"]
    uri = three_nodes.uri
    source = reader(uri, database__include__list="shop", capture__mode="change_streams")
    position = now(uri)

    items.insert_many([{"_id": number} for number in range(100)])
    end = now(uri)
    first = read(source, position, end)
    three_nodes.step_down()
    assert read(source, position, end) == first
    position = end

    items.insert_many([{"_id": number} for number in range(100, 15_000)])
    end = now(uri)
    assert end > position
    batches = source.read(RangePartition(position, end))
    head = next(batches)
    three_nodes.step_down()
    rows = [*head.to_pylist(), *(row for batch in batches for row in batch.to_pylist())]
    again = read(source, position, end)
    assert [row["_key"] for row in rows] == [row["_key"] for row in again]
    assert ids(first) + ids(again) == list(range(15_000))


def test_a_node_that_lags_behind_is_waited_for(three_nodes: MongoDeployment) -> None:
    """An empty reply proves nothing before the node has reached the end of the batch; so it must.

    The same node, asked for the latest offset, answers with less than the position: that stays.
    """
    lagging = next(node for node in three_nodes.nodes if node.address != three_nodes.primary_address())
    uri = f"mongodb://{lagging.address}/?directConnection=true&readPreference=secondary"
    direct: MongoClient[dict[str, object]] = MongoClient(uri)
    items = three_nodes.client()["shop"]["late"]
    start = now(three_nodes.uri)
    direct["admin"].command("configureFailPoint", "stopReplProducer", mode="alwaysOn")
    with ThreadPoolExecutor(1) as pool:
        try:
            items.insert_many([{"_id": number} for number in range(10)])
            end = now(three_nodes.uri)
            assert now(uri) < end
            source = reader(uri, collection__include__list=r"shop\.late")
            limit = source.getDefaultReadLimit()
            assert source.latestOffset(Offset(end).to_json(), limit) == Offset(end).to_json()
            reading = pool.submit(read, source, start, end)
            with pytest.raises(NotYet):
                reading.result(timeout=2)
        finally:
            direct["admin"].command("configureFailPoint", "stopReplProducer", mode="off")
        assert ids(reading.result(timeout=180)) == list(range(10))
    direct.close()


def test_a_lookup_waits_for_a_node_that_lags_behind(three_nodes: MongoDeployment) -> None:
    """A document is never older than its event, though the events came from another node."""
    lagging = next(node for node in three_nodes.nodes if node.address != three_nodes.primary_address())
    uri = f"mongodb://{lagging.address}/?directConnection=true&readPreference=secondary"
    items = three_nodes.client()["shop"].get_collection("stale", write_concern=WriteConcern(3))
    items.insert_many([{"_id": number, "v": 0} for number in range(10)])
    start = now(three_nodes.uri)
    with MongoClient[dict[str, Any]](uri) as direct, ThreadPoolExecutor(1) as pool:
        direct["admin"].command("configureFailPoint", "stopReplProducer", mode="alwaysOn")
        try:
            three_nodes.client(w="majority")["shop"]["stale"].update_many({}, {"$set": {"v": 1}})
            end = now(three_nodes.uri)
            assert now(uri) < end
            options = ChangeOptions.parse(
                {
                    "mongodb.connection.string": three_nodes.uri,
                    "collection.include.list": r"shop\.stale",
                    "capture.mode": "change_streams",
                }
            )
            changes = ChangeRange(three_nodes.uri, options.stream, start, end)
            updates = [event for events in changes for event in events if event[0] == b"update"]
            lookup = DocumentLookup(uri, end, lambda namespace: True)
            filling = pool.submit(lambda: [event for part in lookup.filled(updates) for event in part])
            with pytest.raises(NotYet):
                filling.result(timeout=2)
        finally:
            direct["admin"].command("configureFailPoint", "stopReplProducer", mode="off")
        documents = [bson.decode(event[3][b"fullDocument"]) for event in filling.result(timeout=180)]
    assert documents == [{"_id": number, "v": 1} for number in range(10)]


def test_the_primary_steps_down_while_documents_are_looked_up(three_nodes: MongoDeployment) -> None:
    """The lookups go on with the new one; every update has its document."""
    items = three_nodes.client(retryWrites=True)["shop"]["looked_up"]
    items.insert_many([{"_id": number} for number in range(20_000)])
    start = now(three_nodes.uri)
    items.update_many({}, {"$set": {"v": 1}})
    source = reader(three_nodes.uri, collection__include__list=r"shop\.looked_up")
    batches = source.read(RangePartition(start, now(three_nodes.uri)))
    head = next(batches)
    three_nodes.step_down()
    rows = [*head.to_pylist(), *(row for batch in batches for row in batch.to_pylist())]
    assert [bson.decode(row["document"]) for row in rows] == [{"_id": n, "v": 1} for n in range(20_000)]


def test_a_reader_of_secondaries_stays_with_one(
    three_nodes: MongoDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cursor lives on one node: every request of a batch finds it there, and none has to be opened a second time.
    (What the tests before did to the nodes may still go on, and close a cursor; but it is never asked for in vain.)"""
    opened: list[Any] = []

    class Counted(ServerCursor):
        def __init__(self, *target: Any) -> None:
            opened.append(target)
            super().__init__(*target)

        def more(self, batch_size: int, await_ms: int) -> Reply:
            try:
                return super().more(batch_size, await_ms)
            except CursorNotFound as error:
                raise AssertionError("asked of a node that does not have the cursor") from error
            except PyMongoError as error:
                print(f"a cursor ended: {error!r}")
                raise

    monkeypatch.setattr(change_cursor, "ServerCursor", Counted)
    uri = f"{three_nodes.uri}&readPreference=secondary&localThresholdMS=1000"
    start = now(uri)
    three_nodes.client()["shop"]["many"].insert_many([{"_id": number} for number in range(30_000)])
    end = now(uri)

    def read_by_one_cursor() -> bool:
        opened.clear()
        rows = read(reader(uri, collection__include__list=r"shop\.many"), start, end)
        assert ids(rows) == list(range(30_000))
        return len(opened) == 1

    wait_until(read_by_one_cursor, "a read that nothing comes into")
