"""The request lane: how long it waits before it reports a failure, and what it says of it."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from typing import Any, cast

import pytest
from pymongo import errors as driver

from snapshotter.core.values.effects import ReadChunk, WriteHigh, WriteLow
from snapshotter.core.values.inputs import ChunkRead, Input, LowWritten, WindowFailed
from snapshotter.core.values.watermark_ids import Strategy
from snapshotter.core.values.window import WindowId
from snapshotter.reading import request_lane
from snapshotter.reading.document_errors import DocumentFailures
from snapshotter.reading.read_buffer import Buffer, Trailer
from snapshotter.reading.request_lane import Lane
from snapshotter.reading.watermarks import CausalClock, WatermarkLost
from streaming.layouts.columns.plan import TablePlan
from streaming.positions import ClusterTime
from tests.unit.core.some import ORDERS, at, chunk

FIRST, SECOND = WindowId("a", 1), WindowId("a", 2)
REFUSED = driver.OperationFailure("not authorized on shop", 13, {"code": 13, "errmsg": "not authorized"})


class Writer:
    """Watermarks of a source at which every write ends in the same error, or (None) none does."""

    strategy = Strategy.INSERT_INSERT

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def low(self, windows: Sequence[WindowId]) -> ClusterTime:
        if self.error is not None:
            raise self.error
        return at(5)

    def high(self, windows: Sequence[WindowId], not_before: ClusterTime) -> ClusterTime:
        return self.low(windows)

    def discard(self, windows: Sequence[WindowId]) -> None:
        """Nothing was written."""

    def clean_up(self, run: str) -> int:
        return 0


class Waits:
    """The event that ends a lane's waits, which notes how long each would have been. ``stopping``: somebody stops the
    lane in the midst of the first."""

    def __init__(self, *, stopping: bool = False) -> None:
        self.seconds: list[float] = []
        self._stopping = stopping

    def wait(self, seconds: float) -> bool:
        self.seconds.append(seconds)
        return self.is_set()

    def is_set(self) -> bool:
        return self._stopping and bool(self.seconds)


class Watched:
    """A lane that nobody has started: what it is given it does at once. Writes need neither Spark nor a client."""

    def __init__(self, error: Exception | None, waits: Waits | None = None) -> None:
        self.waits, self.told, self.writer = waits or Waits(), list[Input](), Writer(error)
        nothing = cast(Any, None)
        self.lane = Lane(
            nothing, nothing, "mongodb://x", self.writer, CausalClock(), nothing, nothing, nothing,
            lambda _: True, self.told.append, nothing, DocumentFailures(), _stopped=cast(threading.Event, self.waits),
        )  # fmt: skip

    def writes_low(self, *windows: WindowId) -> list[Input]:
        """What the lane says of it."""
        before = len(self.told)
        self.lane._write_lows([WriteLow(window, ORDERS) for window in windows])
        return self.told[before:]


def test_each_failure_in_a_row_waits_twice_as_long() -> None:
    """From a second to half a minute. Each is reported after its wait, for every window of the call that failed."""
    it = Watched(driver.AutoReconnect("gone"))
    failed = [WindowFailed(window, "AutoReconnect: gone", passing=True) for window in (FIRST, SECOND)]
    for number in range(1, 8):
        assert it.writes_low(FIRST, SECOND) == failed
        assert len(it.waits.seconds) == number, "one wait for all windows of a call"
    assert it.waits.seconds == [1, 2, 4, 8, 16, 30, 30]


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (OSError("When uploading object 'reads-1': AWS Error SLOW_DOWN during PutObject operation"), True),
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (ConnectionError("Connect to tables.example:443 failed: Connection refused"), True),
        (RuntimeError("Python worker exited unexpectedly (crashed)"), False),
        (RuntimeError("nobody has foreseen this"), False),
    ],
)
def test_an_outage_of_the_storage_is_held_against_no_chunk(error: Exception, passing: bool) -> None:
    """READs are written to it by whoever reads them, so a chunk fails where it throttles, is away or is full; what may
    be the chunk's own doing counts."""
    (failed,) = Watched(error).writes_low(FIRST)
    assert isinstance(failed, WindowFailed)
    assert (failed.passing, failed.definite) == (passing, False)


