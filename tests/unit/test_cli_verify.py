"""How long ``verify`` waits before it looks again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from snapshotter.cli.verify import lands_later
from snapshotter.reporting.status import EngineState, Position, Status
from streaming.positions import ClusterTime

NOW = datetime.now(UTC)
HEAD = ClusterTime(100, 2)


def said(t: int, i: int, state: EngineState = EngineState.RUNNING, seconds_ago: float = 0) -> Status:
    at = NOW - timedelta(seconds=seconds_ago)
    return Status(name="shop", state=state, position=Position(t=t, i=i), updated_at=at)


def test_an_engine_that_has_still_to_land_something_is_waited_for() -> None:
    """Up to the position that was committed by then, and no further; nobody waits for one that does not run, or is
    lost."""
    assert lands_later(said(100, 1), HEAD, NOW)
    assert lands_later(said(99, 9), HEAD, NOW)
    assert not lands_later(said(100, 2), HEAD, NOW)
    assert not lands_later(said(101, 1), HEAD, NOW)
    assert not lands_later(said(1, 1, EngineState.STOPPED), HEAD, NOW)
    assert not lands_later(said(1, 1, EngineState.FAILED), HEAD, NOW)
    assert not lands_later(said(1, 1, seconds_ago=3_600), HEAD, NOW)
    assert not lands_later(None, HEAD, NOW)
