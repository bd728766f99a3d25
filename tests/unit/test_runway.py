"""How long the oplog still holds a position."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshotter.position.runway import HOUR, Oplog, holds, outlasted, runway_hours, warning
from streaming.positions import ClusterTime

DAY = 24 * 3600
T0 = 1_764_000_000


def oplog(seconds: int, **more: float) -> Oplog:
    """One that reaches back so many seconds."""
    return Oplog(ClusterTime(T0, 1), ClusterTime(T0 + seconds, 1), **more)  # type: ignore[arg-type] # whole ones


def test_of_a_full_oplog_it_is_the_distance_to_the_oldest_entry() -> None:
    """Each change pushes the oldest one out."""
    full = oplog(2 * DAY, used=1_000, capacity=1_000)
    assert runway_hours(full, ClusterTime(T0 + DAY, 0)) == pytest.approx(24)
    assert runway_hours(oplog(2 * DAY), ClusterTime(T0 + DAY, 0)) == pytest.approx(24), "sizes are not known"


def test_a_young_oplog_still_grows() -> None:
    """A tenth is used in a day, so that ten days fit: the position at its head is held as long."""
    young = oplog(DAY, used=100, capacity=1_000)
    assert young.bytes_per_second == pytest.approx(100 / DAY)
    assert runway_hours(young, young.newest) == pytest.approx(240)
    assert runway_hours(young, ClusterTime(T0, 1)) == pytest.approx(216)


def test_the_least_retention_counts() -> None:
    """A server that keeps entries for 72 hours does so although the oplog is full."""
    kept = oplog(DAY, used=1_000, capacity=1_000, retention_hours=72)
    assert runway_hours(kept, kept.newest) == pytest.approx(72)


def test_what_is_gone_has_none() -> None:
    """The position right before the oldest entry is the last that is held."""
    log = oplog(DAY)
    assert holds(log, ClusterTime(T0, 0))
    assert not holds(log, ClusterTime(T0 - 1, 5))
    assert runway_hours(log, ClusterTime(T0 - 1, 5)) == 0


def test_a_young_oplog_tells_nothing_yet() -> None:
    """A burst of its first seconds is no growth to reckon with; unless it has filled it already."""
    assert runway_hours(oplog(59, used=400, capacity=1_000), ClusterTime(T0 + 59, 1)) is None
    assert runway_hours(oplog(59), ClusterTime(T0 + 59, 1)) is None
    assert runway_hours(oplog(60, used=400, capacity=1_000), ClusterTime(T0 + 60, 1)) is not None
    filled = runway_hours(oplog(10, used=900, capacity=1_000), ClusterTime(T0 + 10, 1))
    assert filled == pytest.approx(10 / 0.9 / HOUR)
    assert runway_hours(oplog(0, used=900, capacity=1_000), ClusterTime(T0, 1)) == pytest.approx(
        1 / 0.9 / HOUR
    )


@given(
    st.integers(60, 400 * DAY),
    st.integers(0, 1 << 40),
    st.integers(0, 1 << 40),
    st.integers(0, 100),
    st.integers(0, 400 * DAY),
)
def test_it_falls_with_age_and_never_below_nothing(
    span: int, used: int, capacity: int, retention: int, age: int
) -> None:
    """For any sizes: a later position is held for at least as long, and a larger oplog holds it for longer."""
    log = oplog(span, used=used, capacity=capacity, retention_hours=retention)
    larger = oplog(span, used=used, capacity=capacity * 2 + 1, retention_hours=retention)
    position = ClusterTime(T0 + max(0, span - age), 1)
    left, most = runway_hours(log, position), runway_hours(log, log.newest)
    more = runway_hours(larger, position)
    assert left is not None
    assert more is not None
    assert 0 <= left <= (most or 0)
    assert more >= left
    assert left >= max(0, position.t - T0) / HOUR - 1e-6


def test_little_is_warned_of() -> None:
    """Under the least, with what to do; never with 0. A position that is lost has its own words."""
    assert warning(48, 48) is None
    assert warning(1, 0) is None
    said = warning(47.9, 48)
    assert said is not None
    assert "47.9 h more" in said
    assert "replSetResizeOplog" in said
    assert "--to now --heal" in (warning(0, 48) or "")


def test_a_snapshot_that_outlasts_it_is_said() -> None:
    """By its id, with both times."""
    assert outlasted("r1", 3600, 1) is None
    said = outlasted("r1", 2 * 3600, 1)
    assert said is not None
    assert said.startswith(
        "the snapshot r1 will take about 2.0 h, and the oplog holds the position for 1.0 h"
    )
