"""Ids that the stream could not give: in how many windows they are read, and when the collection is read instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from snapshotter.core.machine import Machine
from snapshotter.core.rules.in_flight import InFlight
from snapshotter.core.values.chunks import Bound, KeyList
from snapshotter.core.values.commands import Pause, Stop
from snapshotter.core.values.effects import Discard, OpenCollection, SaveProgress, WriteLow
from snapshotter.core.values.inputs import (
    BatchLanded,
    CollectionOpened,
    LowWritten,
    Outcome,
)
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.requests import Origin, SnapshotRequest, Wanted
from snapshotter.core.values.tasks import TaskState
from streaming.namespaces import Namespace
from tests.support.taken import taken

from .some import ITEMS, ORDERS, arrived, at, bound, closing, machine, only, seen


def some(first: int, count: int) -> tuple[Bound, ...]:
    return tuple(bound(f"k{n:06d}") for n in range(first, first + count))


def missing(it: Machine, batch: int, ids: tuple[Bound, ...], namespace: Namespace = ORDERS) -> list[object]:
    """A batch in which these updates came without their documents."""
    it.step(arrived(batch, 10 * (batch + 1), incomplete={namespace: ids}))
    return list(it.step(BatchLanded(batch)))


def sizes(it: Machine) -> list[int]:
    return [len(w.target.ids) for w in it.windows.values() if isinstance(w.target, KeyList)]


def test_many_ids_are_read_in_several_windows() -> None:
    """Each id in one of them; what does not fill another window waits for the first to land, so that a trickle makes
    no window an id."""
    it = machine(reread_ids=10, reread_windows=3)
    said = missing(it, 0, some(0, 25))
    assert sizes(it) == [10, 10]
    assert len(only(WriteLow, tuple(said))) == 2  # type: ignore[arg-type]
    missing(it, 1, some(25, 3))
    assert sizes(it) == [10, 10]
    missing(it, 2, some(28, 30))
    assert sizes(it) == [10, 10, 10]
    keys = [b.key for w in it.windows.values() if isinstance(w.target, KeyList) for b in w.target.ids]
    assert len(set(keys)) == 30
    first, second, third = it.windows
    closing(it, first, second, third)
    it.step(arrived(3, 40, observations=seen(first, second, third)))
    it.step(BatchLanded(3, {w: _outcome() for w in (first, second, third)}))
    assert len(it.progress.rereads) == 28
    assert sizes(it) == [10, 10]


def _outcome() -> Outcome:
    return Outcome(10, 0)


def test_nothing_is_looked_at_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that changes neither the list nor the windows looks at none of the ids, however many wait."""
    looked: list[int] = []
    original = InFlight.free_of

    def free_of(self: InFlight, namespace: Namespace, bounds: Mapping[str, Bound]) -> Iterator[Bound]:
        looked.append(len(bounds))
        return original(self, namespace, bounds)

    monkeypatch.setattr(InFlight, "free_of", free_of)
    it = machine(reread_ids=10, reread_windows=2)
    missing(it, 0, some(0, 15))
    looked.clear()
    for window in it.windows:
        it.step(LowWritten(window, at(12)))
    it.step(arrived(1, 11))
    assert looked == []


def test_too_many_ids_are_read_with_their_collection() -> None:
    """By a request that is saved in the batch that takes them off the list; windows that read some of them end."""
    it = machine(reread_ids=10, rereads_max=20)
    missing(it, 0, some(0, 20))
    assert sizes(it) == [10, 10]
    missing(it, 1, some(0, 3), ITEMS)
    it.step(arrived(2, 30, incomplete={ORDERS: some(20, 1)}))
    said = it.step(BatchLanded(2))
    (save,) = only(SaveProgress, said)
    assert [n for n, _ in save.progress.rereads] == [ITEMS] * 3
    (request,) = save.progress.requests
    assert (request.id, request.origin) == ("reread/1.30/shop.orders", Origin.REREAD)
    assert request.tasks[0].filter is None
    assert Progress.from_json(save.progress.to_json()) == save.progress
    assert {e.namespace for e in only(Discard, said)} == {ORDERS}
    assert sizes(it) == [3]
    assert [e.after_time for e in only(OpenCollection, said)] == [at(30)]


def test_no_second_request_where_one_is_still_to_open() -> None:
    """It reads what came meanwhile as well. One that is being opened, or has been, may have passed it by."""
    it = machine(reread_ids=10, rereads_max=5)
    first = SnapshotRequest("q1", (Wanted(ORDERS),))
    it.step(arrived(0, 5, requests=(first,)))
    it.step(BatchLanded(0))
    it.step(CollectionOpened("q1", ORDERS, bound("z")))
    missing(it, 1, some(0, 6))
    missing(it, 2, some(0, 6))
    assert [r.id for r in it.progress.requests] == ["q1", "reread/1.20/shop.orders"]
    assert not it.progress.rereads
    it.step(taken(it, Stop("s", frozenset({"q1"}))))
    missing(it, 3, some(0, 6))
    assert len(it.progress.requests) == 3


def test_a_stop_does_not_reach_it() -> None:
    """Nobody else would know what it reads. A pause is applied: what was to be read stays to be read."""
    it = machine(rereads_max=1)
    missing(it, 0, some(0, 2))
    it.step(taken(it, Stop("s")))
    it.step(taken(it, Pause("p")))
    (request,) = it.progress.requests
    assert request.tasks[0].state is TaskState.WAITING
    assert request.paused
