"""Signals are handled ahead of a stream that is late, once and in their order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import bson
import pytest
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.errors import AutoReconnect

from snapshotter.core.values.tasks import TaskState
from snapshotter.core.values.watermark_ids import open_id
from snapshotter.core.values.window import WindowId
from snapshotter.intake import signals_ahead
from snapshotter.intake.signals_ahead import BEHIND_SECONDS, SignalsAhead, Stream
from snapshotter.landing.targets import state_tables
from snapshotter.landing.targets.target import LandedCollection
from snapshotter.testing.processes import wait_until
from streaming.mongo.deployment import majority_time
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from tests.support import raw_bson as b
from tests.support.engines import SECONDS, Lab, Reads, lab, limits, reads, task_of

__all__ = ["lab", "reads"]
Client = MongoClient[dict[str, Any]]


@dataclass
class Late:
    """A stream that stands where the test says."""

    position: ClusterTime
    known_head: ClusterTime
    holding: bool = False


class Watched:
    """One that counts how often it is looked at."""

    def __init__(self, at: ClusterTime) -> None:
        self.at, self.looks = at, 0
        self.known_head, self.holding = ClusterTime(1 << 31, 0), False

    @property
    def position(self) -> ClusterTime:
        self.looks += 1
        return self.at


@dataclass
class Handler:
    """Gets documents, and knows when it has so many; refuses the first time where it is told to."""

    wanted: int
    fails: int = 0
    got: list[str] = field(default_factory=list)
    enough: threading.Event = field(default_factory=threading.Event)

    def __call__(self, documents: Sequence[bytes]) -> None:
        if self.fails:
            self.fails -= 1
            raise AutoReconnect("no storage, for a moment")
        self.got += [bson.decode(document)["_id"] for document in documents]
        if len(self.got) >= self.wanted:
            self.enough.set()


def dropped_at(client: Client, database: str) -> ClusterTime:
    oplog = client["local"]["oplog.rs"].find({"ns": f"{database}.$cmd", "o.drop": "signals"})
    (entry,) = oplog
    return ClusterTime(entry["ts"].time, entry["ts"].inc)


@contextmanager
def looking(client: Client, database: str, stream: Stream, handler: Handler) -> Iterator[SignalsAhead]:
    ahead = SignalsAhead(client, Namespace(database, "signals"), stream, handler, every=0.02)
    ahead.start()
    try:
        yield ahead
    finally:
        ahead.close()


@pytest.mark.parametrize("why", ["behind", "holding"])
def test_what_a_late_stream_would_show_is_handled(mongo_client: Client, database: str, why: str) -> None:
    """From its position on, in order, also what comes later; no watermark. The stream then leaves those out, once."""
    signals = mongo_client[database]["signals"]
    signals.insert_one({"_id": "long ago"})
    here = majority_time(mongo_client)
    head = ClusterTime(here.t + (BEHIND_SECONDS + 1 if why == "behind" else 0), 0)
    watermark = open_id("engine", WindowId("0123456789ab", 1))
    signals.insert_many([{"_id": "first"}, {"_id": watermark}, {"_id": "second"}])
    handler = Handler(wanted=3)
    with looking(mongo_client, database, Late(here, head, why == "holding"), handler) as ahead:
        signals.insert_one({"_id": "third"})
        assert handler.enough.wait(SECONDS)
    assert handler.got == ["first", "second", "third"]
    shown = [bson.encode({"_id": name}) for name in ("first", "other", "second", "third")]
    assert ahead.not_yet(shown) == [shown[1]]
    assert ahead.not_yet(shown) == shown


def test_the_server_is_not_asked_where_there_is_no_signal(mongo_client: Client, database: str) -> None:
    """It would go through all of a backlog for it. The first one that is inserted is handled like any other."""
    signals = mongo_client[database]["signals"]
    late = Watched(majority_time(mongo_client))
    signals.insert_one({"_id": open_id("engine", WindowId("0123456789ab", 1))})
    handler = Handler(wanted=1)
    with looking(mongo_client, database, late, handler) as ahead:
        wait_until(lambda: late.looks >= 3, "some looks", seconds=SECONDS)
        assert ahead._changes is None
        signals.insert_one({"_id": "first"})
        assert handler.enough.wait(SECONDS)
    assert handler.got == ["first"]


def test_no_document_keeps_the_others_waiting(mongo_client: Client, database: str) -> None:
    """One with a date, a text or an id that pymongo refuses is handed on as it is."""
    here = majority_time(mongo_client)
    signals = mongo_client[database]["signals"]
    late = bson.encode({"_id": "late", "at": DatetimeMS(2**60)})
    bad = bson.encode({"_id": "bad", "type": "text"}).replace(b"text", b"t\xffxt")
    odd = bson.encode({"_id": "zzz"}).replace(b"zzz", b"\xc3\x28\xff")
    old = b.id_document(b.binary(b"", 2))
    for raw in (
        late,
        bad,
        odd,
        old,
        bson.encode({"_id": DatetimeMS(-(2**60))}),
        bson.encode({"_id": "behind them"}),
    ):
        signals.insert_one(RawBSONDocument(raw))
    got: list[bytes] = []
    enough = threading.Event()

    def handler(documents: Sequence[bytes]) -> None:
        got.extend(documents)
        if len(got) == 6:
            enough.set()

    late_stream = Late(here, ClusterTime(here.t + BEHIND_SECONDS + 1, 0))
    ahead = SignalsAhead(mongo_client, Namespace(database, "signals"), late_stream, handler, every=0.02)
    ahead.start()
    try:
        assert enough.wait(SECONDS)
    finally:
        ahead.close()
    assert got[:3] == [late, bad, odd]


def test_a_dropped_collection_is_looked_into_again(mongo_client: Client, database: str) -> None:
    """Its drop ends a change stream; what comes after, in the collection that is made anew, is handled as well."""
    signals = mongo_client[database]["signals"]
    late = Late(majority_time(mongo_client), ClusterTime(1 << 31, 0))
    signals.insert_one({"_id": "before"})
    handler = Handler(wanted=1)
    with looking(mongo_client, database, late, handler):
        assert handler.enough.wait(SECONDS)
        signals.drop()
        late.position = majority_time(mongo_client)
        handler.wanted, handler.enough = 2, threading.Event()
        signals.insert_one({"_id": "after"})
        assert handler.enough.wait(SECONDS)
    assert handler.got == ["before", "after"]


@pytest.mark.parametrize("before", [["before"], []], ids=["a signal before it", "none before it"])
def test_a_drop_that_lies_ahead_is_waited_for(mongo_client: Client, database: str, before: list[str]) -> None:
    """What comes before it is handled, once; what comes after it, as soon as the stream has passed it."""
    signals = mongo_client[database]["signals"]
    signals.insert_one({"_id": "long ago"})
    late = Watched(majority_time(mongo_client))
    for name in before:
        signals.insert_one({"_id": name})
    signals.drop()
    signals.insert_one({"_id": "after"})
    handler = Handler(wanted=len(before) + 1)
    with looking(mongo_client, database, late, handler):
        wait_until(lambda: late.looks >= 3, "another look behind the one that met the drop", seconds=SECONDS)
        assert handler.got == before
        late.at = dropped_at(mongo_client, database)
        assert handler.enough.wait(SECONDS)
    assert handler.got == [*before, "after"]


def test_a_failure_loses_nothing(mongo_client: Client, database: str) -> None:
    """What could not be handled is looked for again; the stream does not leave it out meanwhile."""
    here = majority_time(mongo_client)
    mongo_client[database]["signals"].insert_one({"_id": "only"})
    handler = Handler(wanted=1, fails=2)
    late = Late(here, ClusterTime(here.t + BEHIND_SECONDS + 1, 0))
    with looking(mongo_client, database, late, handler):
        assert handler.enough.wait(SECONDS)
    assert (handler.got, handler.fails) == (["only"], 0)


@pytest.mark.slow
def test_a_stop_takes_effect_while_the_stream_is_behind(
    lab: Lab, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is handled while a batch is held up before it, and no chunk is read any more. What is wrong with a signal is
    said once, though the stream shows it as well."""
    monkeypatch.setattr(signals_ahead, "BEHIND_SECONDS", -1)
    lab.with_options(snapshot__mode="no_data")
    lab.collection("orders").insert_many([{"_id": n} for n in range(30)])
    lab.tune = limits(3, 1)
    held, go = threading.Event(), threading.Event()
    real: Callable[..., LandedCollection] = state_tables.land_table

    def land_table(*given: Any, **named: Any) -> LandedCollection:
        held.set()
        assert go.wait(SECONDS)
        return real(*given, **named)

    monkeypatch.setattr(state_tables, "land_table", land_table)
    with lab.running() as engine:
        engine.execute_snapshot(lab.name("orders"), request_id="q")
        assert held.wait(SECONDS)
        lab.signal("stop-snapshot", "s")
        lab.signals.insert_one({"_id": "odd", "type": "explode"})
        engine.until("the stop", lambda: task_of(engine, "q").state is TaskState.STOPPED, SECONDS)
        engine.until("the refusal", lambda: engine.engine.signal_outcomes.refused, SECONDS)
        read = len(reads.jobs)
        go.set()
        engine.catch_up(SECONDS)
        assert [name for name, _ in engine.engine.signal_outcomes.refused] == ["odd"]
        assert len(reads.jobs) == read
