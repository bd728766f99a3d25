"""Fragments of large events put together again, as MongoDB documents them; no server here sends any."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import bson
import pytest
from bson.errors import InvalidBSON
from hypothesis import given
from hypothesis import strategies as st

from streaming.source.raw_events import parse_event
from streaming.source.split_events import Fragments

EVENT = {
    "operationType": "update",
    "clusterTime": bson.Timestamp(7, 1),
    "ns": {"db": "shop", "coll": "orders"},
    "documentKey": {"_id": 1},
    "updateDescription": {"updatedFields": {"a": 1}},
    "fullDocument": {"_id": 1, "a": "x" * 50},
    "fullDocumentBeforeChange": {"_id": 1, "a": "y" * 50},
}


def fragments(event: dict[str, Any], cuts: list[int], token: str) -> list[bytes]:
    """The event, cut between its fields; each fragment has a token of its own."""
    names = list(event)
    ends = sorted({0, *cuts, len(names)})
    parts = [names[begin:end] for begin, end in pairwise(ends)]
    return [
        bson.encode(
            {
                "_id": {"_data": f"{token}{place}"},
                "splitEvent": {"fragment": place, "of": len(parts)},
                **{name: event[name] for name in part},
            }
        )
        for place, part in enumerate(parts, 1)
    ]


@given(st.lists(st.integers(1, len(EVENT) - 1), min_size=1))
def test_fragments_make_the_event(cuts: list[int]) -> None:
    """However it was cut: its fields whole, and the token of the last fragment. What was not split is as it came."""
    gather = Fragments()
    parts = fragments(EVENT, cuts, "82")
    whole = [gather.add(part) for part in parts]
    assert whole[:-1] == [None] * (len(parts) - 1)
    assert whole[-1] is not None
    found = bson.decode(whole[-1])
    assert found.pop("_id") == {"_data": f"82{len(parts)}"}
    assert found == EVENT
    assert parse_event(whole[-1])[:2] == (b"update", 7 << 32 | 1)
    plain = bson.encode({"_id": {"_data": "83"}, **EVENT})
    assert not gather.pending
    assert gather.add(plain) == plain
    inside = bson.encode({"_id": {"_data": "84"}, "fullDocument": {"splitEvent": {"fragment": 1, "of": 2}}})
    assert gather.add(inside) == inside


def test_fragments_that_do_not_follow_are_an_error() -> None:
    """One that is missing, one of another event, and an event in between: never an event of two."""
    first, second, third = fragments(EVENT, [2, 4], "82")
    for order in ((second,), (first, third), (first, first), (first, bson.encode(EVENT))):
        *before, last = order
        gather = Fragments()
        assert [gather.add(part) for part in before] == [None] * len(before)
        with pytest.raises(InvalidBSON, match="fragment"):
            gather.add(last)
