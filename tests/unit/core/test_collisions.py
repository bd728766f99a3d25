"""`core.collisions`: the rule of a commit in plain Python, and the streamed keys it is asked about."""

from __future__ import annotations

from snapshotter.core.collisions import (
    Read,
    StreamedEvent,
    StreamedKeys,
    commit_rows,
    latest_events,
    surviving,
)

from .some import ITEMS, ORDERS, at


def event(key: str, time: int, ord: int = 0, *, lands: bool = True) -> StreamedEvent:
    return StreamedEvent(key, at(time), ord, lands)


def test_an_event_after_the_low_watermark_supersedes() -> None:
    """Not one at it: the READ was taken at or after that state (rule 1)."""
    reads = [Read(key, at(10), 1) for key in ("k1", "k2", "k3")]
    assert surviving(reads, [event("k1", 10), event("k2", 11)]) == [reads[0], reads[2]]


def test_only_an_event_that_lands_something_supersedes() -> None:
    """An update without its document hides neither a READ nor an earlier full event (rule 2)."""
    read = Read("k1", at(10), 1)
    assert surviving([read], [event("k1", 11, lands=False)]) == [read]
    assert latest_events([event("k1", 11), event("k1", 12, lands=False)]) == {"k1": event("k1", 11)}


def test_the_latest_event_lands() -> None:
    """By time, then by order in the stream: a transaction may write a key twice (rule 3)."""
    assert latest_events([event("k1", 12, 5), event("k1", 12, 4), event("k1", 11, 9)]) == {
        "k1": event("k1", 12, 5)
    }


def test_one_row_a_key() -> None:
    """The latest event of the batch, else the READ of the latest window; kept events land nothing again (rule 3)."""
    old, new = Read("k1", at(10), 1), Read("k1", at(10), 2)
    assert commit_rows([], [], [new, old]) == {"k1": new}
    assert commit_rows([event("k1", 9)], [], [new, old]) == {"k1": event("k1", 9)}
    assert commit_rows([], [event("k1", 11)], [new, old]) == {}


def test_keys_are_kept_by_batch_until_no_window_can_ask() -> None:
    """A window asks for what came after its floor; a batch kept again replaces itself."""
    keys: StreamedKeys[str] = StreamedKeys()
    keys.keep(ORDERS, 1, at(10), "first")
    keys.keep(ORDERS, 2, at(20), "second")
    keys.keep(ORDERS, 2, at(20), "second, again")
    keys.keep(ITEMS, 2, at(20), "other")
    assert keys.asked(ORDERS) == ["first", "second, again"]
    keys.forget({ORDERS: at(10)})
    assert keys.asked(ORDERS) == ["second, again"]
    assert keys.asked(ITEMS) == []
    keys.forget({})
    assert keys.asked(ORDERS) == []
