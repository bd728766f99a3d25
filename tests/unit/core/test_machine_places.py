"""`core.machine`: how many windows are in flight at once."""

from __future__ import annotations

from snapshotter.core import effects as eff
from snapshotter.core import inputs as inp

from .some import arrived
from .test_machine import W1, W2, closing, only, scanning, seen


def test_the_next_chunks_are_read_while_windows_land() -> None:
    """Windows that are being landed take no place of those to come; but a chunk that failed never waits for a place,
    or those behind it, which hold all places, would wait for it for ever."""
    it = scanning(windows_in_flight=2)
    closing(it, W1, W2)
    said = it.step(arrived(2, 20, sightings=seen(W1, W2)))
    assert len(only(eff.WriteLow, said)) == 1  # the scan has three chunks
    lost = it.step(inp.BuffersLost(2, frozenset({W1, W2})))
    assert len(only(eff.WriteLow, lost)) == 2
    assert len(it.windows) == 3
