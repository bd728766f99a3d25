"""`landing.batch_times`: how long changes wait for their batch."""

from __future__ import annotations

import pytest

from snapshotter.landing.batch_times import BatchTimes


def test_a_change_waits_for_two_batches_and_what_lies_between() -> None:
    """It came when the batch before its own had just begun; of the first batch nothing can be said."""
    ticks = iter([10.0, 13.0, 14.0, 18.5, 20.0, 20.5])
    times = BatchTimes(clock=lambda: next(ticks))
    seen = []
    for _ in range(3):
        times.begin()
        seen.append((times.land(), times.seconds))
    assert seen == [(None, 3.0), (8.5, 4.5), (6.5, 0.5)]


def test_nothing_lands_that_has_not_begun() -> None:
    """That is an error of the caller's."""
    with pytest.raises(RuntimeError, match="begun"):
        BatchTimes().land()
