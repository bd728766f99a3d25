"""The spans of a landing's keys, from which the MERGE's literal ranges are made."""

from __future__ import annotations

import pyarrow as pa
import pytest

from snapshotter.landing import _SPANS, _spans_of


@pytest.mark.parametrize("count", [0, 1, _SPANS, 2 * _SPANS - 1, 2 * _SPANS, 3 * _SPANS + 17])
def test_spans_hold_every_key(count: int) -> None:
    """Few keys stand by themselves, many in groups of neighbours; none is left out, whatever their number and order."""
    keys = [f"{number * 7919 % 1_000_003:07}" for number in range(count)]
    spans = _spans_of(pa.chunked_array([keys[: count // 3], keys[count // 3 :]], pa.string()))
    place = {key: number for number, key in enumerate(sorted(keys))}
    ends = [-1, *(place[high] for _, high in spans)]
    assert [place[low] for low, _ in spans] == [end + 1 for end in ends[:-1]]
    assert ends[-1] == count - 1
    assert len(spans) <= 2 * _SPANS
