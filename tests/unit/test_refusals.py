"""What was refused: the newest, each once, in bounded memory."""

from __future__ import annotations

from snapshotter.reporting.refusals import KEPT, Refusals


def test_the_newest_are_kept_each_once() -> None:
    """A signal that is delivered again is refused again, and said once."""
    refusals = Refusals()
    for number in range(KEPT + 10):
        for _ in range(2):
            refusals.add(f"s{number}", "unknown type")
    newest = refusals.newest
    assert len(newest) == KEPT
    assert newest[0] == ("s10", "signal 's10': unknown type")
    assert newest[-1][0] == f"s{KEPT + 9}"


def test_a_reason_names_its_signal() -> None:
    """Once."""
    assert Refusals().add("a", "signal 'a': no such collection") == ("a", "signal 'a': no such collection")
    assert Refusals().add("a", "broken") == ("a", "signal 'a': broken")


def test_ids_and_reasons_are_cut() -> None:
    """They come from outside."""
    refusals = Refusals()
    refusals.add("i" * 1_000_000, "w" * 1_000_000)
    ((signal_id, why),) = refusals.newest
    assert len(signal_id) < 2_000
    assert len(why) < 5_000
    assert why.startswith("signal 'iii")
