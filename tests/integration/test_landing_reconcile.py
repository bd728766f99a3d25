"""Rows that are missing at source are deleted by windows that reconcile: the Spark plan against the rule in plain
Python."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import bson
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from snapshotter.core.values.chunks import Bound, KeyList, KeyRange, Target
from snapshotter.core.values.outcome import Outcome
from streaming.decode.dead_letters import DeadLetter, Where
from streaming.keys.keys import key_of_document
from streaming.positions import ClusterTime
from tests.support.histories import (
    Change,
    Document,
    History,
    PlannedWindow,
    closing_window,
    generate,
)
from tests.support.landings import Landings, follow
from tests.support.selection import rest_thorough


def bound(number: int) -> Bound:
    document = bson.encode({"_id": number})
    return Bound(document, key_of_document(document))


KEYS = [bound(n).key for n in range(10)]


def document(number: int, version: int) -> Document:
    return {"_id": number, "v": version}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("drops", "files"),
    [
        pytest.param(0.0, False, marks=pytest.mark.thorough, id="kept"),
        pytest.param(0.02, False, id="dropped"),
        pytest.param(0.0, True, id="files"),
        pytest.param(0.02, True, marks=pytest.mark.thorough, id="dropped, files"),
    ],
)
def test_rows_that_are_gone_go_as_the_rule_says(
    spark: SparkSession, tmp_path: Path, rng: random.Random, drops: float, files: bool
) -> None:
    """Over a table that another checkpoint left, with rows of ids that are there, are not, come and go: every version
    is what the plain rule makes of it, windows count what they deleted, and in the end the table is the collection.
    Also of a collection that is dropped meanwhile, and where READs lie in files of the table's folder."""
    history = generate(rng, keys=120, batches=4, events=40, drops=drops)
    while drops and min(history.truncated, default=0) != 3:  # an earlier drop leaves nothing to reconcile
        history = generate(rng, keys=120, batches=4, events=40, drops=drops)
    landings = Landings(spark, tmp_path / "table", first_load=False, reconcile=True, files=files)
    stale = [key for key in history.ids if rng.random() < 0.7]
    landings.hold({key: {**bson.decode(history.ids[key]), "v": -n} for n, key in enumerate(stale)})
    follow(landings, history)


def one_window(target: Target, found: list[int], changes: list[Change]) -> History:
    """Events of two batches, and a window with its low watermark at 10 that is open from the one to the other."""
    window = closing_window(target, len(found), ClusterTime(1_000, 5), ClusterTime(1_000, 10))
    planned = PlannedWindow(window, 0, 2, {KEYS[n]: document(n, 100) for n in found})
    ends = [ClusterTime(1_000, 5), ClusterTime(1_000, 20), ClusterTime(1_000, 30)]
    batches = [[c for c in changes if low < c.time.i <= high] for low, high in ((0, 5), (5, 20), (20, 30))]
    return History(ClusterTime(1_000, 0), batches, ends, [planned])


def put(number: int, at: int) -> Change:
    return Change(KEYS[number], "c", ClusterTime(1_000, at), 0, document(number, at))


TARGETS = {
    "ids": KeyList(tuple(map(bound, (1, 2, 4, 5, 6, 7)))),
    "open_below": KeyRange(None, bound(7)),
    "without_its_lower_end": KeyRange(bound(1), bound(7)),
    "with_its_lower_end": KeyRange(bound(1), bound(7), closed=True),
    "open_above": KeyRange(bound(3), None),
}
GONE = {
    "ids": {1, 4},
    "open_below": {0, 1, 3, 4},
    "without_its_lower_end": {3, 4},
    "with_its_lower_end": {1, 3, 4},
    "open_above": {4, 8, 9},
}


