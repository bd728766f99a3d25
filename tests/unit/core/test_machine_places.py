"""`core.machine`: how many windows are in flight at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snapshotter.core.values import effects as eff
from snapshotter.core.values import inputs as inp
from snapshotter.core.values.window import WindowId
from streaming.positions import ClusterTime

from .some import arrived, at
from .test_machine import W1, W2, W3, closing, only, scanning, seen


def test_the_next_chunks_are_read_while_windows_land() -> None:
    """Windows that are being landed take no place of those to come; but a chunk that failed never waits for a place,
    or those behind it, which hold all places, would wait for it for ever."""
    it = scanning(windows_in_flight=2)
    closing(it, W1, W2)
    said = it.step(arrived(2, 20, observations=seen(W1, W2)))
    assert len(only(eff.WriteLow, said)) == 1  # the scan has three chunks
    lost = it.step(inp.BuffersLost(2, frozenset({W1, W2})))
    assert len(only(eff.WriteLow, lost)) == 2
    assert len(it.windows) == 3


@pytest.mark.parametrize(("waited", "streams", "opened"), [(20.0, True, 2), (20.0, False, 3), (1.0, True, 3)])
def test_fewer_windows_where_changes_wait_long(waited: float, streams: bool, opened: int) -> None:
    """What the batch before has shown counts for the next windows, as long as changes stream."""
    limits = {"windows_in_flight": 3, "rows_in_flight": 6, "target_lag_seconds": 8, "yield_seconds": 0}
    it = scanning(ends=("k1", "k2", "k3", "k4", "k5", "k6"), **limits)
    closing(it, W1, W2, W3)
    it.step(arrived(2, 20, observations=seen(W1, W2, W3), streams=streams))
    outcomes = {window: inp.Outcome(2, 0) for window in (W1, W2, W3)}
    it.step(inp.BatchLanded(2, outcomes, waited))
    assert len(it.windows) == opened


@pytest.mark.parametrize(
    ("streams", "yields", "opened"), [(True, 0, 4), (True, None, 2), (True, 60, 2), (False, 0, 2)]
)
def test_more_windows_where_what_lands_is_among_them(streams: bool, yields: int | None, opened: int) -> None:
    """Where reading makes way for changes as much is held as otherwise, with what lands: so there may be more windows.
    Whatever changes wait, where no target is set."""
    limits = {
        "windows_in_flight": 1,
        "rows_in_flight": 4,
        "target_lag_seconds": None,
        "yield_seconds": yields,
    }
    it = scanning(ends=("k1", "k2", "k3", "k4", "k5", "k6"), **limits)
    closing(it, W1, W2)
    it.step(arrived(2, 20, observations=seen(W1, W2), streams=streams))
    it.step(inp.BatchLanded(2, {W1: inp.Outcome(2, 0), W2: inp.Outcome(2, 0)}, 1e9))
    assert len(it.windows) == opened


@pytest.mark.parametrize(
    ("streams", "rows", "seconds", "opened"),
    [(True, 4, 1e-6, 4), (True, 4, 60.0, 2), (True, 4, 0.0, 2), (True, 1, 1e-6, 2), (False, 4, 1e-6, 2)],
)
def test_where_chunks_are_read_quickly_there_are_more_windows_for_the_first_landing(
    streams: bool, rows: int, seconds: float, opened: int
) -> None:
    """Beside changes; how long a landing takes is not known yet. A chunk of few rows tells nothing."""
    sizes = {"chunk_docs": 4, "rows_in_flight": 8, "yield_seconds": 0}
    it = scanning(ends=("k1", "k2", "k3", "k4", "k5", "k6"), **sizes)
    it.step(arrived(2, 20, streams=streams))
    it.step(inp.BatchLanded(2))
    assert len(it.windows) == 2
    it.step(inp.LowWritten(W1, at(12)))
    it.step(inp.ChunkRead(W1, at(13), rows, 100, seconds))
    assert len(it.windows) == opened


@pytest.mark.parametrize(("target", "opened"), [(6, 3), (5, 2), (4, 2), (1, 1)])
def test_where_reading_makes_way_no_window_is_left_for_a_commit_of_its_own(target: int, opened: int) -> None:
    """As many as one commit takes: one more would land in the next batch, hardly with anything else."""
    limits = {"windows_in_flight": 1, "rows_in_flight": 4, "target_lag_seconds": None, "yield_seconds": 0}
    it = scanning(ends=("k1", "k2", "k3", "k4", "k5", "k6"), commit_rows_target=target, **limits)
    closing(it, W1)
    it.step(arrived(2, 20, observations=seen(W1), streams=True))
    it.step(inp.BatchLanded(2, {W1: inp.Outcome(2, 0)}, 1.0))
    assert len(it.windows) == opened


@pytest.mark.parametrize(("streams", "seconds", "opened"), [(True, 2, []), (False, 2, [W3]), (True, 1, [W3])])
def test_reading_makes_way_for_changes(streams: bool, seconds: int, opened: list[WindowId]) -> None:
    """Where a batch has changes, and took its time, windows that land keep their places until they have landed: what is
    read beside a landing makes it longer, and changes wait for that of the batch before and for their own."""
    it = scanning(windows_in_flight=2, yield_seconds=2)
    closing(it, W1, W2)
    batch = replace(
        arrived(2, 20, observations=seen(W1, W2), streams=streams), end=ClusterTime(1 + seconds, 20)
    )
    assert [e.window for e in only(eff.WriteLow, it.step(batch))] == opened
    said = it.step(inp.BatchLanded(2, {W1: inp.Outcome(2, 0), W2: inp.Outcome(2, 0)}))
    assert [e.window for e in only(eff.WriteLow, said)] == ([] if opened else [W3])
