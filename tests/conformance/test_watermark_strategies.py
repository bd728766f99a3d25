"""One contract for the three ways to write watermarks, at the writers themselves: same tests for all.

What windows make of it, through a whole engine, is in tests/integration/test_engine_windows.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from bson.timestamp import Timestamp
from pymongo import MongoClient, WriteConcern
from pymongo.read_concern import ReadConcern

from snapshotter.core.values.watermark_ids import Strategy, close_id, edge_of, open_id
from snapshotter.core.values.window import WindowId
from snapshotter.reading.watermarks import CausalClock, WatermarkWriter, watermark_writer
from streaming.mongo.deployment import majority_time
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

ENGINE = "shop-engine"


@dataclass(slots=True)
class Source:
    """A database with documents and signals, and a writer of watermarks for it."""

    client: MongoClient[dict[str, Any]]
    database: str
    strategy: Strategy
    clock: CausalClock

    def writer(self, engine: str = ENGINE, strategy: Strategy | None = None) -> WatermarkWriter:
        signals = Namespace(self.database, "signals")
        return watermark_writer(strategy or self.strategy, self.client, engine, signals, self.clock)

    def write(self, n: int) -> ClusterTime:
        """A document, committed by a majority; returns its cluster time."""
        with self.client.start_session() as session:
            concern = WriteConcern("majority")
            things = self.client[self.database].get_collection("things", write_concern=concern)
            things.insert_one({"_id": n}, session=session)
            assert session.operation_time is not None
            return time_of(session.operation_time)

    def seen(self, since: ClusterTime, *, wait_for: int) -> list[tuple[str, Any, ClusterTime]]:
        """So many changes of documents after ``since``: operation, id, cluster time."""
        start = Timestamp(since.t, since.i + 1)
        found: list[tuple[str, Any, ClusterTime]] = []
        with self.client[self.database].watch(start_at_operation_time=start, max_await_time_ms=500) as stream:
            while len(found) < wait_for:
                event = stream.try_next()
                if event is not None and "documentKey" in event:
                    key, time = event["documentKey"]["_id"], time_of(event["clusterTime"])
                    found.append((event["operationType"], key, time))
        return found

    @property
    def signals(self) -> set[str]:
        return {document["_id"] for document in self.client[self.database]["signals"].find()}


def time_of(stamp: Timestamp) -> ClusterTime:
    return ClusterTime(stamp.time, stamp.inc)


@pytest.fixture(params=list(Strategy))
def source(
    request: pytest.FixtureRequest, mongo_client: MongoClient[dict[str, Any]], database: str
) -> Iterator[Source]:
    mongo_client[database].create_collection("signals")
    mongo_client[database].create_collection("things")
    return Source(mongo_client, database, request.param, CausalClock())


def windows(run: str, *numbers: int) -> list[WindowId]:
    return [WindowId(run, number) for number in numbers]


def test_low_and_high_bound_what_happens_between(source: Source) -> None:
    """What came before lies at or before the low watermark; what a reader saw, at or before the high one; what comes
    after lies after it."""
    writer = source.writer()
    mine = windows("a1", 1, 2, 3)
    before = source.write(1)
    low = writer.low(mine)
    between = source.write(2)
    high = writer.high(mine, not_before=between)
    after = source.write(3)
    assert before <= low < between <= high < after


def test_the_high_watermark_is_never_before_a_readers_end(source: Source) -> None:
    """Also when the reader was told of a later time than the writer's node has shown so far."""
    writer = source.writer()
    writer.low(windows("a1", 1))
    source.write(1)
    end = majority_time(source.client)
    assert writer.high(windows("a1", 1), not_before=end) >= end


def test_they_are_committed_by_a_majority_when_they_return(source: Source) -> None:
    """No failover can take them back: a read of the majority's state finds the low document at once."""
    writer = source.writer()
    low = writer.low(windows("a1", 1))
    assert majority_time(source.client) >= low
    concern = ReadConcern("majority")
    signals = source.client[source.database].get_collection("signals", read_concern=concern)
    expected = 1 if source.strategy.in_stream else 0
    assert signals.count_documents({"_id": open_id(ENGINE, WindowId("a1", 1))}) == expected
    high = writer.high(windows("a1", 1), not_before=low)
    assert majority_time(source.client) >= high


def test_the_stream_shows_each_watermark_once(source: Source) -> None:
    """In stream, the events are the watermarks: each window's low, then its high, at or before the times returned."""
    writer = source.writer()
    mine = windows("a1", 7, 8)
    start = source.write(1)
    low = writer.low(mine)
    source.write(2)
    high = writer.high(mine, not_before=low)
    if not source.strategy.in_stream:
        assert [key for _, key, _ in source.seen(start, wait_for=1)] == [2]
        return
    edges = []
    for operation, key, time in source.seen(start, wait_for=5):
        seen = edge_of(ENGINE, source.strategy, key, {"insert": "c", "delete": "d"}[operation])
        if seen is not None:
            edges.append((seen[0].number, seen[1].value))
            assert time <= (low if seen[1].value == "low" else high)
    assert edges == [(7, "low"), (8, "low"), (7, "high"), (8, "high")]


def test_discarding_and_cleaning_up_leave_others_alone(source: Source) -> None:
    """Documents of other engines, also of those whose names begin alike, and signals stay; so do those of this run when
    earlier runs are cleaned up."""
    mine = source.writer()
    foreign = ("shop", "shop-engine-2", "shop-engine/x", "SHOP-ENGINE")
    for name in foreign:
        source.writer(name, Strategy.INSERT_INSERT).low(windows("a1", 1))
    source.client[source.database]["signals"].insert_many([{"_id": "a signal"}, {"_id": f"{ENGINE}/notes"}])
    others = source.signals
    mine.low(windows("a1", 1, 2))
    mine.high(windows("a1", 1), not_before=mine.low(windows("b2", 1)))
    mine.discard(windows("a1", 1))
    expected = {open_id(ENGINE, w) for w in (*windows("a1", 2), *windows("b2", 1))}
    assert source.signals - others == (expected if source.strategy.in_stream else set())
    removed = mine.clean_up("b2")
    assert removed == (1 if source.strategy.in_stream else 0)
    expected = {open_id(ENGINE, w) for w in windows("b2", 1)}
    assert source.signals - others == (expected if source.strategy.in_stream else set())
    mine.discard(windows("b2", 1, 99))
    assert source.signals == others
    assert mine.clean_up("c3") == 0


def test_a_start_removes_what_another_strategy_has_left(source: Source) -> None:
    """As where an engine was killed, and is told to read only from then on. Those of other engines stay."""
    source.writer("shop", Strategy.INSERT_INSERT).low(windows("a1", 1))
    others = source.signals
    source.writer(ENGINE, Strategy.INSERT_INSERT).low(windows("a1", 1, 2))
    assert source.writer().clean_up("b2") == 2
    assert source.signals == others


def test_the_clock_is_told_of_every_write(source: Source) -> None:
    """What a watermark's session was told is handed on to readers: the signed time covers the low watermark."""
    writer = source.writer()
    low = writer.low(windows("a1", 1))
    if source.strategy.in_stream:
        assert source.clock.signed is not None
        assert time_of(source.clock.signed["clusterTime"]) >= low
    assert close_id(ENGINE, WindowId("a1", 1)) not in source.signals
