"""How much goes into a batch: short lags whole, long ones cut at a cluster time by a count."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from streaming.admission import cut, stride_for, takes_all


def test_a_lag_that_no_deployment_can_fill_is_taken_whole() -> None:
    """Two seconds at 100,000 events a second fit into 200,000; three do not."""
    assert takes_all(2, 200_000, None)
    assert not takes_all(3, 200_000, None)


def test_a_known_density_stretches_what_is_taken_whole() -> None:
    """At 1,000 events a second thirty seconds hold 30,000: with room for four times that in 200,000."""
    assert takes_all(30, 200_000, 1_000.0)
    assert not takes_all(30, 100_000, 1_000.0)


def test_a_density_says_nothing_about_a_long_lag() -> None:
    """An hour is counted even if recent batches were nearly empty: a bulk load may lie in it."""
    assert not takes_all(3_600, 200_000, 0.01)


def test_all_fits() -> None:
    """Below the limit there is no cut."""
    assert cut([1, 2, 3], limit=4, stride=1) is None
    assert cut([], limit=4, stride=1) is None


def test_the_cut_is_the_last_time_whose_events_fit() -> None:
    """Three events fit into a limit of three; the fourth begins the next batch."""
    assert cut([1, 2, 3, 4], limit=3, stride=1) == 3


def test_events_of_one_time_are_never_split() -> None:
    """A group that would pass the limit goes into the next batch as a whole."""
    assert cut([1, 2, 2, 2, 3], limit=3, stride=1) == 1


def test_a_first_group_above_the_limit_goes_alone() -> None:
    """A transaction larger than the limit must be taken whole, or nothing would ever be."""
    assert cut([7, 7, 7, 7, 8], limit=2, stride=1) == 7


def test_a_sampled_event_stands_for_its_stride() -> None:
    """With a stride of 64, two samples are 128 events."""
    assert cut([1, 2, 3], limit=128, stride=64) == 2


def test_the_count_stops_at_the_limit() -> None:
    """No more events are taken from the server than it takes to know the cut."""
    taken = 0

    def endless() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    assert cut(endless(), limit=10, stride=1) == 10
    assert taken <= 11


def test_a_sample_of_a_batch_is_large_enough() -> None:
    """Small limits are counted exactly; large ones leave at least 1,000 samples."""
    assert stride_for(1) == stride_for(1_999) == 1
    assert stride_for(200_000) == 128
    assert all(limit // stride_for(limit) >= 1_000 for limit in (1_000, 5_000, 123_456, 10_000_000))


@given(st.lists(st.integers(1, 5), max_size=30), st.integers(1, 12))
def test_batches_are_whole_groups_within_the_limit(groups: list[int], limit: int) -> None:
    """Cutting again and again takes every group once, whole; a batch passes the limit only with one group."""
    rest = [time for time, size in enumerate(groups, 1) for _ in range(size)]
    batches = []
    while rest:
        last = cut(rest, limit, stride=1)
        batch = [time for time in rest if last is None or time <= last]
        assert batch, "no progress"
        batches.append(batch)
        rest = rest[len(batch) :]
    assert [time for batch in batches for time in batch] == [
        time for time, size in enumerate(groups, 1) for _ in range(size)
    ]
    assert all(len(batch) <= limit or len(set(batch)) == 1 for batch in batches)
