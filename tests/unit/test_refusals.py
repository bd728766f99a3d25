"""What was refused: the newest, each once, in bounded memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from snapshotter.reporting.refusals import KEPT, Refusals

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_newest_are_kept_each_once() -> None:
    """A signal that is delivered again is refused again, and said once."""
    refusals = Refusals()
    for number in range(KEPT + 10):
        for _ in range(2):
            refusals.add(f"s{number}", "unknown type")
    newest = refusals.newest
    assert len(newest) == KEPT
    assert newest[0][:2] == ("s10", "signal 's10': unknown type")
    assert newest[-1].id == f"s{KEPT + 9}"


def test_one_that_is_refused_again_is_the_newest() -> None:
    """With the time of that: its sender waits for an answer to the signal that was sent last."""
    moments = iter(datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in range(3))
    refusals = Refusals(lambda: next(moments))
    for name in ("a", "b", "a"):
        refusals.add(name, "unknown type")
    assert [(one.id, one.at.second) for one in refusals.newest] == [("b", 1), ("a", 2)]


def test_a_batch_that_is_repeated_brings_no_news() -> None:
    """It shows the same signals, sent when they were; one that was sent again since is another."""
    moments = iter(BEGIN + timedelta(seconds=second) for second in range(9))
    refusals = Refusals(lambda: next(moments))
    sent = {name: BEGIN - timedelta(seconds=ago) for name, ago in (("a", 9), ("b", 8), ("again", 1))}
    for _ in range(2):
        refusals.add("a", "unknown type", sent["a"])
        refusals.add("b", "unknown type", sent["b"])
    assert [(one.id, one.at, one.sent) for one in refusals.newest] == [
        ("a", BEGIN, sent["a"]), ("b", BEGIN + timedelta(seconds=1), sent["b"]),
    ]  # fmt: skip
    refusals.add("a", "unknown type", sent["again"])
    refusals.add("a", "unknown type", sent["a"])
    assert [(one.id, one.sent) for one in refusals.newest] == [("b", sent["b"]), ("a", sent["again"])]
    refusals.add("b", "unknown type")
    assert [one.id for one in refusals.newest] == ["a", "b"], "nobody knows when it was sent"


def test_a_reason_names_its_signal() -> None:
    """Once."""
    assert Refusals().add("a", "signal 'a': no such collection") == ("a", "signal 'a': no such collection")
    assert Refusals().add("a", "broken") == ("a", "signal 'a': broken")


def test_ids_and_reasons_are_cut() -> None:
    """They come from outside."""
    refusals = Refusals()
    refusals.add("i" * 1_000_000, "w" * 1_000_000)
    ((signal_id, why, *_),) = refusals.newest
    assert len(signal_id) < 2_000
    assert len(why) < 5_000
    assert why.startswith("signal 'iii")
