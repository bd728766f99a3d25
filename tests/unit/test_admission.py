"""How much goes into a batch: short lags whole, long ones cut at a cluster time by a count."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from streaming.source.admission import Admitted, Counted, cut, splits, stride_for, takes_all, weight


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


def test_a_lag_is_counted_where_that_is_cheap() -> None:
    """What came while the engine stood still may be divided among readers then; one that keeps up is not counted."""
    assert takes_all(5, 200_000, 1.0, cheaply_counted=True)
    assert not takes_all(6, 200_000, 1.0, cheaply_counted=True)
    assert takes_all(6, 200_000, 1.0)
    assert not takes_all(5, 200_000, None, cheaply_counted=True)


def ones(*times: int) -> list[Counted]:
    return [(time, 1) for time in times]


def test_an_event_of_many_bytes_counts_as_several() -> None:
    """A batch of 512 MB and 200,000 events at most is full of 512 documents of 1 MB, or of 200,000 small ones."""
    each = (512 << 20) / 200_000
    assert weight(512, 512 << 20, each) == 200_000
    assert weight(200_000, 100 << 20, each) == 200_000
    assert weight(1, 0, each) == 1


def test_all_fits() -> None:
    """Below the limit there is no cut."""
    assert cut(ones(1, 2, 3), limit=4) == Admitted(None, ((1, 1), (2, 1), (3, 1)))
    assert cut([], limit=4) == Admitted(None)


def test_the_cut_is_the_last_time_whose_events_fit() -> None:
    """Three events fit into a limit of three; the fourth begins the next batch."""
    assert cut(ones(1, 2, 3, 4), limit=3).last == 3


def test_a_small_rest_is_taken_along() -> None:
    """Ten events end a backlog within a quarter behind a limit of eight; eleven do not, and are cut at eight."""
    assert cut(ones(*range(10)), limit=8).last is None
    assert cut(ones(*range(11)), limit=8) == Admitted(7, tuple(ones(*range(8))))


def test_events_of_one_time_are_never_split() -> None:
    """A group that would pass the limit goes into the next batch as a whole."""
    assert cut(ones(1, 2, 2, 2, 3), limit=3).last == 1


def test_a_first_group_above_the_limit_goes_alone() -> None:
    """A transaction larger than the limit must be taken whole, or nothing would ever be."""
    assert cut(ones(7, 7, 7, 7, 8), limit=2).last == 7


def test_a_sampled_event_stands_for_several() -> None:
    """With a stride of 64, two samples are 128 events."""
    assert cut([(1, 64), (2, 64), (3, 64)], limit=128).last == 2


def test_the_count_stops_a_quarter_behind_the_limit() -> None:
    """No more events are taken from the server than it takes to know the cut."""
    taken = 0

    def endless() -> Iterator[Counted]:
        nonlocal taken
        while True:
            taken += 1
            yield taken, 1

    assert cut(endless(), limit=100).last == 100
    assert taken <= 127


def test_a_batch_is_shared_among_readers() -> None:
    """Splits of about equal size, ending at sampled times; a small batch is not worth a second reader."""
    counted = [(time, 128) for time in range(1_000)]
    assert splits(counted, 2) == (499,)
    assert splits(counted, 4) == (249, 499, 749)
    assert splits(counted, 1) == ()
    assert splits([(time, 1) for time in range(39_999)], 4) == ()
    assert splits([], 4) == ()


@given(st.lists(st.integers(0, 60_000), max_size=30), st.integers(1, 6))
def test_splits_end_inside_the_batch_and_ascend(weights: list[int], readers: int) -> None:
    """No reader goes without a sample, and none ends at the last time: what is behind it is the last reader's."""
    counted = list(enumerate(weights))
    ends = splits(counted, readers)
    assert list(ends) == sorted(set(ends))
    assert len(ends) < readers
    assert all(end < len(weights) - 1 for end in ends)


def test_a_sample_of_a_batch_is_large_enough() -> None:
    """Small limits are counted exactly; large ones leave at least 1,000 samples."""
    assert stride_for(1) == stride_for(1_999) == 1
    assert stride_for(200_000) == 128
    assert all(limit // stride_for(limit) >= 1_000 for limit in (1_000, 5_000, 123_456, 10_000_000))


@given(st.lists(st.integers(1, 5), max_size=30), st.integers(1, 12))
def test_batches_are_whole_groups_within_the_limit(groups: list[int], limit: int) -> None:
    """Cutting again and again takes every group once, whole; a batch passes the limit only with one group, or by a
    quarter at the end."""
    everything = [time for time, size in enumerate(groups, 1) for _ in range(size)]
    rest, batches = everything, []
    while rest:
        last = cut(ones(*rest), limit).last
        batch = [time for time in rest if last is None or time <= last]
        assert batch, "no progress"
        batches.append(batch)
        rest = rest[len(batch) :]
        at_the_end = not rest and len(batch) <= limit + limit // 4
        assert len(batch) <= limit or len(set(batch)) == 1 or at_the_end
    assert [time for batch in batches for time in batch] == everything