def test_what_is_captured_no_more_is_not_read() -> None:
    """Single ids have no plan that would have been refused: their window fails for good, and is not waited for."""
    it = Watched(None)
    it.lane.captures = lambda namespace: namespace != ORDERS
    it.lane._read([ReadChunk(FIRST, ORDERS, chunk(None, "k9"), None, at(5))])
    (failed,) = it.told
    assert isinstance(failed, WindowFailed)
    assert failed.definite
    assert "is not captured any more" in failed.error
    assert it.waits.seconds == []


def test_a_high_watermark_that_fails_waits_in_the_same_row() -> None:
    """It is one source that does not answer, whatever it was asked for."""
    it = Watched(driver.AutoReconnect("gone"))
    it.writes_low(FIRST)
    it.lane._write_highs([WriteHigh(SECOND, ORDERS, at(3))])
    assert it.waits.seconds == [1, 2]
    assert it.told[-1] == WindowFailed(SECOND, "AutoReconnect: gone", passing=True)


def test_a_chunk_that_cannot_be_read_waits_in_the_same_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its windows fail together, each time after twice the wait; a chunk that is read begins the row anew. A definite
    error is reported at once."""
    it = Watched(None)
    gone = driver.AutoReconnect("gone")
    part = Trailer(1, 1, 10, at(6), "k1", "k1", True, TablePlan(), {})
    outcomes = [
        gone,
        gone,
        gone,
        Buffer(cast(Any, None), cast(Any, None), TablePlan(), (part,)),
        gone,
        REFUSED,
    ]
    first, second = (ReadChunk(window, ORDERS, chunk(None, "k9"), None, at(5)) for window in (FIRST, SECOND))

    def read(spark: object, job: object) -> Buffer:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(request_lane, "read", read)
    monkeypatch.setattr(Lane, "_job", lambda lane, effects: None)
    for seconds in ([1], [1, 2], [1, 2, 4]):
        before = len(it.told)
        it.lane._read([first, second])
        assert it.told[before:] == [
            WindowFailed(window, "AutoReconnect: gone", passing=True) for window in (FIRST, SECOND)
        ]
        assert it.waits.seconds == seconds
    it.lane._read([first])
    assert isinstance(it.told[-1], ChunkRead)
    for _ in range(2):
        it.lane._read([first])
    assert it.waits.seconds == [1, 2, 4, 1]
    last = it.told[-1]
    assert isinstance(last, WindowFailed)
    assert last.definite


def test_a_definite_error_is_reported_at_once() -> None:
    """Waiting cures no missing privilege; nor does it make the next wait longer."""
    it = Watched(REFUSED)
    said = it.writes_low(FIRST, SECOND)
    assert [(f.window, f.definite) for f in said if isinstance(f, WindowFailed)] == [
        (FIRST, True),
        (SECOND, True),
    ]
    assert it.waits.seconds == []
    it.writer.error = driver.AutoReconnect("gone")
    it.writes_low(FIRST)
    assert it.waits.seconds == [1]


def test_a_lost_open_document_may_be_tried_again() -> None:
    """No error of the source's at all, but it says nothing against another window of the same chunk."""
    it = Watched(WatermarkLost("1 of 1 open documents were gone"))
    it.lane._write_highs([WriteHigh(FIRST, ORDERS, at(3))])
    (said,) = it.told
    assert isinstance(said, WindowFailed)
    assert not said.definite
    assert it.waits.seconds == [1]


def test_a_stop_in_a_wait_reports_nothing_more() -> None:
    """The machine that would hear of it is not asked any more."""
    it = Watched(driver.AutoReconnect("gone"), Waits(stopping=True))
    assert it.writes_low(FIRST) == []
    assert it.waits.seconds == [1]


@pytest.mark.parametrize("windows", [(FIRST,), (FIRST, SECOND)])
def test_one_write_is_reported_to_all_its_windows(windows: tuple[WindowId, ...]) -> None:
    """With the time that they share, and without a wait."""
    it = Watched(None)
    assert it.writes_low(*windows) == [LowWritten(window, at(5)) for window in windows]
    assert it.waits.seconds == []
