"""A request exists once, whoever brings it: a start, the journal, signals that came together, a rename in a batch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from snapshotter.core.machine import Machine
from snapshotter.core.values import effects as eff
from snapshotter.core.values import inputs as inp
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.limits import Limits
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.requests import Origin, SnapshotRequest, Wanted
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from tests.support.taken import taken

ORDERS, ITEMS = Namespace("shop", "orders"), Namespace("shop", "items")
REQUESTS = st.builds(
    SnapshotRequest,
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from([(Wanted(ORDERS),), (Wanted(ITEMS),), (Wanted(ORDERS), Wanted(ITEMS))]),
    st.sampled_from(Origin),
    priority=st.integers(0, 1),
)
BROUGHT = st.tuples(
    st.sampled_from(["alone", "together", "batch", "restart"]), st.lists(REQUESTS, max_size=4)
)


@given(st.lists(BROUGHT, max_size=8))
def test_a_request_exists_once_whoever_brings_it(brought: list[tuple[str, list[SnapshotRequest]]]) -> None:
    """In the order in which ids came first, with what the first of each id wants. Saved progress holds the same."""
    machine, batch, order = _machine(Progress()), 0, {}
    for how, requests in brought:
        match how:
            case "alone":
                for request in requests:
                    machine.step(taken(machine, request))
            case "together":
                machine.step(inp.SignalsTaken(tuple(requests), Controls()))
            case "batch":
                machine.step(_arrived(batch, requests))
                (saved,) = (
                    e for e in machine.step(inp.BatchLanded(batch)) if isinstance(e, eff.SaveProgress)
                )
                assert [r.id for r in saved.progress.requests] == [r.id for r in machine.progress.requests]
                batch += 1
            case "restart":
                machine = _machine(Progress.from_json(machine.progress.to_json()))
                machine.step(inp.SignalsTaken((*requests, *requests), Controls()))
        for request in requests:
            order.setdefault(request.id, request)
        assert [(r.id, r.priority, r.origin) for r in machine.progress.requests] == [
            (r.id, r.priority, r.origin) for r in order.values()
        ]


def test_a_state_that_holds_one_twice_is_read_as_one() -> None:
    """As ``snapshot.mode=always`` once saved it."""
    one = Progress().accepting([]).to_json() | {"batch_id": 4}
    request = SnapshotRequest("initial-2", (Wanted(ORDERS),), Origin.INITIAL)
    machine = _machine(Progress())
    machine.step(taken(machine, request))
    (text,) = machine.progress.to_json()["requests"]
    assert [r.id for r in Progress.from_json(one | {"requests": [text, text]}).requests] == ["initial-2"]


def _machine(progress: Progress) -> Machine:
    return Machine("r", progress, Limits(), in_stream=False)


def _arrived(batch: int, requests: list[SnapshotRequest]) -> inp.BatchArrived:
    return inp.BatchArrived(batch, ClusterTime(1, batch), ClusterTime(1, batch + 1), requests=tuple(requests))
