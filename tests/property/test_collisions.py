"""`tests.support.commit_rule` against set algebra, on generated histories."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from snapshotter.core.rules.streamed_keys import StreamedKeys
from snapshotter.core.values.chunks import Bound, KeyList
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from tests.support.commit_rule import (
    Missing,
    Read,
    Reconciling,
    StreamedEvent,
    commit_rows,
    surviving,
)

ORDERS = Namespace("shop", "orders")
KEYS = st.sampled_from(["a", "b", "c", "d"])
TIMES = st.integers(1, 12).map(lambda n: ClusterTime(1, n))


@st.composite
def events(draw: st.DrawFn) -> list[StreamedEvent]:
    """Events in the order of the stream; several may share one time, and some land nothing."""
    drawn = draw(st.lists(st.tuples(TIMES, KEYS, st.booleans()), max_size=12))
    return [
        StreamedEvent(key, time, n, lands, content=n)
        for n, (time, key, lands) in enumerate(sorted(drawn, key=lambda e: e[0]))
    ]


READS = st.lists(st.builds(Read, KEYS, TIMES, st.integers(1, 3)), max_size=8)


@given(READS, events())
def test_surviving_is_a_difference_of_sets(reads: list[Read], history: list[StreamedEvent]) -> None:
    """READs less those whose key is among the keys that landed after their low watermark, in their order."""
    landed_after = {
        low: {e.key for e in history if e.lands and e.time > low} for low in {read.low for read in reads}
    }
    assert surviving(reads, history) == [r for r in reads if r.key not in landed_after[r.low]]


@given(READS, events())
def test_more_events_never_bring_a_read_back(reads: list[Read], history: list[StreamedEvent]) -> None:
    """What survives all of them survives any of them; what lands nothing makes no difference."""
    survivors = surviving(reads, history)
    for cut in range(len(history)):
        assert all(read in surviving(reads, history[:cut]) for read in survivors)
    assert survivors == surviving(reads, [e for e in history if e.lands])


@given(events(), st.integers(0, 12), READS)
def test_one_row_a_key_and_the_right_one(history: list[StreamedEvent], cut: int, reads: list[Read]) -> None:
    """Of each key the last event of the batch that lands; else the READ of the latest window that survives."""
    kept, batch = history[:cut], history[cut:]
    rows = commit_rows(batch, kept, reads)
    last: dict[str, StreamedEvent] = {}
    for event in batch:
        if event.lands:
            last[event.key] = event
    of_key: dict[str, list[Read]] = defaultdict(list)
    for read in surviving(reads, history):
        of_key[read.key].append(read)
    assert set(rows) == set(last) | set(of_key)
    for key, row in rows.items():
        if key in last:
            assert row == last[key]
        else:
            assert isinstance(row, Read)
            assert row.window == max(read.window for read in of_key[key])


@given(events(), st.integers(0, 12), st.sets(KEYS), st.sets(KEYS), st.sets(KEYS), TIMES)
def test_what_goes_is_a_difference_of_sets(
    history: list[StreamedEvent],
    cut: int,
    table: set[str],
    target: set[str],
    read: set[str],
    low: ClusterTime,
) -> None:
    """Keys of the table in the target, less those that were read, those that landed after the low watermark, and those
    that the batch itself has an event of; all other rows of the commit are what they are without it."""
    kept, batch = history[:cut], history[cut:]
    reads = [Read(key, low, 1) for key in sorted(read & target)]
    ids = KeyList(tuple(Bound(key.encode(), key) for key in sorted(target)))
    rows = commit_rows(batch, kept, reads, table=table, reconciling=[Reconciling(ids, low, 1)])
    found = {key for key, row in rows.items() if isinstance(row, Missing)}
    landed = {e.key for e in history if e.lands and e.time > low} | {e.key for e in batch if e.lands}
    assert found == (table & target) - read - landed
    assert {key: row for key, row in rows.items() if key not in found} == commit_rows(batch, kept, reads)


@given(events(), st.lists(st.integers(0, 12), max_size=3), TIMES, READS)
def test_what_is_forgotten_is_never_missed(
    history: list[StreamedEvent], cuts: list[int], floor: ClusterTime, reads: list[Read]
) -> None:
    """Keys up to the lowest floor can be dropped: no window's low watermark lies below its floor (rule 5)."""
    keys: StreamedKeys[list[StreamedEvent]] = StreamedKeys()
    ends = sorted({ClusterTime(1, cut) for cut in cuts} | {ClusterTime(1, 12)})
    start = ClusterTime(1, 0)
    for number, end in enumerate(ends):
        keys.keep(ORDERS, number, end, [e for e in history if start < e.time <= end])
        start = end
    above = [Read(r.key, max(r.low, floor), r.window) for r in reads]
    before = surviving(above, [e for kept in keys.of(ORDERS) for e in kept])
    keys.forget({ORDERS: floor})
    assert surviving(above, [e for kept in keys.of(ORDERS) for e in kept]) == before
