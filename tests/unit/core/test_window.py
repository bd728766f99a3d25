"""`core.values.window`: what a window takes in which state, and what makes it useless."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from snapshotter.core.values.window import (
    Edge,
    WatermarkHidden,
    WatermarkObservation,
    Window,
    WindowError,
    WindowId,
    WindowMisuse,
    WindowState,
)

from .some import at, chunk, ids, window

REGISTERED = window()
OPEN = REGISTERED.low_written(at(12))
READ = OPEN.chunk_read(at(14), rows=2)
CLOSING = READ.high_written(at(16))
SEEN = CLOSING.observed(WatermarkObservation(CLOSING.id, Edge.LOW, at(11))).observed(
    WatermarkObservation(CLOSING.id, Edge.HIGH, at(15))
)

STEPS: dict[str, Callable[[Window], Window]] = {
    "low written": lambda w: w.low_written(at(12)),
    "chunk read": lambda w: w.chunk_read(at(14), rows=2),
    "high written": lambda w: w.high_written(at(16)),
}
NEXT = {
    ("low written", WindowState.REGISTERED): WindowState.OPEN,
    ("chunk read", WindowState.OPEN): WindowState.READ,
    ("high written", WindowState.READ): WindowState.CLOSING,
}


@pytest.mark.parametrize("before", [REGISTERED, OPEN, READ, CLOSING], ids=lambda w: w.state)
@pytest.mark.parametrize("step", STEPS)
def test_the_table_of_transitions(before: Window, step: str) -> None:
    """Every pair of state and step: the one that is allowed moves on, every other is refused by name."""
    after = NEXT.get((step, before.state))
    if after is None:
        with pytest.raises(WindowMisuse, match=f"window a/1: .* while {before.state}, expected"):
            STEPS[step](before)
    else:
        assert STEPS[step](before).state is after


@pytest.mark.parametrize("edge", Edge)
@pytest.mark.parametrize("seen", ["nothing", "low", "both"])
def test_the_table_of_observations(edge: Edge, seen: str) -> None:
    """A low, then a high watermark; anything else but the late end of the open document is a failure."""
    before = replace(
        READ, low_seen=None if seen == "nothing" else at(11), high_seen=at(15) if seen == "both" else None
    )
    after = {
        ("nothing", Edge.LOW): replace(before, low_seen=at(13)),
        ("low", Edge.HIGH): replace(before, high_seen=at(13)),
        ("both", Edge.LOST): before,
    }.get((seen, edge))
    if after is None:
        with pytest.raises(WindowError):
            before.observed(WatermarkObservation(before.id, edge, at(13)))
    else:
        assert before.observed(WatermarkObservation(before.id, edge, at(13))) == after


def test_a_high_watermark_before_a_readers_end_is_none() -> None:
    """Written then, it would not be later than everything that was read (rule 4)."""
    with pytest.raises(WindowError, match=r"high watermark 1\.13 lies before a reader's end 1\.14"):
        READ.high_written(at(13))
    assert READ.high_written(at(14)).state is WindowState.CLOSING


def test_a_high_watermark_seen_before_a_readers_end_fails_the_window() -> None:
    """Somebody else deleted the open document of insert_delete: it neither closes nor goes on."""
    early = replace(SEEN, high_seen=at(13))
    assert not early.closes_by(at(99))
    with pytest.raises(WindowError, match=r"seen at 1\.13, before a reader's end 1\.14"):
        early.check_passed(at(99))


def test_an_acknowledged_watermark_must_be_seen_in_time() -> None:
    """A batch up to the acknowledged time has shown it, or the stream is filtered: the options are named."""
    OPEN.check_passed(at(11))
    with pytest.raises(
        WatermarkHidden, match=r"low watermark was acknowledged at 1\.12.*signal.data.collection"
    ):
        OPEN.check_passed(at(12))
    low_seen = replace(CLOSING, low_seen=at(11))
    low_seen.check_passed(at(15))
    with pytest.raises(WatermarkHidden, match="high watermark"):
        low_seen.check_passed(at(16))
    SEEN.check_passed(at(99))


def test_it_closes_once_a_batch_holds_everything_up_to_the_high_watermark() -> None:
    """Not before it is acknowledged, not before it is seen, not in a batch that ends before it."""
    assert [SEEN.closes_by(at(end)) for end in (14, 15, 16)] == [False, True, True]
    assert not CLOSING.closes_by(at(99))
    assert not replace(SEEN, state=WindowState.READ).closes_by(at(99))
    assert not replace(SEEN, low_seen=None).closes_by(at(99))


def test_the_effective_low_watermark_is_never_below_the_floor() -> None:
    """Keys up to the floor were not kept; a low from a lagging node could lie before it (rule 5)."""
    late = replace(SEEN, floor=at(10))
    behind = replace(SEEN, floor=at(20))
    assert (late.low, late.read_after) == (at(11), at(12))
    assert (behind.low, behind.read_after) == (at(20), at(20))


def test_without_a_low_watermark_there_is_nothing_to_ask() -> None:
    """Neither from when on to read, nor from when on events supersede."""
    with pytest.raises(WindowError, match="has not been seen"):
        _ = REGISTERED.low
    with pytest.raises(WindowError, match="no low watermark yet"):
        _ = REGISTERED.read_after


def test_with_cluster_time_the_acknowledged_time_is_the_watermark() -> None:
    """Nothing travels in the stream."""
    silent = window(in_stream=False).low_written(at(12)).chunk_read(at(14), 2).high_written(at(16))
    assert (silent.low_seen, silent.high_seen) == (at(12), at(16))
    assert silent.closes_by(at(16))


def test_what_a_window_may_read() -> None:
    """By key; but where a collation orders the ids, nobody can tell what lies in a range."""
    assert [window(target=chunk("k1", "k2")).may_read(key) for key in ("k1", "k2", "k3")] == [
        False,
        True,
        False,
    ]
    assert window(target=chunk("k1", "k2"), ordered_keys=False).may_read("k9")
    assert [window(target=ids("k2")).may_read(key) for key in ("k1", "k2")] == [False, True]


def test_ids_name_run_and_number() -> None:
    """They are what is written into a watermark's document."""
    assert str(WindowId("a", 7)) == "a/7"
