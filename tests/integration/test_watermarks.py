"""Watermark writers where the strategies differ: documents that are gone, and clocks that only go forward."""

from __future__ import annotations

from typing import Any

import pytest
from bson.timestamp import Timestamp
from pymongo import MongoClient
from pymongo.errors import BulkWriteError
from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)

from snapshotter.core.values.watermark_ids import Strategy, close_id, open_id
from snapshotter.core.values.window import WindowId
from snapshotter.reading.watermarks import CausalClock, InsertedWatermarks, WatermarkLost, watermark_writer
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

Client = MongoClient[dict[str, Any]]


def writer(client: Client, database: str, strategy: Strategy) -> InsertedWatermarks:
    found = watermark_writer(strategy, client, "e", Namespace(database, "signals"), CausalClock())
    assert isinstance(found, InsertedWatermarks)
    return found


def test_an_open_document_that_is_gone_is_no_high_watermark(mongo_client: Client, database: str) -> None:
    """With ``insert_delete`` the delete is the watermark: if somebody else was quicker, the error says how many of
    which documents were gone, and asks for a TTL index."""
    marks = writer(mongo_client, database, Strategy.INSERT_DELETE)
    windows = [WindowId("a1", 1), WindowId("a1", 2)]
    low = marks.low(windows)
    mongo_client[database]["signals"].delete_one({"_id": open_id("e", windows[0])})
    with pytest.raises(WatermarkLost, match=rf"1 of 2 open documents .*a1/1-open.*{database}\.signals.*TTL"):
        marks.high(windows, low)


def test_a_window_has_one_low_and_one_high(mongo_client: Client, database: str) -> None:
    """Ids are unique, so a second write of the same watermark is refused by the server."""
    marks = writer(mongo_client, database, Strategy.INSERT_INSERT)
    windows = [WindowId("a1", 1)]
    low = marks.low(windows)
    with pytest.raises(BulkWriteError):
        marks.low(windows)
    marks.high(windows, low)
    with pytest.raises(BulkWriteError):
        marks.high(windows, low)
    names = {d["_id"] for d in mongo_client[database]["signals"].find()}
    assert names == {open_id("e", windows[0]), close_id("e", windows[0])}
    documents = list(mongo_client[database]["signals"].find({}, {"_id": 0}))
    assert {d["type"] for d in documents} == {"snapshot-window-open", "snapshot-window-close"}


@pytest.mark.parametrize("strategy", [Strategy.INSERT_INSERT, Strategy.INSERT_DELETE])
def test_every_watermark_is_a_majority_write(mongo_uri: str, database: str, strategy: Strategy) -> None:
    """Each write that is a watermark asks for a majority, and for an answer within a time: one that an election can
    take back would mark nothing."""
    sent = Sent()
    with MongoClient[dict[str, Any]](mongo_uri, event_listeners=[sent]) as client:
        marks = writer(client, database, strategy)
        windows = [WindowId("a1", 1)]
        marks.high(windows, marks.low(windows))
    names = [name for name, _ in sent.writes]
    assert names == ["insert", "insert" if strategy is Strategy.INSERT_INSERT else "delete"]
    for _, concern in sent.writes:
        assert concern["w"] == "majority"
        assert concern["wtimeout"] > 0


class Sent(CommandListener):
    """The writes that a client sends, with their write concern."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, dict[str, Any]]] = []

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name in ("insert", "delete", "update"):
            self.writes.append((event.command_name, event.command.get("writeConcern", {})))

    def succeeded(self, event: CommandSucceededEvent) -> None:
        pass

    def failed(self, event: CommandFailedEvent) -> None:
        pass


def test_documents_are_kept_where_that_is_wanted(mongo_client: Client, database: str) -> None:
    """Those of ``insert_insert``, also when earlier runs are cleaned up; ``insert_delete`` lives by removing."""
    for strategy, left in ((Strategy.INSERT_INSERT, {"open", "close"}), (Strategy.INSERT_DELETE, set())):
        mongo_client[database]["signals"].delete_many({})
        signals = Namespace(database, "signals")
        marks = watermark_writer(strategy, mongo_client, "e", signals, CausalClock(), keep=True)
        windows = [WindowId("a1", 1)]
        marks.high(windows, marks.low(windows))
        marks.discard(windows)
        assert marks.clean_up("b2") == 0
        assert {d["_id"].split("-")[1] for d in mongo_client[database]["signals"].find()} == left


def test_cluster_time_writes_nothing(mongo_client: Client, database: str) -> None:
    """Not even a collection; and its high watermark is a reader's end where that is the later one."""
    marks = watermark_writer(Strategy.CLUSTER_TIME, mongo_client, "e", None, CausalClock())
    low = marks.low([WindowId("a1", 1)])
    late = ClusterTime(low.t + 1_000, 1)
    assert marks.high([WindowId("a1", 1)], late) == late
    marks.discard([WindowId("a1", 1)])
    assert marks.clean_up("b2") == 0
    assert mongo_client[database].list_collection_names() == []


def test_strategies_that_write_need_a_collection(mongo_client: Client) -> None:
    """A configuration that got this far without one is a mistake, named by its option."""
    with pytest.raises(ValueError, match=r"insert_insert needs signal\.data\.collection"):
        watermark_writer(Strategy.INSERT_INSERT, mongo_client, "e", None, CausalClock())


def test_the_clock_keeps_the_latest_time() -> None:
    """Times come from many sessions, in any order."""
    clock = CausalClock()
    clock.observe(None)
    assert clock.signed is None
    for seconds, increment in ((5, 1), (7, 2), (7, 1), (6, 9)):
        clock.observe({"clusterTime": Timestamp(seconds, increment), "signature": {}})
    assert clock.signed is not None
    assert clock.signed["clusterTime"] == Timestamp(7, 2)
