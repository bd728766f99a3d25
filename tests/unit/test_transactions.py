"""What the table of transactions says, from what the transactions of a batch changed."""

from __future__ import annotations

import bson
import pyarrow as pa
import pytest
from bson import Binary

from snapshotter.landing.targets.transactions import SCHEMA, CollectionEvents, rows_of
from streaming.events.envelope import transaction_id
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

LSID = bson.encode({"id": Binary(bytes(16), 4), "uid": Binary(bytes(32), 0)})
TIME = ClusterTime(1_700_000_000, 2).to_int()
ORDERS, STOCK = Namespace("shop", "orders"), Namespace("shop", "stock")


def share(
    namespace: Namespace, events: int, *, time: int = TIME, number: int = 7, wall: int | None = 5
) -> CollectionEvents:
    return CollectionEvents(time, LSID, number, namespace, events, wall)


def test_a_transaction_has_a_begin_and_an_end_with_its_counts() -> None:
    """As Debezium's topic of transactions has it: counts stand in END alone, in all and by collection."""
    begin, end = rows_of([share(STOCK, 2, wall=9), share(ORDERS, 3, wall=8)])
    common = {"id": transaction_id(LSID, 7), "ts_ms": 8, "_cluster_time": TIME}
    assert begin == {"status": "BEGIN", **common}
    counts = [
        {"data_collection": "shop.orders", "event_count": 3},
        {"data_collection": "shop.stock", "event_count": 2},
    ]
    assert end == {"status": "END", "event_count": 5, "data_collections": counts, **common}
    assert pa.Table.from_pylist([begin, end], SCHEMA).column("event_count").to_pylist() == [None, 5]


def test_the_id_is_the_session_and_the_number() -> None:
    """The server's own text of the session, a colon, and the number: one session has many transactions."""
    zeros = "AAAAAAAAAAAAAAAAAAAAAA=="
    long = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
    assert transaction_id(LSID, 12) == (
        f'{{"id": {{"$binary": {{"base64": "{zeros}", "subType": "04"}}}},'
        f' "uid": {{"$binary": {{"base64": "{long}", "subType": "00"}}}}}}:12'
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (share(ORDERS, 1, number=7), share(ORDERS, 2, number=8)),
        (share(ORDERS, 1), share(STOCK, 2, time=TIME + 1)),
    ],
    ids=["another number", "another shard's part"],
)
def test_each_transaction_is_told_apart(first: CollectionEvents, second: CollectionEvents) -> None:
    """Two pairs, in order, also where a cluster time or a session is shared."""
    rows = list(rows_of([second, first]))
    assert [row["status"] for row in rows] == ["BEGIN", "END"] * 2
    assert [row.get("event_count") for row in rows] == [None, 1, None, 2]


def test_an_old_server_tells_whole_seconds() -> None:
    """Before MongoDB 6.0 events have no time of day but the cluster time's."""
    begin, end = rows_of([share(ORDERS, 1, wall=None)])
    assert begin["ts_ms"] == end["ts_ms"] == 1_700_000_000_000
