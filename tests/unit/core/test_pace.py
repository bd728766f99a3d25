"""`core.rules.pace`: how much a backfill reads at a time beside changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshotter.core.rules.pace import Pace
from snapshotter.core.values.limits import Limits

MOST, FIRST, LEAST, TARGET = 300_000, 150_000, 112_500, 8.0
LIMITS = Limits(rows_in_flight=MOST, target_lag_seconds=TARGET, yield_seconds=None)
seconds = st.floats(0, 1e6)


def settled(fixed: float, per_row: float, batches: int = 60) -> list[tuple[int, float]]:
    """Rows and waits of batches of which each costs ``fixed`` seconds and so much more a row."""
    pace, seen = Pace.first(LIMITS), []
    for _ in range(batches):
        waited = 2 * (fixed + per_row * pace.rows)
        seen.append((pace.rows, waited))
        pace = pace.after(waited, pace.rows, LIMITS)
    return seen


def test_a_backfill_begins_with_half() -> None:
    """Nothing is known yet of how fast things go here."""
    assert Pace.first(LIMITS).rows == FIRST
    assert Pace.first(replace(LIMITS, rows_in_flight=1)).rows == 1


def test_where_reading_makes_way_there_is_room_for_twice_as_many() -> None:
    """What lands is among the READs in flight then, not beside them."""
    yields = replace(LIMITS, yield_seconds=2)
    assert Pace.first(yields).rows == 300_000
    assert Pace(440_000).after(1.0, 440_000, yields).rows == 600_000
    assert Pace(440_000).after(1e9, 440_000, yields).rows == 225_000


@pytest.mark.parametrize(
    ("read_seconds", "rows"),
    [
        (1.2, 200_000),  # three times 100,000 a second, by two readers: in nine tenths of the target, 7.2 s
        (0.6, MOST),  # a fast machine: all that may be in flight
        (6.0, FIRST),  # a slow one, or one that is not warm yet: what a landing takes will tell
        (0.0, FIRST),  # not known
    ],
)
def test_how_fast_chunks_are_read_predicts_how_much_is_read_for_the_first_landing(
    read_seconds: float, rows: int
) -> None:
    """A change waits for a landing, for the reading in between, and for its own landing: each about as long."""
    assert Pace.first(LIMITS).expected(50_000, read_seconds, LIMITS).rows == rows
    readers = replace(LIMITS, readers=4)
    assert Pace.first(readers).expected(50_000, 2 * read_seconds, readers).rows == rows


def test_a_slower_chunk_takes_nothing_back() -> None:
    """It was perhaps read beside other work; and what a landing has told counts more than what chunks tell."""
    quick = Pace.first(LIMITS).expected(50_000, 1.2, LIMITS)
    assert quick.expected(50_000, 60.0, LIMITS) == quick
    for waited in (1e9, 7.9, 1.0):
        landed = quick.after(waited, quick.rows, LIMITS)
        assert landed.expected(50_000, 0.001, LIMITS) == landed


def test_less_is_read_where_changes_wait_too_long() -> None:
    """In proportion, and never less than three eighths of what may be in flight."""
    assert Pace(280_000).after(10.0, 280_000, LIMITS).rows == 224_000
    assert Pace(280_000).after(1e9, 280_000, LIMITS).rows == LEAST


def test_more_is_read_where_there_is_time() -> None:
    """At least by a sixteenth of the most, unless the room there was has not been used, or the target is near."""
    assert Pace(200_000).after(7.0, 200_000, LIMITS).rows == 218_750
    assert Pace(299_000).after(5.0, 299_000, LIMITS).rows == MOST
    assert Pace(200_000).after(5.0, 50_000, LIMITS).rows == 200_000
    assert Pace(200_000).after(7.9, 200_000, LIMITS).rows == 200_000


def test_with_much_time_left_the_pace_is_found_at_once() -> None:
    """As many as take nine tenths of the target if waits grow with the READs, counted from those that landed."""
    assert Pace(200_000).after(5.0, 200_000, LIMITS).rows == 288_000
    assert Pace(200_000).after(5.0, 160_000, LIMITS).rows == 230_400
    assert Pace(200_000).after(0.0, 200_000, LIMITS).rows == MOST


def test_without_a_target_nothing_changes() -> None:
    """A backfill reads as much as it may, however long changes wait."""
    limits = Limits(target_lag_seconds=None)
    assert Pace(250_000).after(1e9, 250_000, limits).rows == 250_000
    assert Pace(250_000).expected(50_000, 0.001, limits).rows == 250_000


@pytest.mark.parametrize(
    ("fixed", "per_row", "rows"),
    [
        (1.5, 10e-6, (215_000, 250_000)),  # 250,000 rows take as long as may be
        (1.0, 1e-6, (MOST, MOST)),  # a fast machine: all that may be in flight
        (9.0, 10e-6, (LEAST, LEAST)),  # late whatever is read: the backfill goes on
    ],
)
def test_a_backfill_comes_to_rest_below_the_target(
    fixed: float, per_row: float, rows: tuple[int, int]
) -> None:
    """On machines of different speed, and without going above it again and again."""
    least, most = rows
    for read, waited in settled(fixed, per_row)[20:]:
        assert least <= read <= most
        assert waited <= TARGET or read == LEAST


@given(st.integers(1, MOST), seconds, st.integers(0, MOST), st.integers(1, MOST), st.floats(0.001, 1e3))
def test_a_pace_stays_within_its_bounds(
    rows: int, waited: float, landed: int, most: int, target: float
) -> None:
    """At least one row and three eighths of the most, at most all; longer waits never lead to more."""
    limits = Limits(rows_in_flight=most, target_lag_seconds=target, yield_seconds=None)
    least = max(1, most * 3 // 8)
    begun = Pace(min(max(rows, least), most))
    after = begun.after(waited, landed, limits)
    assert least <= after.rows <= most
    assert begun.after(waited + 1, landed, limits).rows <= after.rows
