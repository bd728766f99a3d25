"""Upkeep comes to an end, writes each row few times, and keeps the number of files small."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from streaming.delta.upkeep_plan import FileFacts, Kind, Step, Thresholds, due

LIMITS = Thresholds(files=8, file_bytes=1 << 22, marked_percent=30, retention_hours=0)
PLENTY = 1 << 40


BOUNDS = st.one_of(
    st.tuples(st.integers(0, 99), st.integers(0, 3)).map(lambda at: (f"{at[0]:03}", f"{sum(at):03}")),
    st.tuples(st.none() | st.just("000"), st.none()),
)


@st.composite
def files(draw: st.DrawFn) -> list[FileFacts]:
    found = []
    for number in range(draw(st.integers(0, 40))):
        rows = draw(st.integers(0, 1_000))
        size = draw(st.integers(1, 1 << 22))
        facts = draw(st.integers(0, rows)), draw(st.integers(0, 9))
        found.append(FileFacts(f"f{number}", size, rows, *facts, *draw(BOUNDS)))
    return found


def rewritten(table: list[FileFacts], step: Step, now: int) -> list[FileFacts]:
    """The files as they are behind a step: those of it in as many as it says, without rows that are marked."""
    if step.concatenates:
        first, last = step.files[0], step.files[-1]
        rows, marked = (sum(getattr(file, of) for file in step.files) for of in ("rows", "marked"))
        made = [FileFacts(f"n{now}", step.size_bytes, rows, marked, 10 + now, first.low, last.high)]
        return [*(file for file in table if file not in step.files), *made]
    rows = sum(file.rows - file.marked for file in step.files)
    size = sum(file.live_bytes for file in step.files)
    count = min(step.outputs, rows)
    made = [FileFacts(f"n{now}-{n}", size // count, max(1, rows // count), 0, 10 + now) for n in range(count)]
    gone = {file.path for file in step.files}
    return [*(file for file in table if file.path not in gone), *made]


@given(files(), st.integers(1, 1 << 23))
def test_a_step_takes_files_that_need_it_and_no_more_than_was_allowed(
    table: list[FileFacts], bytes_max: int
) -> None:
    """Nothing is due where little is marked; else the files are the table's, each once."""
    step = due(table, LIMITS, bytes_max, None)
    if step is None:
        dead = sum(file.dead_bytes for file in table if LIMITS.is_marked(file))
        assert dead <= LIMITS.worth_purging(sum(file.size_bytes for file in table))
        return
    paths = [file.path for file in step.files]
    assert len(paths) == len(set(paths)), "no file twice"
    assert set(step.files) <= set(table)
    assert 1 <= step.outputs <= max(1, step.size_bytes // LIMITS.file_bytes + 1)
    if step.concatenates:
        assert all(one.high < other.low for one, other in pairwise(step.files)), "in the order of their keys"
        assert not any(LIMITS.is_marked(file) for file in step.files)
        bytes_max = LIMITS.file_bytes
    if step.kind is Kind.COMPACT:
        assert len(paths) >= 2
        assert all(LIMITS.is_small(file) for file in step.files)
    else:
        assert all(LIMITS.is_marked(file) for file in step.files)
    assert step.size_bytes <= bytes_max or len(paths) <= (2 if step.kind is Kind.COMPACT else 1)


@given(files(), st.integers(1, 1 << 23))
def test_upkeep_comes_to_an_end(table: list[FileFacts], bytes_max: int) -> None:
    """With nothing landing beside it, after fewer steps than there are files: then nothing is due any more."""
    for now in range(2 * len(table) + 1):
        step = due(table, LIMITS, bytes_max, None)
        if step is None:
            return
        table = rewritten(table, step, now)
    raise AssertionError("there was no end")


@given(st.integers(1, 1 << 14), st.integers(100, 1_500), st.sampled_from([0, 1]))
def test_a_row_is_written_few_times_however_small_its_file_was(size: int, commits: int, marks: int) -> None:
    """A stream of small files, each followed by all that is due: each byte is written once more for each tier, and the
    files left are few. So it is where each commit marks rows in all files that are there, which are fewer then."""
    limits = replace(LIMITS, files=32)
    table: list[FileFacts] = []
    written = 0
    for now in range(commits):
        table = [replace(file, marked=marks) for file in table]
        table.append(FileFacts(f"c{now}", size, 1_000, 0, now))
        while (step := due(table, limits, PLENTY, None)) is not None:
            written += step.size_bytes
            table = rewritten(table, step, 10_000 + now)
    tiers = math.ceil(math.log(limits.small_bytes, 16)) + 1
    # Of a tier that is sixteen times as wide, and due at 32 files, a byte sees one round, and at eight two or three.
    assert written <= (3 if marks else 1) * tiers * size * commits
    full = size * commits // limits.small_bytes
    most = 9 if marks else limits.files
    assert len(table) <= most * tiers + full + 1


@given(st.integers(512 << 10, 1 << 22), st.integers(1, 400), st.sampled_from([0, 1]), st.booleans())
def test_a_row_group_is_copied_few_times(size: int, commits: int, marks: int, idle: bool) -> None:
    """A load whose files follow one another, each followed by all that is due: nothing is decoded, each byte is copied
    once for each tier, or twice where few files are enough, and the files left are few."""
    limits = Thresholds(retention_hours=0, idle=idle)
    table: list[FileFacts] = []
    copied = 0
    for now in range(commits):
        table = [replace(file, marked=marks) for file in table]
        table.append(FileFacts(f"c{now}", size, 1_000, 0, now, f"k{now:06}0", f"k{now:06}9"))
        while (step := due(table, limits, PLENTY, None)) is not None:
            assert step.concatenates
            copied += step.size_bytes
            table = rewritten(table, step, 10_000 + now)
    assert copied <= (4 if marks or idle else 2) * size * commits
    assert len(table) <= 2 * limits.files + size * commits // limits.small_bytes
