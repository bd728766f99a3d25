"""What the status says of the oplog, and what it warns of."""

from __future__ import annotations

from datetime import UTC, datetime

from structlog.testing import capture_logs

from snapshotter.engine.oplog_watch import OplogWatch
from snapshotter.position.runway import Oplog
from snapshotter.reporting.oplog_report import with_oplog
from snapshotter.reporting.progress_view import render
from snapshotter.reporting.status import (
    CollectionReport,
    EngineState,
    Position,
    RequestReport,
    RequestState,
    Status,
)
from streaming.positions import ClusterTime

T0 = 1_764_000_000
HOUR = 3600
FULL = Oplog(ClusterTime(T0, 1), ClusterTime(T0 + 10 * HOUR, 1), 1_000, 1_000)


def status(position: int | None, **more: object) -> Status:
    at = None if position is None else Position(t=position, i=1)
    return Status(name="shop", state=EngineState.RUNNING, position=at, **more)  # type: ignore[arg-type] # of any kind


def texts(shown: Status) -> str:
    return "\n".join(str(line) for line in render(shown).renderables)


def test_the_reach_and_the_runway_are_figures() -> None:
    """And until when, which also holds while the engine stands still."""
    found = with_oplog(status(T0 + 8 * HOUR, lag_seconds=2.0 * HOUR), FULL, 0).oplog
    assert found is not None
    assert (found.hours, found.runway_hours, found.capacity_bytes) == (10, 8, 1_000)
    assert found.held_until == datetime.fromtimestamp(T0 + 18 * HOUR, UTC)
    assert "holds the position for 8.0 h more, until" in texts(with_oplog(status(T0 + 8 * HOUR), FULL, 0))


def test_nothing_is_said_of_what_is_not_known() -> None:
    """No oplog, no position."""
    assert with_oplog(status(T0), None, 48) == status(T0)
    before = with_oplog(status(None), FULL, 48)
    assert before.oplog is not None
    assert before.oplog.runway_hours is None
    assert before.warnings == ()


def test_a_lost_position_has_no_end() -> None:
    """It is over already."""
    found = with_oplog(status(T0 - HOUR), FULL, 48)
    assert found.oplog is not None
    assert (found.oplog.runway_hours, found.oplog.held_until) == (0, None)
    assert "no longer holds the position" in found.warnings[0]
    assert "no longer holds the position" in texts(found)


def test_a_short_runway_and_a_long_snapshot_are_warned_of() -> None:
    """The snapshot by its estimate at the newest speed; one that has ended, or of unknown size, is not."""
    part = CollectionReport(name="shop.orders", rows=500, estimated_total=500 + 20 * HOUR * 10)
    running = RequestReport(id="r1", state=RequestState.RUNNING, collections=(part,))
    over = running.model_copy(update={"id": "r2", "state": RequestState.STOPPED})
    unknown = RequestReport(id="r3", collections=(CollectionReport(name="shop.people"),))
    held = status(T0 + 10 * HOUR, requests=(running, over, unknown), snapshot_speed=10.0)
    short, long = with_oplog(held, FULL, 48).warnings
    assert "10.0 h more" in short
    assert long.startswith("the snapshot r1 will take about 20.0 h")
    assert with_oplog(held, FULL, 0).warnings == ()


def test_a_paused_stream_is_told_how_long_it_may_rest() -> None:
    """However long that is, and once: that it is short is no other news. Not where the position is lost already."""
    for least in (0, 48):
        resting = status(T0 + 9 * HOUR, lag_seconds=3_600.0, stream_paused=True)
        (said,) = with_oplog(resting, FULL, least).warnings
        assert "holds its position for 9.0 h more: `snapshotter resume-stream" in said
    lost = with_oplog(status(T0 - HOUR, stream_paused=True), FULL, 48)
    assert len(lost.warnings) == 1


def test_a_warning_is_logged_when_it_is_new() -> None:
    """Not again with other figures; again once it was gone."""
    watch = OplogWatch(None, 48)  # type: ignore[arg-type] # it is not entered
    watch._oplog = FULL
    with capture_logs() as logs:
        for position in (T0 + 9 * HOUR, T0 + 8 * HOUR):
            assert len(watch.told(status(position)).warnings) == 1
        watch._oplog = Oplog(ClusterTime(T0 - 99 * HOUR, 1), FULL.newest)
        assert watch.told(status(T0 + 9 * HOUR)).warnings == ()
        watch._oplog = FULL
        watch.told(status(T0 + 9 * HOUR))
    assert len(logs) == 2
