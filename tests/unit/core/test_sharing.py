"""`core.scheduler`: how collections that are read side by side share the windows in flight."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from snapshotter.core.values import effects as eff
from snapshotter.core.values import inputs as inp
from snapshotter.core.values.requests import SnapshotRequest, Wanted
from tests.support.taken import taken

from .some import ITEMS, ORDERS, arrived, at, bound, closing, machine, only, request, seen


def two_scans(urgent: int) -> list[list[str]]:
    """What two requests, of which the second is so urgent, get of four windows at each of these points: the chunks of
    ORDERS are planned, then those of ITEMS, then the two first windows of each have landed, those of ITEMS read to
    its end."""
    it = machine(windows_in_flight=4)
    it.step(taken(it, request("q1", ORDERS)))
    it.step(taken(it, replace(request("q2", ITEMS), priority=urgent)))
    it.step(arrived(0, 10))
    it.step(inp.BatchLanded(0))
    for name, namespace, last in (("q1", ORDERS, "k9"), ("q2", ITEMS, "k3")):
        it.step(inp.CollectionOpened(name, namespace, bound(last)))
    it.step(arrived(1, 11))
    it.step(inp.BatchLanded(1))
    orders = tuple(map(bound, ("k1", "k2", "k3", "k4", "k5", "k6")))
    items = tuple(map(bound, ("k1", "k2", "k3")))
    got = [
        it.step(inp.ChunksPlanned("q1", ORDERS, orders, exhausted=False)),
        it.step(inp.ChunksPlanned("q2", ITEMS, items, exhausted=True)),
    ]
    in_flight = list(it.windows)
    closing(it, *in_flight)
    got.append(it.step(arrived(2, 20, observations=seen(*in_flight))))
    return [[low.namespace.collection for low in only(eff.WriteLow, said)] for said in got]


def test_collections_share_the_windows_in_flight() -> None:
    """The one that is planned first leaves the other its share; what that has no use for goes to the first."""
    assert two_scans(urgent=0) == [["orders"] * 2, ["items"] * 2, ["orders", "orders", "items", "orders"]]


def test_the_more_urgent_request_takes_all_windows() -> None:
    """It shares with nobody. The other one has a single window until the source has said what is urgent, and then
    what that leaves."""
    assert two_scans(urgent=1) == [["orders"], ["items"] * 3, ["orders"] * 4]


def test_what_waits_for_a_batch_to_land_loses_no_turn() -> None:
    """A filtered read that reconciles gets no window while a batch is in hand. Another collection takes one meanwhile,
    not all of them, so the more urgent one comes first once the batch has landed."""
    it = machine(chunk_docs=2, windows_in_flight=3, rows_in_flight=1)
    urgent = SnapshotRequest("q2", (Wanted(ITEMS, "even", reconcile=True),), priority=5)
    it.step(taken(it, request("q1", ORDERS), urgent))
    it.step(arrived(0, 10))
    it.step(inp.BatchLanded(0))
    it.step(inp.CollectionOpened("q1", ORDERS, bound("k9")))
    it.step(inp.CollectionOpened("q2", ITEMS, bound("k9")))
    it.step(arrived(1, 11))
    ends = tuple(bound(f"k{n}") for n in range(1, 9))
    said = [
        it.step(inp.ChunksPlanned(name, n, ends, exhausted=True))
        for name, n in (("q1", ORDERS), ("q2", ITEMS))
    ]
    during = [low.namespace for effects in said for low in only(eff.WriteLow, effects)]
    assert during == [ORDERS]
    it.step(inp.BatchLanded(1))
    assert Counter(w.namespace for w in it.windows.values()) == {ORDERS: 1, ITEMS: 2}


def test_small_chunks_leave_room_for_large_ones() -> None:
    """Chunks of 2 and of 20 documents, 40 documents in flight: twenty windows or two, and half of each side by side."""
    it = machine(chunk_docs=None, chunk_docs_start=20, windows_in_flight=1, rows_in_flight=40)
    it.step(taken(it, request("q1", ORDERS, ITEMS)))
    it.step(arrived(0, 10))
    it.step(inp.BatchLanded(0))
    for namespace in (ORDERS, ITEMS):
        it.step(inp.CollectionOpened("q1", namespace, bound("k99")))
    it.step(arrived(1, 11))
    it.step(inp.BatchLanded(1))
    it.scheduler.scans["q1", ORDERS].docs = 2
    ends = tuple(bound(f"k{n:02}") for n in range(1, 40))
    said = [it.step(inp.ChunksPlanned("q1", n, ends, exhausted=False)) for n in (ORDERS, ITEMS)]
    assert [len(only(eff.WriteLow, effects)) for effects in said] == [10, 1]
    assert Counter(w.namespace for w in it.windows.values()) == {ORDERS: 10, ITEMS: 1}


def test_large_documents_share_the_bytes_in_flight() -> None:
    """Their chunks are planned with fewer of them, and no more windows are in flight than may be held; what a chunk
    that was read had tells how many the next ones have."""
    limits = {"chunk_docs_start": 50_000, "windows_in_flight": 6, "bytes_in_flight": 512 << 20}
    it = machine(chunk_docs=None, rows_in_flight=300_000, **limits)
    it.step(taken(it, request("q1", ORDERS)))
    it.step(arrived(0, 10))
    it.step(inp.BatchLanded(0))
    it.step(inp.CollectionOpened("q1", ORDERS, bound("k99")))
    it.step(arrived(1, 11))
    it.step(inp.BatchLanded(1))
    ends = tuple(bound(f"k{n:02}") for n in range(1, 40))
    it.step(inp.ChunksPlanned("q1", ORDERS, ends, exhausted=False, docs=64, document_bytes=1 << 20))
    assert it.scheduler.scans["q1", ORDERS].docs == 64
    assert len(it.windows) == 8
    first = min(it.windows)
    it.step(inp.LowWritten(first, at(12)))
    it.step(inp.ChunkRead(first, at(13), 64, size_bytes=128 << 20, seconds=1.0))
    assert it.scheduler.scans["q1", ORDERS].docs == 16
    assert it.scheduler.scans["q1", ORDERS].document_bytes == 2 << 20
