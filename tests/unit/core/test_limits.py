"""`core.values.limits`: chunk sizes, set or learned, and how many windows at once."""

from __future__ import annotations

import pytest

from snapshotter.core.values.limits import Limits


def test_a_size_that_was_set_is_exact() -> None:
    """Whatever the chunks cost."""
    limits = Limits(chunk_docs=7)
    assert limits.first_docs() == 7
    assert limits.next_docs(7, rows=7, size_bytes=1 << 40, seconds=99.0) == 7


@pytest.mark.parametrize(
    ("size_bytes", "seconds", "docs"),
    [
        (1 << 20, 0.1, 4_000),  # cheap: four times as many, no more
        (1 << 30, 0.1, 250),  # too big: a quarter, no less
        (1 << 24, 4.0, 500),  # too slow
        (0, 0.1, 1_000),  # nothing learned
        (1, 0.0, 1_000),
    ],
)
def test_a_size_that_was_not_set_follows_bytes_and_time(size_bytes: int, seconds: float, docs: int) -> None:
    """By steps, towards the targets."""
    limits = Limits(chunk_bytes_target=1 << 25, chunk_seconds_target=2.0)
    assert limits.next_docs(1_000, rows=1_000, size_bytes=size_bytes, seconds=seconds) == docs


def test_chunks_in_flight_grow_the_next_ones_once() -> None:
    """Six of one size were planned before the first was read: each of them says the same of the next."""
    limits, docs = Limits(chunk_bytes_target=1 << 25), 1_000
    for _ in range(6):
        docs = limits.next_docs(docs, rows=1_000, size_bytes=1 << 24, seconds=0.1)
    assert docs == 2_000


def test_a_chunk_that_was_far_from_full_teaches_nothing() -> None:
    """The last one of a scan, or a range whose documents were deleted."""
    assert Limits().next_docs(1_000, rows=10, size_bytes=1, seconds=0.001) == 1_000


def test_sizes_stay_within_their_bounds() -> None:
    """At least one document, at most the maximum."""
    assert Limits(chunk_docs_max=1_500).next_docs(1_000, rows=1_000, size_bytes=1, seconds=0.001) == 1_500
    assert Limits().next_docs(1, rows=1, size_bytes=1 << 40, seconds=0.1) == 1


def test_more_windows_when_each_is_small() -> None:
    """Never fewer than asked for, never more than the maximum."""
    limits = Limits(windows_in_flight=3, windows_in_flight_max=10, rows_in_flight=1_000)
    assert [limits.slots(docs) for docs in (10_000, 200, 1)] == [3, 5, 10]


def test_few_windows_where_few_rows_may_be_in_flight() -> None:
    """As many as hold them, one at least, and no more than there would be without that."""
    limits = Limits(windows_in_flight=3, windows_in_flight_max=10, rows_in_flight=1_000)
    assert [limits.slots(docs, 500) for docs in (10_000, 300, 201, 1)] == [1, 2, 2, 10]


def test_few_windows_where_few_bytes_may_be_in_flight() -> None:
    """As many as hold them, one at least; small chunks, or ones of which nothing is known, are not bounded by that."""
    limits = Limits(windows_in_flight_max=64, bytes_in_flight=512 << 20)
    assert [limits.slots_by_bytes(size << 20) for size in (0, 8, 16, 64, 1_024)] == [64, 64, 32, 8, 1]


@pytest.mark.parametrize(
    "wrong", [{"chunk_docs": 0}, {"windows_in_flight": 0}, {"attempts": 0}, {"tasks_ahead": 0}]
)
def test_what_could_never_work_is_refused(wrong: dict[str, int]) -> None:
    """At once, not when the first chunk is read."""
    with pytest.raises(ValueError, match="at least"):
        Limits(**wrong)  # type: ignore[arg-type]
