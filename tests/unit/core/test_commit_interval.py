"""`core.rules.commit_interval`: how long it is from one landing to the next, at least."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshotter.core.rules.commit_interval import (
    BY_COST,
    BYTES_A_SECOND,
    LONGEST_SECONDS,
    CommitInterval,
    Cost,
)

MB = 1_000_000
bytes_ = st.integers(0, 1 << 40)
costs = st.builds(Cost, changed=bytes_, copied=bytes_)


@pytest.mark.parametrize(
    ("found", "seconds"),
    [
        ([], 0.0),
        ([Cost()], 0.0),
        ([Cost(changed=500 * MB)], 0.0),
        ([Cost(changed=1_000, copied=31 * MB)], 31.0),
        ([Cost(1_000, 31 * MB), Cost(1_000, 9 * MB)], 40.0),
        ([Cost(1_000, 248 * MB)], 60.0),
        ([Cost(20 * MB, 19 * MB)], 0.0),
        ([Cost(500 * MB, 0), Cost(1_000, 5 * MB)], 5.0),
    ],
)
def test_what_is_copied_is_paid_for_by_time(found: list[Cost], seconds: float) -> None:
    """A megabyte a second over all tables, a minute at most. Tables that mark their old rows copy nothing and wait for
    nothing; nor do landings that change more than they copy."""
    assert BY_COST.after(found) == seconds


@given(st.lists(costs, max_size=5))
def test_no_more_is_copied_than_is_bounded(found: list[Cost]) -> None:
    """Whatever landings cost: what they copy in vain is spread over enough time, or a table is as fresh as is
    promised; and one that costs more does not make it sooner."""
    seconds = BY_COST.after(found)
    assert 0 <= seconds <= LONGEST_SECONDS
    in_vain = sum(cost.copied for cost in found if cost.copied > cost.changed)
    assert seconds == LONGEST_SECONDS or in_vain <= seconds * BYTES_A_SECOND * (1 + 1e-9)
    assert BY_COST.after([*found, Cost(0, MB)]) >= seconds


@given(st.lists(costs, min_size=1, max_size=5), st.floats(0, 3_600))
def test_what_is_set_goes_before_what_it_costs(found: list[Cost], seconds: float) -> None:
    """For every landing, and for nothing else: 0 follows at once. Where no table was written there is no landing."""
    assert CommitInterval(seconds).after(found) == seconds
    assert CommitInterval(seconds).after([]) == 0


@pytest.mark.parametrize(
    ("seconds", "events_per_second", "ahead"),
    [(2.5, None, 4), (2.5, 0.0, 4), (60.0, 1.0, 61), (60.0, 100.0, 10), (60.0, 5_000.0, 1)],
)
def test_a_batch_that_is_full_is_not_waited_for(
    seconds: float, events_per_second: float | None, ahead: int
) -> None:
    """At the density of the newest batches; where that is not known, or thin, the clock decides: the stream is never so
    far ahead before."""
    assert CommitInterval(batch_events=1_000).ahead(seconds, events_per_second) == ahead
