"""`docs/metrics.md` and the catalogue say the same, and every attribute of Debezium's has an answer."""

from __future__ import annotations

import re

from snapshotter.metrics.catalogue import ABSENT, CATALOGUE
from snapshotter.metrics.figures import Context
from tests.tidy.test_tidy import ROOT

PAGE = ROOT / "docs" / "metrics.md"

COMMON = """
LastEvent MilliSecondsSinceLastEvent TotalNumberOfEventsSeen NumberOfEventsFiltered NumberOfErroneousEvents
CapturedTables QueueTotalCapacity QueueRemainingCapacity MaxQueueSizeInBytes CurrentQueueSizeInBytes
"""
SNAPSHOT = """
TotalTableCount RemainingTableCount SnapshotRunning SnapshotPaused SnapshotAborted SnapshotCompleted SnapshotSkipped
SnapshotDurationInSeconds SnapshotPausedDurationInSeconds RowsScanned TableChunkCounts TableChunksCompletedCounts
ChunkId ChunkFrom ChunkTo TableFrom TableTo NumberOfDisconnects
"""
STREAMING = """
TotalNumberOfCreateEventsSeen TotalNumberOfUpdateEventsSeen TotalNumberOfDeleteEventsSeen Connected SourceEventPosition
MilliSecondsBehindSource MilliSecondsBehindSourceMinValue MilliSecondsBehindSourceMaxValue
MilliSecondsBehindSourceAverageValue MilliSecondsBehindSourceP50 MilliSecondsBehindSourceP95 MilliSecondsBehindSourceP99
NumberOfCommittedTransactions LastTransactionId NumberOfUnchangedEventsSkipped NumberOfDisconnects
NumberOfPrimaryElections LastSourceEventPollTime LastEmptyPollTime NumberOfEmptyPolls
"""
"""The attributes of the beans of Debezium's connector for MongoDB, by the beans that have them."""


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def rows_of(context: Context) -> list[str]:
    """The table of one context, as the page has to have it."""
    return [
        row(f"`{f.full_name}`", f.kind, f"`{f.label}`" if f.label else "", f.meaning)
        for f in CATALOGUE
        if f.context is context
    ]


def rows_of_absent() -> list[str]:
    return [row(f"`{attribute}`", why) for attribute, why in ABSENT.items()]


def test_the_page_lists_every_figure_as_the_code_has_it() -> None:
    """Its tables are the catalogue's, row by row; the message is what to put there."""
    there = [line for line in PAGE.read_text().splitlines() if line.startswith(("| `snapshotter_", "| `"))]
    listed = [line for line in there if re.match(r"\| `(snapshotter_\w+|[A-Z]\w+)` \|", line)]
    expected = [*(line for context in Context for line in rows_of(context)), *rows_of_absent()]
    assert listed == expected, "docs/metrics.md has to have these rows:\n" + "\n".join(expected)


def test_every_attribute_of_debeziums_is_shown_or_said_to_mean_nothing_here() -> None:
    """In each context that has it."""
    shown = {context: {f.attribute for f in CATALOGUE if f.context is context} for context in Context}
    for context, names in ((Context.SNAPSHOT, SNAPSHOT), (Context.STREAMING, STREAMING)):
        asked = {*COMMON.split(), *names.split()}
        assert asked - shown[context] - set(ABSENT) == set()
        assert shown[context] - asked == set(), "Debezium has no such attribute"
