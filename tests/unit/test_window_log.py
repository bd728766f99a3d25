"""The list of landed windows: what is in it, from when on, and that it does not grow for ever."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import bson
import pytest

from snapshotter.core.values.chunks import KeyRange
from snapshotter.core.values.effects import Closing, Discard, LandBatch, ReadChunk
from snapshotter.core.values.inputs import BatchLanded, ChunkRead, HighWritten, LowWritten
from snapshotter.core.values.outcome import Outcome
from snapshotter.core.values.window import Window
from snapshotter.reading.ranges import bound_of
from snapshotter.reporting import window_log
from snapshotter.reporting.window_log import WindowLog
from tests.unit.core.some import ORDERS, at, window

START = datetime(2024, 6, 1, tzinfo=UTC)


class Clock:
    """Each look at it is a second later than the one before."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> datetime:
        self.looks += 1
        return START + timedelta(seconds=self.looks)


def registered(number: int, request_id: str = "q1") -> Window:
    upto = bound_of(bson.encode({"_id": 100 * number}))
    return window(number, KeyRange(None, upto), request_id=request_id)


def landing(*windows: Window, batch: int = 7) -> LandBatch:
    closings = tuple(Closing(w, at(1), proven_new=False) for w in windows)
    return LandBatch(batch, at(0), at(9), closings, frozenset({ORDERS}), {})


def read(log: WindowLog, *windows: Window) -> None:
    """Each is opened, read, and marked as read."""
    for w in windows:
        log.note(LowWritten(w.id, at(1)), [ReadChunk(w.id, ORDERS, w.target, None, at(1))])
        log.note(ChunkRead(w.id, at(2), 5), [])
        log.note(HighWritten(w.id, at(3)), [])


def land(log: WindowLog, *windows: Window, batch: int = 7) -> None:
    log.note(HighWritten(windows[0].id, at(3)), [landing(*windows, batch=batch)])
    outcomes = {w.id: Outcome(4, 1, deleted=2) for w in windows}
    log.note(BatchLanded(batch, outcomes), [Discard(w.id, ORDERS, landed=True) for w in windows])


def test_a_window_is_listed_with_its_moments_and_its_outcome() -> None:
    """Not before its batch has landed; then with when it was open, by the clock, and what became of its READs."""
    log, one = WindowLog(Clock()), registered(1)
    read(log, one)
    assert log.listed() == []
    log.note(BatchLanded(6), [landing(one)])
    log.note(BatchLanded(7, {one.id: Outcome(4, 1, 2)}), [Discard(one.id, ORDERS, landed=True)])
    (found,) = log.listed()
    assert (found.id, found.number, found.request_id, found.collection) == ("a/1", 1, "q1", "shop.orders")
    assert (found.upto, found.rows, found.dropped, found.deleted, found.batch) == ("100", 4, 1, 2, 7)
    assert START < found.low_at < found.read_at < found.high_at < found.landed_at


def test_only_a_requests_own_windows() -> None:
    """Two requests land in one batch, and each has its own."""
    log, mine, other = WindowLog(), registered(1), registered(2, "q2")
    read(log, mine, other)
    land(log, mine, other)
    assert [w.id for w in log.listed()] == ["a/1", "a/2"]
    assert [w.id for w in log.listed("q2")] == ["a/2"]


def test_a_window_that_was_given_up_is_not_listed() -> None:
    """Nor do its moments stay, though what was under way for it is answered later: another window reads its chunk."""
    log, lost, kept = WindowLog(), registered(1), registered(2)
    read(log, lost, kept)
    log.note(BatchLanded(6), [Discard(lost.id, ORDERS, landed=False)])
    log.note(LowWritten(lost.id, at(1)), [])
    log.note(ChunkRead(lost.id, at(2), 5), [])
    land(log, kept)
    assert [w.id for w in log.listed()] == ["a/2"]
    assert log._moments == {}


def test_only_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine may run for years."""
    monkeypatch.setattr(window_log, "KEPT", 3)
    log = WindowLog()
    for number in range(1, 6):
        read(log, registered(number))
        land(log, registered(number), batch=number)
    assert [w.number for w in log.listed()] == [3, 4, 5]


def test_windows_in_flight_are_told_by_their_run() -> None:
    """With what has happened of them; one that landed or was given up is none, nor is what another run had open."""
    log, one, two, lost = WindowLog(Clock()), registered(1), registered(2), registered(3)
    read(log, one)
    log.note(LowWritten(two.id, at(1)), [ReadChunk(two.id, ORDERS, two.target, None, at(1))])
    read(log, lost)
    log.note(BatchLanded(6), [Discard(lost.id, ORDERS, landed=False)])
    closing, opened = log.in_flight("a")
    assert (closing.number, closing.collection, opened.number) == (1, "shop.orders", 2)
    assert closing.low_at < closing.read_at < closing.high_at
    assert (opened.read_at, opened.high_at) == (None, None)
    assert log.in_flight("b") == log.in_flight(None) == []
    land(log, one)
    assert [window.number for window in log.in_flight("a")] == [2]
