"""`core.values.chunks`: ranges of ids, and their JSON."""

from __future__ import annotations

import pytest

from snapshotter.core.values.chunks import Bound, KeyRange

from .some import bound, chunk, ids


def test_a_range_is_open_below_and_closed_above() -> None:
    """So that chunks share their bounds without sharing an id."""
    assert [chunk("k1", "k3").holds(key) for key in ("k1", "k2", "k3", "k4")] == [False, True, True, False]
    assert chunk(None, "k3").holds("")
    assert KeyRange(bound("k1"), None).holds("zz")


def test_an_empty_range_is_refused() -> None:
    """It shows both ends."""
    with pytest.raises(ValueError, match="after 'k1', up to 'k1'"):
        chunk("k1", "k1")


def test_a_list_holds_its_ids() -> None:
    """And nothing in between."""
    assert [ids("k1", "k3").holds(key) for key in ("k1", "k2", "k3")] == [True, False, True]


def test_a_bound_survives_json() -> None:
    """Bytes that are no text included."""
    known = Bound(b"\x00\xff", "k1")
    assert Bound.from_json(known.to_json()) == known
