"""The Spark plan that lands a batch, held against the rule in plain Python, on generated histories."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from snapshotter.core.values.outcome import Outcome
from snapshotter.landing.targets.decoded_events import MEMORY_BYTES, PARTITION_BYTES
from streaming.delta.state_merge import DELETION_VECTORS
from tests.support.histories import History, generate
from tests.support.landings import Landings, follow

pytestmark = pytest.mark.guard

thorough = partial(pytest.param, marks=pytest.mark.thorough)
AT_ONCE: dict[str, str] = {}
APART = {DELETION_VECTORS: "false"}
"""READs that are proven new land with a batch's events, or (no deletion vectors) in a commit of their own."""


@pytest.mark.parametrize("first_load", [False, True], ids=["over_rows", "first_load"])
@pytest.mark.parametrize("settings", [AT_ONCE, thorough(APART)], ids=["at once", "apart"])
@pytest.mark.parametrize("splits", [1, thorough(3)])
def test_a_history_lands_as_the_rule_says(
    spark: SparkSession,
    tmp_path: Path,
    rng: random.Random,
    splits: int,
    settings: dict[str, str],
    first_load: bool,
) -> None:
    """Batch after batch the table is what the plain rule makes of the same events and READs, with one row a key; once
    every window has closed, it is the collection. Columns appear while windows are open. The events of a batch come
    in one split, or in three that hold events of the same keys."""
    history = generate(rng, keys=150, batches=4, events=120)
    landings = Landings(spark, tmp_path / "table", first_load=first_load, splits=splits, settings=settings)
    follow(landings, history)


@pytest.mark.parametrize("first_load", [False, True], ids=["over_rows", "first_load"])
@pytest.mark.parametrize(
    ("reads", "events"), [(True, True), (False, True), thorough(True, False)], ids=["all", "events", "reads"]
)
def test_a_history_lands_as_the_rule_says_where_rows_are_files(
    spark: SparkSession, tmp_path: Path, rng: random.Random, reads: bool, events: bool, first_load: bool
) -> None:
    """The same of READs that lie in the table's folder, and of rows of events. Files that no commit has named go with
    their windows, and their batch."""
    history = generate(rng, keys=150, batches=4, events=120)
    landings = Landings(spark, tmp_path / "table", first_load=first_load, files=reads, event_files=events)
    follow(landings, history)
    assert landings.left_over() == set()


@pytest.mark.parametrize("first_load", [False, thorough(True)], ids=["over_rows", "first_load"])
def test_a_large_batch_is_divided_by_key(
    spark: SparkSession, tmp_path: Path, rng: random.Random, first_load: bool
) -> None:
    """Partition by partition the newest event of each key is found and decoded, and set aside on disk; the table gets
    one commit with the same rows as without."""
    history = generate(rng, keys=150, batches=3, events=120)
    size = MEMORY_BYTES + PARTITION_BYTES
    landings = Landings(spark, tmp_path / "table", first_load=first_load, size_bytes=size)
    follow(landings, history)


@pytest.mark.parametrize("first_load", [False, True], ids=["over_rows", "first_load"])
def test_a_history_with_drops_lands_as_the_rule_says(
    spark: SparkSession, tmp_path: Path, rng: random.Random, first_load: bool
) -> None:
    """The same of a collection that is dropped again and again, between events and while windows are open."""
    drawn = (generate(rng, keys=60, batches=4, events=40, drops=0.03) for _ in range(20))
    history = next((history for history in drawn if history.truncated), None)
    assert history is not None, "no history tried the rule"
    follow(Landings(spark, tmp_path / "table", first_load=first_load), history)


def test_an_append_only_where_keys_are_proven_new(spark: SparkSession, tmp_path: Path) -> None:
    """Where nothing streams, every chunk of a first load is appended."""
    history = generate(random.Random(5), keys=40, batches=3, events=10)
    quiet = History(history.start, [[], [], []], history.ends, history.windows)
    landings = Landings(spark, tmp_path / "table", first_load=True)
    operations: list[str] = []
    total = 0
    for batch in range(3):
        landed = landings.land(quiet, batch)
        total += sum(o.kept for o in landed.outcomes.values())
        if landed.wrote:
            operations.append(_operation(landings.path))
        assert all(o == Outcome(o.kept, 0) for o in landed.outcomes.values())
        landings.open([p for p in quiet.windows if p.opens == batch])
    assert set(operations) == {"WRITE"}
    assert len(landings.rows()) == total > 0


@pytest.mark.parametrize(
    ("settings", "together"), [(AT_ONCE, ["MERGE"]), (APART, ["MERGE", "WRITE"])], ids=["at once", "apart"]
)
def test_reads_of_a_first_load_land_with_the_events_or_behind_them(
    spark: SparkSession, tmp_path: Path, settings: dict[str, str], together: list[str]
) -> None:
    """In one commit where the table takes that, else in two: the events are merged, and the READs inserted, but those
    whose keys have streamed since their window was registered. Repeated, the batch lands nothing again."""
    history = generate(random.Random(8), keys=120, batches=4, events=60)
    landings = Landings(spark, tmp_path / "table", first_load=True, settings=settings)
    both = 0
    for batch in range(4):
        before = landings.opened.table.version()
        landed = landings.land(history, batch)
        operations = _operations(landings.path, landings.opened.table.version() - before)
        assert operations in ([], ["MERGE"], ["WRITE"], together)
        both += operations == together and any(o.kept for o in landed.outcomes.values())
        landings.open([p for p in history.windows if p.opens == batch])
    assert both, "the history never tried the rule"
    rows, version = landings.rows(), landings.opened.table.version()
    again = Landings(spark, tmp_path / "table", first_load=True, settings=settings)
    again.buffers = landings.buffers
    assert not again.land(history, 3).wrote
    assert (landings.rows(), landings.opened.table.version()) == (rows, version)


def test_a_repeated_batch_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """A batch that the table records already lands no row again; its keys are still known, for windows that close
    later."""
    history = generate(random.Random(6), keys=40, batches=2, events=30)
    history.windows = []
    first = Landings(spark, tmp_path / "table", first_load=False)
    landed = first.land(history, 0)
    rows = first.rows()
    version = first.opened.table.version()
    again = Landings(spark, tmp_path / "table", first_load=False).land(history, 0)
    assert (landed.wrote, again.wrote) == (True, False)
    assert again.keys.sort_by("_key") == landed.keys.sort_by("_key")
    assert (first.rows(), first.opened.table.version()) == (rows, version)


def _operation(path: Path) -> str:
    return _operations(path, 1)[0]


def _operations(path: Path, newest: int) -> list[str]:
    """Of so many newest commits, in their order, less those that made the table grow."""
    commits = DeltaTable(str(path)).history(newest) if newest else []
    operations = [str(commit["operation"]) for commit in reversed(commits)]
    return [operation for operation in operations if operation in ("MERGE", "WRITE")]
