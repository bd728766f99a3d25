"""`core.rules.in_flight`: windows are numbered, and none shares an id with another."""

from __future__ import annotations

from snapshotter.core.rules.in_flight import InFlight
from snapshotter.core.rules.scan import Planned
from snapshotter.core.values.tasks import TaskProgress

from .some import ITEMS, ORDERS, at, bound, chunk


def test_a_window_takes_the_floor_of_its_moment() -> None:
    """The end of the newest batch: what streamed before was not kept for it."""
    flight = InFlight("a", in_stream=True)
    one = flight.chunk("q1", TaskProgress(ORDERS), Planned(0, chunk(None, "k2")))
    flight.floor = at(20)
    two = flight.single_ids(ITEMS, (bound("k7"),))
    assert (str(one.id), str(two.id)) == ("a/1", "a/2")
    assert two.floor == at(20)
    assert list(flight.windows) == [one.id, two.id]


def test_an_id_is_free_while_no_window_may_read_it() -> None:
    """In its own collection; under a collation a range may hold any."""
    flight = InFlight("a", in_stream=True)
    flight.chunk("q1", TaskProgress(ORDERS), Planned(0, chunk(None, "k2")))
    flight.single_ids(ORDERS, (bound("k4"),))
    waiting = {key: bound(key) for key in ("k1", "k2", "k3", "k4")}
    assert list(flight.free_of(ORDERS, waiting)) == [bound("k3")]
    assert list(flight.free_of(ITEMS, waiting)) == list(waiting.values())
    flight.chunk("q1", TaskProgress(ITEMS, ordered_keys=False), Planned(0, chunk(None, "k2")))
    assert list(flight.free_of(ITEMS, waiting)) == []


def test_windows_of_single_ids_give_way() -> None:
    """Those that hold one of the ids taken, of the same collection, and no ranges."""
    flight = InFlight("a", in_stream=True)
    flight.chunk("q1", TaskProgress(ORDERS), Planned(0, chunk(None, "k2")))
    mine = flight.single_ids(ORDERS, (bound("k7"), bound("k8")))
    flight.single_ids(ITEMS, (bound("k7"),))
    assert flight.giving_way(ORDERS, chunk("k7", "k9").holds) == [mine]
    assert flight.giving_way(ORDERS, chunk("k8", "k9").holds) == []
    assert flight.reading_ids(ORDERS) == [mine]
    assert [w.request_id for w in flight.of_task("q1", ORDERS)] == ["q1"]


def test_a_batch_waits_for_windows_that_are_about_to_be_ready() -> None:
    """While one is being read and those that are ready make no commit worth its while; what is being landed does not
    count, and nothing in flight is nothing to wait for."""
    flight = InFlight("a", in_stream=False)
    assert not flight.worth_waiting(None, 5)
    one = flight.chunk("q1", TaskProgress(ORDERS), Planned(0, chunk(None, "k2")))
    two = flight.chunk("q1", TaskProgress(ORDERS), Planned(1, chunk("k2", "k4")))
    assert flight.worth_waiting(None, 5)
    flight.windows[one.id] = one.low_written(at(1)).chunk_read(at(2), 4).high_written(at(3))
    assert flight.worth_waiting(None, 5)
    assert not flight.worth_waiting(None, 4)
    flight.windows[two.id] = two.low_written(at(1)).chunk_read(at(2), 1).high_written(at(3))
    assert not flight.worth_waiting(None, 9)
