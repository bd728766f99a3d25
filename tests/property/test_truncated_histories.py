"""The plain rule on generated histories with drops: once every window has closed, the rows are the collection."""

from __future__ import annotations

import random

import pytest

from snapshotter.core.values.namespace_changes import superseded
from tests.support.commit_rule import Read, StreamedEvent, commit_rows
from tests.support.histories import History, generate


def replayed(history: History, *, first_load: bool, ignore_drops: bool = False) -> dict[str, object]:
    """The rows of a table that follows the rule, by key; in a first load, events that no window has reached are left
    out."""
    rows: dict[str, object] = {}
    kept: list[StreamedEvent] = []
    for batch, changes in enumerate(history.batches):
        ahead = [p.window for p in history.windows if first_load and p.opens >= batch]
        landing = [c.streamed() for c in changes if not any(w.target.holds(c.key) for w in ahead)]
        reads = [read for planned in history.closing_in(batch) for read in planned.reads()]
        commit = commit_rows(landing, kept, reads, None if ignore_drops else history.truncated_by(batch))
        if batch in history.truncated:
            rows.clear()
        for key, row in commit.items():
            rows.pop(key, None)
            if row.content is not None:
                rows[key] = row.content
        kept += landing
    return rows


@pytest.mark.parametrize("first_load", [False, True], ids=["over_rows", "first_load"])
def test_a_history_with_drops_ends_as_the_collection(seed: int, first_load: bool) -> None:
    """Dropped between events, in the middle of windows, several times in a batch; and the rule is needed for it."""
    needed = superseded_reads = 0
    for number in range(60):
        history = generate(random.Random(seed + number), keys=40, batches=5, events=30, drops=0.04)
        assert replayed(history, first_load=first_load) == history.last, f"seed {seed + number}"
        needed += replayed(history, first_load=first_load, ignore_drops=True) != history.last
        for planned in history.windows:
            reads: list[Read] = planned.reads()
            superseded_reads += sum(superseded(r.low, history.truncated_by(planned.closes)) for r in reads)
    assert needed > 10
    assert superseded_reads > 10
