"""`streaming.keys.ranges`: the literal ranges that prune a MERGE."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.keys.ranges import cover, holds, key_ranges

_KEYS = st.lists(st.text(max_size=40), max_size=40)


def test_the_largest_gaps_are_left_out() -> None:
    """With two ranges allowed, the one wide gap splits the keys."""
    assert key_ranges(["a1", "a2", "a9", "x1", "x5"], limit=2) == (("a1", "a9"), ("x1", "x5"))
    assert key_ranges(["x5", "a1"], limit=1) == (("a1", "x5"),)


def test_no_keys_need_no_range() -> None:
    """An empty source has no ranges at all; it is not the same as a source without limits."""
    assert key_ranges([]) == ()


def test_keys_alike_in_32_characters_stay_together() -> None:
    """Delta's statistics hold 32 characters: a split within them would prune nothing."""
    stem = "k" * 32
    assert key_ranges([stem + "a", stem + "z"], limit=4) == ((stem + "a", stem + "z"),)


def test_ranges_are_joined_where_they_overlap() -> None:
    """Windows and streamed keys are covered together."""
    assert cover([("a", "f"), ("c", "d"), ("e", "h"), ("x", "y")]) == (("a", "h"), ("x", "y"))


def test_nonsense_is_refused() -> None:
    """A limit of nothing, or a range turned round, is the caller's mistake and is shown."""
    with pytest.raises(ValueError, match="limit of 0"):
        key_ranges(["a"], limit=0)
    with pytest.raises(ValueError, match=r"'b' \.\. 'a'"):
        cover([("b", "a")])


@given(_KEYS, st.integers(1, 6))
def test_every_key_is_held(keys: list[str], limit: int) -> None:
    """Rule 10: no key is outside; and the ranges are few, disjoint, ascending, and end on keys."""
    ranges = key_ranges(keys, limit)
    assert all(holds(ranges, key) for key in keys)
    assert len(ranges) <= limit
    ends = [end for pair in ranges for end in pair]
    assert ends == sorted(ends)
    assert set(ends) <= set(keys)
    assert all(left[1] < right[0] for left, right in pairwise(ranges))
