"""Short names for the values that the core's tests are made of."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from snapshotter.core.machine import Machine
from snapshotter.core.values import effects as eff
from snapshotter.core.values import inputs as inp
from snapshotter.core.values.chunks import Bound, KeyList, KeyRange
from snapshotter.core.values.limits import Limits
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.requests import SnapshotRequest, Wanted
from snapshotter.core.values.window import Edge, WatermarkObservation, Window, WindowId
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from tests.support.taken import taken

E = TypeVar("E", bound=eff.Effect)
ORDERS = Namespace("shop", "orders")
ITEMS = Namespace("shop", "items")
W1, W2, W3 = (WindowId("a", n) for n in (1, 2, 3))


def at(time: int) -> ClusterTime:
    return ClusterTime(1, time)


def bound(key: str) -> Bound:
    return Bound(key.encode(), key)


def chunk(after: str | None, upto: str) -> KeyRange:
    return KeyRange(bound(after) if after else None, bound(upto))


def ids(*keys: str) -> KeyList:
    return KeyList(tuple(map(bound, keys)))


def window(number: int = 1, target: KeyRange | KeyList | None = None, **fields: object) -> Window:
    """A registered window of the first request's scan of ORDERS."""
    given: dict[str, object] = {
        "id": WindowId("a", number),
        "request_id": "q1",
        "namespace": ORDERS,
        "target": target or chunk(None, "k2"),
        "filter": None,
        "order": number - 1,
        "floor": at(10),
        "in_stream": True,
    }
    return Window(**{**given, **fields})  # type: ignore[arg-type]


def request(name: str = "q1", *wanted: Namespace) -> SnapshotRequest:
    return SnapshotRequest(name, tuple(map(Wanted, wanted or (ORDERS,))))


def machine(*, in_stream: bool = True, progress: Progress | None = None, **limits: int) -> Machine:
    given = {"chunk_docs": 2, "windows_in_flight": 2, "rows_in_flight": 1, "attempts": 2, **limits}
    return Machine("a", progress or Progress(), Limits(**given), in_stream=in_stream)  # type: ignore[arg-type]


def arrived(number: int, end: int, **told: object) -> inp.BatchArrived:
    return inp.BatchArrived(number, at(0), at(end), **told)  # type: ignore[arg-type]


def only(kind: type[E], said: tuple[eff.Effect, ...]) -> list[E]:
    return [effect for effect in said if isinstance(effect, kind)]


def closing(it: Machine, *windows: WindowId) -> None:
    """Bring windows to the point at which the next batch closes them."""
    for window in windows:
        it.step(inp.LowWritten(window, at(12)))
        it.step(inp.ChunkRead(window, at(13), 2))
        it.step(inp.HighWritten(window, at(14)))


def seen(*windows: WindowId) -> tuple[WatermarkObservation, ...]:
    return tuple(
        WatermarkObservation(w, edge, at(t)) for w in windows for edge, t in ((Edge.LOW, 12), (Edge.HIGH, 14))
    )


def scanning(*, last: str = "k6", ends: tuple[str, ...] = ("k2", "k4", "k6"), **told: Any) -> Machine:
    """A machine whose first request has chunks; batch 1 (up to 11) has landed, two windows are registered."""
    it = machine(**{k: told.pop(k) for k in list(told) if k not in ("empty_tables", "incomplete")})
    it.step(taken(it, request()))
    it.step(arrived(0, 10))
    it.step(inp.BatchLanded(0))
    it.step(inp.CollectionOpened("q1", ORDERS, bound(last)))
    it.step(arrived(1, 11, **told))
    it.step(inp.BatchLanded(1))
    it.step(inp.ChunksPlanned("q1", ORDERS, tuple(map(bound, ends)), exhausted=False))
    return it


def state(it: Machine) -> dict[str, Any]:
    known = {**vars(it), **vars(it.scheduler)}
    return copy.deepcopy({k: v for k, v in known.items() if k not in ("limits", "scheduler")})
