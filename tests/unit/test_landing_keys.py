"""What a landing knows of its keys: the spans that MERGE's literal ranges are made of, and what saves it work."""

from __future__ import annotations

import pyarrow as pa
import pytest

from snapshotter.landing.targets.state_rows import (
    _SPANS,
    KEYS_SCHEMA,
    LandedCollection,
    _files,
    _known,
    _spans_of,
)
from snapshotter.reading.read_buffer import Trailer
from streaming.delta.row_writer import Known
from streaming.layouts.columns.plan import TablePlan
from streaming.namespaces import Namespace
from streaming.positions import ORIGIN


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


ORDERS = Namespace("shop", "orders")


def trailer(first: str | None, last: str | None, *, unique: bool = True) -> Trailer:
    return Trailer(1, 2, 0, ORIGIN, first, last, unique, TablePlan(), None)


@pytest.mark.parametrize(
    ("keys", "trailers", "distinct"),
    [
        (["a", "b"], [], True),
        (["a", "a"], [], False),
        ([], [], True),
        (["b", "x"], [trailer("a", "c"), trailer("d", "d"), trailer(None, None)], True),
        ([], [trailer("d", "f"), trailer("a", "d")], False),
        ([], [trailer("a", "c", unique=False)], False),
        ([], [trailer("a", "z"), trailer("b", "c")], False),
    ],
    ids=[
        "events",
        "twice",
        "none",
        "trailers",
        "trailers that touch",
        "a trailer with a key twice",
        "one in another",
    ],
)
def test_a_merge_is_spared_its_guard_only_where_the_keys_were_seen(
    keys: list[str], trailers: list[Trailer], distinct: bool
) -> None:
    """Events of which one key comes twice, and READs that may meet, are guarded by the MERGE's own plan."""
    table = pa.table([keys, [1] * len(keys)], schema=KEYS_SCHEMA)
    expected = Known(rows=len(keys) + 5, distinct=distinct, held=distinct, deletes=4)
    assert (
        _known(LandedCollection(ORDERS, table, events=len(keys), deletes=1), 5, trailers, missing=3)
        == expected
    )


@pytest.mark.parametrize(
    ("rows", "cores", "files"),
    [(0, 2, 1), (7, 32, 1), (40_000, 32, 2), (300_000, 2, 2), (300_000, 32, 15), (2_000_000, 2, 8)],
)
def test_an_append_is_shared_by_the_cores(rows: int, cores: int, files: int) -> None:
    """But a few rows, which may come in hundreds of small chunks, are one file."""
    assert _files(rows, cores) == files
