"""What a batch says of itself, from the trailers of its splits."""

from __future__ import annotations

import json

import pytest

from snapshotter.landing.batch_trailer import BatchTrailer
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

ITEMS, ORDERS = Namespace("shop", "items"), Namespace("shop", "orders")


def text(split: int, splits: int, seconds: int, **namespaces: int) -> str:
    return json.dumps(
        {
            "end": {"t": seconds, "i": 1},
            "token": f"token {split}",
            "events": sum(namespaces.values()),
            "bytes": 10 * sum(namespaces.values()),
            "namespaces": {f"shop.{name}": count for name, count in namespaces.items()},
            "operations": {f"shop.{name}": {"c": 1, "u": count - 1} for name, count in namespaces.items()},
            "sizes": {f"shop.{name}": 10 * count for name, count in namespaces.items()},
            "transactional": 2 + split,
            "split": split,
            "splits": splits,
        }
    )


def test_splits_add_up_to_the_batch() -> None:
    """Counts are sums; the end and the token are those of the last split, whichever arrived first."""
    found = BatchTrailer.from_texts([text(1, 2, 9, items=2, orders=1), text(0, 2, 5, items=4)], 7)
    assert (found.end, found.token, found.splits) == (ClusterTime(9, 1), "token 1", 2)
    assert (found.events, found.size_bytes, found.transactional) == (7, 70, 5)
    assert found.namespaces == {ITEMS: 6, ORDERS: 1}
    assert found.sizes == {ITEMS: 60, ORDERS: 10}
    assert found.operations == {ITEMS: {"c": 2, "u": 4}, ORDERS: {"c": 1, "u": 0}}


@pytest.mark.parametrize(
    "texts",
    [[], [text(0, 2, 5)], [text(1, 2, 9)], [text(0, 1, 5), text(0, 1, 5)], [text(0, 3, 5), text(2, 3, 9)]],
)
def test_a_batch_that_lacks_a_split_is_refused(texts: list[str]) -> None:
    """Rows that nobody saw would be skipped in silence otherwise."""
    with pytest.raises(RuntimeError, match=r"batch 7 .* not whole"):
        BatchTrailer.from_texts(texts, 7)
