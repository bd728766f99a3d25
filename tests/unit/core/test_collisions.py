"""`tests.support.commit_rule`: the rule of a commit in plain Python, and the streamed keys it is asked about."""

from __future__ import annotations

from snapshotter.core.rules.streamed_keys import StreamedKeys
from tests.support.commit_rule import (
    Missing,
    Read,
    Reconciling,
    StreamedEvent,
    commit_rows,
    latest_events,
    missing_at_source,
    surviving,
)

from .some import ITEMS, ORDERS, at, chunk, ids


def event(key: str, time: int, ord: int = 0, *, lands: bool = True) -> StreamedEvent:
    return StreamedEvent(key, at(time), ord, lands)


def test_an_event_after_the_low_watermark_supersedes() -> None:
    """Not one at it: the READ was taken at or after that state (rule 1)."""
    reads = [Read(key, at(10), 1) for key in ("k1", "k2", "k3")]
    assert surviving(reads, [event("k1", 10), event("k2", 11)]) == [reads[0], reads[2]]


def test_an_event_that_landed_since_supersedes_what_is_proven_new() -> None:
    """Also one at or before the low watermark: the row that it left in the new range is the newest, and a READ beside
    it would be a second one. Not one that landed nothing (rule 12)."""
    reads = [Read(key, at(10), 1) for key in ("k1", "k2", "k3")]
    events = [event("k1", 9), event("k2", 9, lands=False)]
    assert surviving(reads, events, proven_new=True) == reads[1:]
    assert commit_rows([], events, reads, proven_new=True) == {"k2": reads[1], "k3": reads[2]}


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


def test_a_row_that_was_not_read_goes() -> None:
    """Not one outside the window's target, nor one that was read, nor one on whose key something landed after the low
    watermark; what landed at it, or landed nothing, saves no row."""
    window = Reconciling(chunk("k1", "k7"), at(10), 1)
    events = [event("k3", 11), event("k4", 10), event("k5", 11, lands=False)]
    table = [f"k{n}" for n in range(1, 10)]
    found = missing_at_source(table, [window], [Read("k2", at(10), 1)], events)
    assert found == [Missing(key, at(10), 1) for key in ("k4", "k5", "k6", "k7")]
    assert missing_at_source(table, [Reconciling(ids("k2", "k9"), at(10), 2)], [], []) == [
        Missing("k2", at(10), 2),
        Missing("k9", at(10), 2),
    ]
    assert missing_at_source(table, [], [], []) == []


def test_a_row_that_goes_is_of_the_same_commit() -> None:
    """Beside READs and events; an event of the batch that landed before the low watermark keeps its row. A superseded
    READ was there once, and a window from before a drop says nothing."""
    window = Reconciling(chunk(None, "k9"), at(10), 1)
    reads = [Read("k1", at(10), 1), Read("k2", at(10), 1)]
    batch, kept, table = [event("k3", 9)], [event("k2", 11)], ["k1", "k2", "k3", "k4"]
    rows = commit_rows(batch, kept, reads, table=table, reconciling=[window])
    assert rows == {"k1": reads[0], "k3": batch[0], "k4": Missing("k4", at(10), 1)}
    assert rows["k4"].content is None
    assert commit_rows([], [], [], at(12), table=table, reconciling=[window]) == {}


def test_keys_are_kept_by_batch_until_no_window_can_ask() -> None:
    """A window asks for what came after its floor; a batch kept again replaces itself, and what came before a
    truncation says nothing."""
    keys: StreamedKeys[str] = StreamedKeys()
    keys.keep(ORDERS, 1, at(10), "first")
    keys.keep(ORDERS, 2, at(20), "second")
    keys.keep(ORDERS, 2, at(20), "second, again")
    keys.keep(ITEMS, 2, at(20), "other")
    assert keys.of(ORDERS) == ["first", "second, again"]
    keys.truncated([ITEMS])
    assert (keys.of(ORDERS), keys.of(ITEMS)) == (["first", "second, again"], [])
    keys.keep(ITEMS, 2, at(20), "behind the truncation")
    keys.forget({ORDERS: at(10)})
    assert keys.of(ORDERS) == ["second, again"]
    assert keys.of(ITEMS) == []
    keys.forget({})
    assert keys.of(ORDERS) == []