@pytest.mark.parametrize("name", rest_thorough(TARGETS, ["ids", "without_its_lower_end"]))
def test_only_what_the_window_was_to_read_goes(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Of ten rows those go that lie in the window's target and were not read, unless an event landed after the low
    watermark: in a batch before the closing one (5), or in it (6). One that landed before the low watermark in an
    earlier batch (4) saves nothing. A batch that is repeated deletes nothing more."""
    history = one_window(TARGETS[name], [2, 7], [put(4, 9), put(5, 12), put(6, 25)])
    landings = Landings(spark, tmp_path / "table", first_load=False, reconcile=True)
    landings.hold({KEYS[n]: document(n, 0) for n in range(10)})
    landings.land(history, 0)
    landings.open(history.windows)
    landings.land(history, 1)
    landed = landings.land(history, 2)
    left = {key: v for key, (v, _) in landings.rows().items()}
    assert set(left) == {KEYS[n] for n in set(range(10)) - GONE[name]}
    assert left.items() >= {KEYS[5]: 12, KEYS[6]: 25, KEYS[7]: 100}.items()
    (outcome,) = landed.outcomes.values()
    assert (outcome.kept, outcome.deleted) == (2, len(GONE[name]))
    version = landings.opened.table.version()
    assert not landings.land(history, 2).wrote
    assert landings.opened.table.version() == version


@pytest.mark.parametrize("files", [False, True], ids=["rows", "files"])
def test_a_read_gives_way_only_to_what_came_behind_its_low_watermark(
    spark: SparkSession, tmp_path: Path, files: bool
) -> None:
    """One whose key has streamed before it (4) takes the place of that row, others (2, 3) equal theirs. Where they lie
    in a file of which so little is to be seen, the table gets another, and this one goes with its window."""
    history = one_window(KeyRange(None, None), [2, 3, 4, 5, 7], [put(4, 9), put(5, 12)])
    landings = Landings(spark, tmp_path / "table", first_load=False, files=files)
    landings.hold({KEYS[n]: document(n, 100) for n in (2, 3)})
    landings.land(history, 0)
    landings.open(history.windows)
    landings.land(history, 1)
    (outcome,) = landings.land(history, 2).outcomes.values()
    assert outcome == Outcome(kept=4, superseded=1, changed=1, unchanged=2)
    assert {key: v for key, (v, _) in landings.rows().items()} == {
        KEYS[n]: v for n, v in ((2, 100), (3, 100), (4, 100), (5, 12), (7, 100))
    }
    assert landings.left_over() == set()


def test_a_window_that_found_nothing_deletes_without_reads(spark: SparkSession, tmp_path: Path) -> None:
    """No READ and no event, only rows that are gone; a superseded window deletes none; one that finds nothing to
    delete lands as if it did not reconcile."""
    history = one_window(TARGETS["ids"], [], [])
    landings = Landings(spark, tmp_path / "table", first_load=False, reconcile=True)
    landings.hold({KEYS[n]: document(n, 0) for n in (0, 1, 4)})
    landings.open(history.windows)
    landed = landings.land(history, 2)
    assert set(landings.rows()) == {KEYS[0]}
    assert [o.deleted for o in landed.outcomes.values()] == [2]
    again = replace(history, ends=[end.next() for end in history.ends])
    landings.opened.table.app_id = "snapshotter:test:2"
    landings.opened.table._landed_parts.clear()
    landed = landings.land(again, 2)
    assert [o.deleted for o in landed.outcomes.values()] == [0]
    assert set(landings.rows()) == {KEYS[0]}


def dead_row(number: int | None) -> pa.Table:
    """A document of the window that could not be processed, with its key where that is known."""
    letter = DeadLetter(Where.READ, "damaged").to_text()
    columns = {"_key": None if number is None else KEYS[number], "_window": 1, "_trailer": letter}
    return pa.Table.from_pylist(
        [columns], pa.schema([("_key", "string"), ("_window", "int32"), ("_trailer", "string")])
    )


@pytest.mark.parametrize(("dead", "gone"), [(4, {1}), (None, set())])
def test_a_document_that_was_there_and_failed_saves_its_row(
    spark: SparkSession, tmp_path: Path, dead: int | None, gone: set[int]
) -> None:
    """It was at the source: its row is not missing. Where nobody knows its key no row of the window is."""
    history = one_window(TARGETS["ids"], [2, 7], [put(5, 12), put(6, 25)])
    landings = Landings(spark, tmp_path / "table", first_load=False, reconcile=True)
    landings.hold({KEYS[n]: document(n, 0) for n in range(10)})
    landings.open(history.windows)
    window, buffer = next(iter(landings.buffers.items()))
    failed = spark.createDataFrame(dead_row(dead))
    landings.buffers[window] = replace(
        buffer,
        frame=buffer.frame.unionByName(failed, allowMissingColumns=True),
        trailers=(replace(buffer.trailers[0], dead=1, keyless=int(dead is None)),),
    )
    landings.land(history, 1)
    landed = landings.land(history, 2)
    assert set(landings.rows()) == {KEYS[n] for n in set(range(10)) - gone}
    (outcome,) = landed.outcomes.values()
    assert (outcome.kept, outcome.superseded, outcome.deleted) == (2, 0, len(gone))
