"""What is counted of batches, windows and looks."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from snapshotter.core.values.effects import Discard, ReadChunk
from snapshotter.core.values.inputs import BatchLanded, ChunkRead, Outcome, WindowFailed
from snapshotter.core.values.window import WindowId
from snapshotter.landing.batch_trailer import BatchTrailer
from snapshotter.landing.targets.target import KEYS_SCHEMA, Landed, LandedCollection
from snapshotter.metrics.figures import Lag
from snapshotter.metrics.tally import LOOKS, Phases, Tally
from streaming.namespaces import Namespace
from tests.unit.core.some import ORDERS, at, chunk

SIGNALS = Namespace("shop", "signals")
ONE, TWO = WindowId("a", 1), WindowId("a", 2)


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def asked(window: WindowId) -> ReadChunk:
    return ReadChunk(window, ORDERS, chunk(None, "k2"), None, at(1))


def trailer(**operations: dict[str, int]) -> BatchTrailer:
    named = {Namespace("shop", name): counts for name, counts in operations.items()}
    return BatchTrailer(at(9), None, 0, 4_096, {}, operations=named)


def phases(read: float = 0.25) -> Phases:
    clock = Clock()
    made = Phases(clock)
    for name, seconds in (("read", read), ("survey", 1.0), ("land", 2.0), ("save", 0.5)):
        clock.now += seconds
        made.end(name)
    return made


def test_phases_follow_one_another() -> None:
    """Each has the time since the one before it ended."""
    assert phases().seconds == {"read": 0.25, "survey": 1.0, "land": 2.0, "save": 0.5}


def test_a_batch_with_events() -> None:
    """Events by operation, without signals; rows and commits of tables that wrote; how long everything took."""
    tally = Tally(Clock(500.0))
    tally.batch_arrived(trailer())
    assert tally.counts()["bytes_landing"] == {"": 4_096}
    table = LandedCollection(ORDERS, KEYS_SCHEMA.empty_table(), events=5, deletes=2, wrote=True)
    table.decode_seconds, table.write_seconds = 0.5, 1.5
    repeated = LandedCollection(SIGNALS, KEYS_SCHEMA.empty_table(), events=7)
    landed = Landed({ORDERS: table, SIGNALS: repeated})
    tally.batch_landed(trailer(orders={"c": 4, "d": 2}, signals={"c": 9}), SIGNALS, landed, phases())
    found = tally.counts()
    assert found["events_seen"] == {"c": 4, "d": 2}
    assert found["rows_landed"] == {"change": 3, "delete": 2}
    assert (found["commits"], found["commit_seconds"]) == ({"": 1}, {"decode": 0.5, "write": 1.5})
    assert (found["batches"], found["empty_polls"], found["bytes_landing"]) == ({"": 1}, {}, {"": 0})
    assert (found["poll_ms"], found["last_landed"]) == ({"": 250}, {"": 500.0})
    assert found["batch_seconds"]["land"] == 2.0


def test_a_batch_of_nothing_but_signals_is_an_empty_poll() -> None:
    """It says nothing of when the last event came."""
    tally = Tally()
    tally.batch_landed(trailer(signals={"c": 1}), SIGNALS, Landed(), phases(0.1))
    found = tally.counts()
    assert (found["empty_polls"], found["empty_poll_ms"]) == ({"": 1}, {"": 100})
    assert (found["last_landed"], found["poll_ms"], found["events_seen"]) == ({}, {}, {})


def test_windows_from_their_read_to_their_end() -> None:
    """READs are held until their window has landed, or is given up; what became of them is counted."""
    tally = Tally(Clock(77.0))
    tally.note(WindowFailed(TWO, "x"), [asked(ONE), asked(TWO)])
    for window, rows in ((ONE, 10), (TWO, 4)):
        tally.note(ChunkRead(window, at(2), rows, size_bytes=100 * rows, seconds=0.5), [])
    assert tally.counts()["bytes_read"] == {"": 1_400}
    tally.note(
        BatchLanded(7, {ONE: Outcome(8, 2, deleted=1, unchanged=3)}), [Discard(ONE, ORDERS, landed=True)]
    )
    tally.note(WindowFailed(TWO, "x", definite=True), [Discard(TWO, ORDERS, landed=False)])
    found = tally.counts()
    assert (found["documents_read"], found["last_read"], found["bytes_read"]) == (
        {"": 14},
        {"": 77.0},
        {"": 0},
    )
    assert (found["chunks_read"], found["chunk_read_seconds"]) == ({"": 2}, {"": 1.0})
    assert (found["reads_superseded"], found["reads_unchanged"]) == ({"": 2}, {"": 3})
    assert found["rows_landed"] == {"read": 5, "missing": 1}
    assert (found["windows"], found["retries"]) == ({"landed": 1, "given_up": 1}, {"window": 1})


def test_what_is_read_too_late_is_not_held() -> None:
    """The window was given up while its chunk was being read."""
    tally = Tally()
    tally.note(WindowFailed(ONE, "x"), [asked(ONE), Discard(ONE, ORDERS, landed=False)])
    tally.note(ChunkRead(ONE, at(2), 10, size_bytes=1_000), [])
    assert tally.counts()["bytes_read"] == {"": 0}


def test_another_run_begins_with_nothing_in_flight() -> None:
    """What had been counted stays."""
    tally = Tally()
    tally.note(WindowFailed(TWO, "x"), [asked(ONE)])
    tally.note(ChunkRead(ONE, at(2), 10, size_bytes=1_000), [])
    tally.run_begins()
    tally.note(WindowFailed(TWO, "x"), [])
    found = tally.counts()
    assert (found["bytes_read"], found["documents_read"], found["retries"]) == (
        {"": 0},
        {"": 10},
        {"window": 2},
    )


def test_the_lag_is_that_of_the_last_looks() -> None:
    """Looks at which it was not known do not count, nor do those of long ago."""
    tally = Tally()
    assert tally.looked(None) is None
    for lag in (9_000, *[1_000] * LOOKS):
        found = tally.looked(lag)
    assert found == Lag(1_000, 1_000, 1_000, 1_000, 1_000, 1_000)
    assert tally.looked(None) == found


def test_only_what_has_a_figure_is_counted() -> None:
    """A name that is misspelt is a mistake, not a figure that stays at zero."""
    with pytest.raises(KeyError):
        Tally().add("retrys")
    with pytest.raises(KeyError):
        Tally().put("bytes_maximum", 1)
