"""When requests came and went: noted as it is seen, in order, and kept over a life of the engine."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from snapshotter.core.values.chunks import Bound
from snapshotter.core.values.progress import RequestProgress
from snapshotter.core.values.requests import SnapshotRequest, Wanted
from snapshotter.reporting.request_times import RequestTimes, Times
from streaming.namespaces import Namespace

BEGIN = datetime(2026, 11, 27, 14, 0, tzinfo=UTC)
QUEUED = RequestProgress.accepted(SnapshotRequest("r", (Wanted(Namespace("shop", "orders")),)))
OPENED = QUEUED.with_task(QUEUED.tasks[0].opened(Bound(b"z", "z"), 9, ordered_keys=True))
FAILED = OPENED.with_task(OPENED.tasks[0].failed("no room"))


class Clock:
    """A second later at every look."""

    def __init__(self) -> None:
        self.seconds = -1

    def __call__(self) -> datetime:
        self.seconds += 1
        return BEGIN + timedelta(seconds=self.seconds)


@pytest.fixture
def times() -> RequestTimes:
    return RequestTimes(Clock())


def second(number: int) -> datetime:
    return BEGIN + timedelta(seconds=number)


def test_each_time_is_that_of_the_first_look(times: RequestTimes) -> None:
    """And the end goes where a request that failed goes on."""
    times.asked("r", BEGIN.timestamp() - 5)
    assert times.look(QUEUED) == Times(second(-5), second(0))
    times.started("r")
    assert times.look(OPENED) == Times(second(-5), second(0), second(1))
    assert times.look(FAILED) == times.look(FAILED) == Times(second(-5), second(0), second(1), second(3))
    assert times.look(OPENED).ended is None
    assert times.of("r").started == second(1)
    assert times.of("another") == Times()


def test_no_time_is_before_the_one_that_it_follows_from(times: RequestTimes) -> None:
    """A sender's clock may be ahead, and a start may be seen before the request is."""
    times.asked("r", BEGIN.timestamp() + 3_600)
    times.started("r")
    assert times.of("r") == Times(second(0), second(0), second(0))


def test_what_was_stopped_in_the_queue_never_started(times: RequestTimes) -> None:
    """It has ended all the same."""
    stopped = QUEUED.with_task(QUEUED.tasks[0].stopped())
    found = times.look(stopped)
    assert (found.started, found.ended) == (None, second(0))


def test_another_life_goes_on_with_what_was_reported(times: RequestTimes) -> None:
    """Those that are forgotten leave nothing."""
    known = Times(None, second(-9), second(-8), second(-7))
    times.restore({"r": known})
    assert times.look(FAILED) == known
    times.look(replace(QUEUED, id="q"))
    times.keep({"q"})
    assert (len(times), times.of("r")) == (1, Times())


def test_the_time_of_a_signal_that_is_no_request_is_asked_for_once(times: RequestTimes) -> None:
    """A time that is not known is none."""
    times.asked("p", BEGIN.timestamp())
    times.asked("x", 0)
    assert (times.sent("p"), times.sent("p"), times.sent("x")) == (second(0), None, None)


def test_a_signal_that_is_sent_again_has_its_newest_time(times: RequestTimes) -> None:
    """It was refused, and nothing became of it; where nobody knows the new time, the old one is none."""
    times.asked("r", BEGIN.timestamp())
    times.asked("r", BEGIN.timestamp() + 5)
    assert times.asked_at("r") == times.asked_at("r") == second(5)
    times.asked("r", 0)
    assert times.asked_at("r") is None
