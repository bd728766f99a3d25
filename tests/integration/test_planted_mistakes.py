"""Mistakes planted where files of rows land, are compared, and are kept in order (rules 46, 61 and 63 of
docs/PROTOCOL.md): each is noticed. The core's own rules are broken in `tests/simulation`; what becomes of files needs a
real table."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import bson
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from snapshotter.core.values.chunks import KeyRange
from snapshotter.landing.targets import read_files, state_rows
from snapshotter.reading.ranges import bound_of
from snapshotter.reading.read_buffer import Buffer
from streaming.delta import file_matching, rewriting, state_upsert, transaction
from streaming.delta.comparison import Found
from streaming.delta.file_matching import Matched, Matching
from streaming.delta.new_files import NewFile
from streaming.delta.transaction import Removed, Transaction
from streaming.positions import ClusterTime
from tests.support.histories import Change, History, PlannedWindow, closing_window, generate
from tests.support.kept_tables import Kept, some
from tests.support.landings import Landings, follow
from tests.support.row_writers import READERS, Bench, OfFiles

pytestmark = pytest.mark.guard

Plant = Callable[[pytest.MonkeyPatch], None]
Scenario = Callable[[SparkSession, Path, random.Random], None]
_TRIES, _SCENARIOS = 3, {"_lands", "came_between", "compared", "_kept"}
_MARKS: dict[str, int | None] = {"k0001": 8, "k0029": None}


def over_rows(spark: SparkSession, path: Path, rng: random.Random) -> None:
    """Files of READs land beside events, over rows that are there."""
    _lands(spark, path, rng, first_load=False)


def first_load(spark: SparkSession, path: Path, rng: random.Random) -> None:
    """Files of READs land beside events, where their keys are new."""
    _lands(spark, path, rng, first_load=True)


def _lands(spark: SparkSession, path: Path, rng: random.Random, *, first_load: bool) -> None:
    history = generate(rng, keys=40, batches=3, events=30)
    landings = Landings(spark, path, first_load=first_load, files=True)
    follow(landings, history)
    assert landings.left_over() == set()


def came_between(spark: SparkSession, path: Path, _: random.Random) -> None:
    """A file of READs bears a later time than an event that lands before its window closes."""
    ids = {bound.key: bound for bound in (bound_of(bson.encode({"_id": number})) for number in range(3))}
    (low, one, two), times = ids, [ClusterTime(1_000, at) for at in range(40)]
    documents = {key: {"_id": number, "v": 15} for number, key in enumerate(ids)}
    window = closing_window(KeyRange(ids[low], ids[two]), 2, times[5], times[10])
    found = {key: documents[key] for key in (one, two)}
    planned = PlannedWindow(window, 0, 2, found, read_at=times[18])
    batches = [
        [],
        [Change(one, "c", times[15], 0, documents[one])],
        [Change(low, "c", times[25], 0, documents[low])],
    ]
    landings = Landings(spark, path, first_load=False, files=True)
    follow(landings, History(times[0], batches, [times[5], times[20], times[30]], [planned], documents))


def compared(spark: SparkSession, path: Path, _: random.Random) -> None:
    """Files of READs are held against rows with nulls, and rows that somebody has altered."""
    bench = Bench(spark, path, READERS["upsert, READs are files"])
    assert isinstance(bench.writer, OfFiles)
    bench.write(0, ("a", None, "c"), ("b", 2, "c"), ("c", 3, "c"), ("d", 4, "c"))
    spark.sql(f"UPDATE delta.`{path}` SET _rescued_data = '{{}}' WHERE _key = 'b'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_upsert, "match", _match_here)
        found = bench.read(1, ("a", None), ("b", 2), ("c", 3), ("d", 5))
    assert (found, bench.rows()) == (Found(2, 2), [("a", None), ("b", 2), ("c", 3), ("d", 5)])


def _match_here(_: SparkSession, job: Matching) -> Matched:
    """In this process: no mistake is planted in another."""
    numbers = pa.record_batch([pa.array(range(len(job.tasks)))], ["id"])
    return file_matching.reported(job, pa.Table.from_batches(file_matching.worker(job)(iter([numbers]))))


def rewritten(spark: SparkSession, path: Path, _: random.Random) -> None:
    """Files are written anew beside landings, which mark rows in them, by the driver."""
    _kept(spark, path, concatenates=False)


def concatenated(spark: SparkSession, path: Path, _: random.Random) -> None:
    """The same of files that are concatenated."""
    _kept(spark, path, concatenates=True)


def undisturbed(spark: SparkSession, path: Path, _: random.Random) -> None:
    """Nothing lands beside a rewrite."""
    _kept(spark, path, concatenates=False, meanwhile={})


def _kept(
    spark: SparkSession, path: Path, *, concatenates: bool, meanwhile: dict[str, int | None] = _MARKS
) -> None:
    kept = Kept(spark, path)
    kept.by_driver = True
    for batch in range(3):
        kept.land(some(10 * batch, 10))
    kept.land({"k0011": None})
    begun = kept.begun(concatenates=concatenates)
    copies = begun.write()
    if meanwhile:
        kept.land(meanwhile)
    kept.table.upkeep.finish(begun, copies)
    actions = [action.get("add") or action.get("remove") for action in kept.actions()]
    assert not any(action["dataChange"] for action in actions if action)
    assert not any("txn" in action for action in kept.actions())
    kept.check()


# Rule 61: files of READs


def reads_that_gave_way_are_seen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(read_files, "newer_keys", lambda streamed, low: pa.array([], pa.string()))


def the_time_of_a_file_decides_what_gives_way(patch: pytest.MonkeyPatch) -> None:
    """A READ bears a time at or behind its low watermark; what came between is in it."""

    def behind(opened: Any, batch: Any, streamed: Any, *, appends: bool) -> Any:
        files = {c: batch.buffers[c.window.id].trailers_of(c.window.id) for c in batch.closings}
        latest = {c: max((p.file.time for p in parts if p.file), default=0) for c, parts in files.items()}
        closings = [replace(c, low=max(c.low, type(c.low).from_int(latest[c]))) for c in batch.closings]
        return original(opened, replace(batch, closings=tuple(closings)), streamed, appends=appends)

    original = state_rows.files_to_add
    patch.setattr(state_rows, "files_to_add", behind)


def the_row_behind_the_right_one_is_marked(patch: pytest.MonkeyPatch) -> None:
    def hide(*given: Any) -> NewFile:
        file = original(*given)
        return replace(file, gone=tuple(sorted({(row + 1) % file.rows for row in file.gone})))

    original = read_files.hide
    patch.setattr(read_files, "hide", hide)


def old_rows_of_the_keys_stay(patch: pytest.MonkeyPatch) -> None:
    def without_actions(original: Callable[..., Removed]) -> Callable[..., Removed]:
        def found(self: Transaction, *given: Any, **how: Any) -> Removed:
            before = len(self._actions)
            removed = original(self, *given, **how)
            del self._actions[before:]
            return removed

        return found

    for name in ("mark", "remove"):
        patch.setattr(Transaction, name, without_actions(getattr(Transaction, name)))


def files_that_no_commit_has_named_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(state_rows, "withdraw", lambda *_: None)


def files_go_that_a_commit_has_named(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Buffer, "offer", lambda *_: None)


# Rule 46: READs that equal their rows


def what_was_rescued_is_not_compared(patch: pytest.MonkeyPatch) -> None:
    def without(columns: pa.Schema, *given: Any) -> bool:
        return original(pa.schema([of for of in columns if of.name != "_rescued_data"]), *given)

    original = file_matching._compared
    patch.setattr(file_matching, "_compared", without)


def a_null_equals_every_value(patch: pytest.MonkeyPatch) -> None:
    def equal(left: pa.Array, right: pa.Array) -> Any:
        return original(left, right) | ~(np.array(left.is_valid()) & np.array(right.is_valid()))

    original = file_matching.equal
    patch.setattr(file_matching, "equal", equal)


def what_equals_is_written_all_the_same(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(file_matching, "_compared", lambda *_: False)


# Rule 63: files that are written anew


def marks_that_came_meanwhile_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rewriting, "_marked", lambda _, copies, *__: list(copies))


def marks_stay_behind_where_files_are_concatenated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rewriting, "_with_marks", lambda _, made, *__: made)


def marks_lie_a_file_too_far(patch: pytest.MonkeyPatch) -> None:
    def shifted(given: Any, made: Any, begins: Sequence[int], *more: Any) -> Any:
        return original(given, made, [*begins[1:], begins[0]], *more)

    original = rewriting._with_marks
    patch.setattr(rewriting, "_with_marks", shifted)


def copies_count_as_changes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction, "_without_change", lambda add: add)


def a_rewrite_records_the_batch(patch: pytest.MonkeyPatch) -> None:
    def commit(self: Transaction, _: Any) -> None:
        self._app_id = "snapshotter:shop:0"
        self.commit_append(1_000, {})

    patch.setattr(Transaction, "commit_rewrite", commit)


@dataclass(frozen=True, slots=True)
class Mistake:
    plant: Plant
    scenario: Scenario


MISTAKES = (
    Mistake(reads_that_gave_way_are_seen, over_rows),
    Mistake(reads_that_gave_way_are_seen, first_load),
    Mistake(the_time_of_a_file_decides_what_gives_way, came_between),
    Mistake(the_row_behind_the_right_one_is_marked, over_rows),
    Mistake(old_rows_of_the_keys_stay, over_rows),
    Mistake(files_that_no_commit_has_named_stay, over_rows),
    Mistake(files_go_that_a_commit_has_named, came_between),
    Mistake(what_was_rescued_is_not_compared, compared),
    Mistake(a_null_equals_every_value, compared),
    Mistake(what_equals_is_written_all_the_same, compared),
    Mistake(marks_that_came_meanwhile_are_forgotten, rewritten),
    Mistake(marks_stay_behind_where_files_are_concatenated, concatenated),
    Mistake(marks_lie_a_file_too_far, concatenated),
    Mistake(copies_count_as_changes, undisturbed),
    Mistake(a_rewrite_records_the_batch, concatenated),
)


def _case(mistake: Mistake) -> Any:
    long = mistake.scenario in (over_rows, first_load)
    name = f"{mistake.plant.__name__}-{mistake.scenario.__name__}"
    return pytest.param(mistake, id=name, marks=[pytest.mark.thorough] if long else [])


@pytest.mark.parametrize("mistake", [_case(mistake) for mistake in MISTAKES])
def test_a_mistake_is_noticed(
    mistake: Mistake, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: random.Random
) -> None:
    """By what is held against the table, or by the landing's own refusal; without it all is well."""
    for number in range(_TRIES):
        seed = rng.getrandbits(32)
        with monkeypatch.context() as patch:
            mistake.plant(patch)
            try:
                mistake.scenario(spark, tmp_path / f"broken {number}", random.Random(seed))
            except Exception as error:  # noqa: BLE001 - whoever notices it says so in his own way
                where = traceback.extract_tb(error.__traceback__)[-1]
                assert where.filename != __file__ or where.name in _SCENARIOS, "it broke itself"
                print(f"{type(error).__name__} in {where.name}: {str(error)[:200]}")
                break
    else:
        pytest.fail(f"nothing has noticed it in {_TRIES} tries")
    mistake.scenario(spark, tmp_path / "whole", random.Random(seed))
