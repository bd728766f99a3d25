"""`streaming.delta.upkeep_plan`: what a table's files need, decided from values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streaming.delta.upkeep_plan import (
    Effort,
    FileFacts,
    Kind,
    Pace,
    Thresholds,
    checkpoint_due,
    due,
    next_look,
)

KB, MB = 1 << 10, 1 << 20
PLENTY = 1 << 40
LIMITS = Thresholds(files=4, file_bytes=128 * MB, marked_percent=30)


def some(count: int, size: int, first: int = 0) -> list[FileFacts]:
    """So many files of a size, the first of them the oldest."""
    return [FileFacts(f"f{n:04}", size, rows=10, written=n) for n in range(first, first + count)]


def test_a_sound_table_needs_nothing() -> None:
    """Few small files, files of their full size however many, a few marked rows; vacuumed lately."""
    files = [*some(3, 20 * KB), *some(50, 100 * MB, 100), FileFacts("m", 100 * MB, 100, marked=29)]
    assert due(files, LIMITS, PLENTY, 60.0) is None
    assert due([], LIMITS, PLENTY, 60.0) is None


def test_small_files_of_one_size_are_put_together() -> None:
    """Not with those of another size: a file of 40 MB is not written again for the sake of a few KB."""
    files = [*some(4, 20 * KB), *some(3, 40 * MB, 100)]
    step = due(files, LIMITS, PLENTY, 0.0)
    assert step is not None
    assert (step.kind, {file.size_bytes for file in step.files}, step.outputs) == (Kind.COMPACT, {20 * KB}, 1)
    assert "4 files" in step.reason


def test_the_oldest_files_come_first_and_a_step_is_bounded() -> None:
    """What is older changes less: the newest files are still to be marked."""
    files = some(8, 20 * MB)[::-1]
    step = due(files, LIMITS, 45 * MB, 0.0)
    assert step is not None
    assert [file.path for file in step.files] == ["f0000", "f0001"]
    step = due(files, LIMITS, PLENTY, 0.0)
    assert step is not None
    assert (len(step.files), step.outputs) == (8, 1)
    step = due(files, LIMITS, 1, 0.0)
    assert step is not None
    assert len(step.files) == 2, "the least there is to put together"


@pytest.mark.parametrize(
    ("marked", "sound", "is_due"),
    [(8, 0, True), (7, 4, True), (7, 3, False), (0, 32, True), (0, 31, False), (1, 28, True)],
)
def test_few_small_files_are_enough_where_landings_mark_rows_in_them(
    marked: int, sound: int, is_due: bool
) -> None:
    """Each landing that marks rows in a file again leaves one more removed file in the log."""
    files = [FileFacts(f"m{n}", 20 * KB, 1_000, marked=1, written=n) for n in range(marked)]
    step = due([*files, *some(sound, 20 * KB, 100)], Thresholds(), PLENTY, 0.0)
    assert (step is not None and step.kind is Kind.COMPACT) == is_due


def test_few_small_files_are_enough_where_there_is_nothing_else_to_do() -> None:
    """Marked or not: as few as with marks, and no fewer where they have them."""
    idle = Thresholds(idle=True)
    assert due(some(7, MB), idle, PLENTY, 0.0) is None
    assert due(some(8, MB), idle, PLENTY, 0.0) is not None
    assert due([replace(file, marked=1) for file in some(7, MB)], idle, PLENTY, 0.0) is None
    assert [idle.fewest(marks) for marks in (True, False)] == [8, 8]
    assert [Thresholds().fewest(marks) for marks in (True, False)] == [8, 32]


def in_order(count: int, size: int, marked: int = 0, rows: int = 100) -> list[FileFacts]:
    """So many files of a size that follow one another by key, the newest of them first."""
    bounds = [(f"k{n:04}0", f"k{n:04}9") for n in range(count)]
    return [FileFacts(low, size, rows, marked, count - n, low, high) for n, (low, high) in enumerate(bounds)]


def test_files_that_follow_one_another_are_concatenated() -> None:
    """In the order of their keys, up to what one file aims at, however little a rewrite may read; enough are as many as
    of others. Nothing is decoded while that rests."""
    files = in_order(200, MB)
    step = due(files[::-1], LIMITS, 1, 0.0)
    assert step is not None
    assert (step.kind, step.effort, step.concatenates) == (Kind.COMPACT, Effort.CONCATENATION, True)
    assert (list(step.files), step.outputs) == (files[:128], 1)
    assert step.reason == "128 of 200 files of less than 4.19 MB follow one another by key"
    assert due(files, LIMITS, PLENTY, 0.0, resting=[Effort.CONCATENATION]) is None
    for few, enough in ((31, False), (32, True)):
        assert (due(in_order(few, MB), Thresholds(), PLENTY, 0.0) is not None) is enough
    assert due(in_order(8, MB, marked=1), Thresholds(), PLENTY, 0.0) is not None
    assert due(in_order(8, MB), Thresholds(idle=True), PLENTY, 0.0) is not None


def test_a_file_has_no_more_rows_than_the_driver_can_hold_keys_of() -> None:
    """Files of half as many are left alone, however few bytes they have; what is written anew becomes more files."""
    few = replace(LIMITS, file_rows=1_000)
    step = due(in_order(200, MB), few, PLENTY, 0.0)
    assert step is not None
    assert len(step.files) == 10
    assert due(in_order(200, MB, rows=500), few, PLENTY, 0.0) is None
    step = due([FileFacts(f"m{n}", MB, 1_000, marked=500) for n in range(3)], few, PLENTY, 0.0)
    assert step is not None
    assert (step.kind, step.outputs) == (Kind.PURGE, 2)


def test_files_with_another_between_them_do_not_follow_one_another() -> None:
    """One of full size: what they become would lie across it."""
    files = in_order(9, MB)
    files[4] = replace(files[4], size_bytes=100 * MB)
    step = due(files, LIMITS, PLENTY, 0.0)
    assert step is not None
    assert list(step.files) == files[:4]
    step = due(files[2:], LIMITS, PLENTY, 0.0)
    assert step is not None
    assert list(step.files) == files[5:]
    assert due(files[2:8], LIMITS, PLENTY, 0.0, resting=[Effort.LARGE]) is None, "none but as rows"


@pytest.mark.parametrize(
    "other",
    [
        FileFacts("tiny", 400 * KB, 10, low="k00005", high="k00005"),
        FileFacts("wide", MB, 10, low="a", high="z"),
        FileFacts("unknown", MB, 10),
        FileFacts("beginning", MB, 10, low="k00009", high="k9"),
        FileFacts("between", MB, 10, low="k00005", high="k00011"),
        FileFacts("end", MB, 10, low=None, high="k00005"),
        FileFacts("marked", MB, 10, marked=3, low="k00095", high="k00096"),
    ],
)
def test_others_are_not_among_them(other: FileFacts) -> None:
    """Tiny ones, which would be tiny row groups; such that lie across others, or where is not known; and such that are
    to be written without their marked rows. They are put together as rows, once there are enough of them."""
    files = in_order(8, MB)
    for few in (1, 4):
        step = due([*files, *(replace(other, path=f"o{n}") for n in range(few))], LIMITS, PLENTY, 0.0)
        assert step is not None
        assert (step.concatenates, list(step.files)) == (True, files)
    others = [replace(other, path=f"o{n}", written=n) for n in range(4)]
    step = due([*files, *others], LIMITS, PLENTY, 0.0, resting=[Effort.CONCATENATION])
    assert step is not None
    assert (step.concatenates, list(step.files)) == (False, others)


def test_large_files_of_few_rows_that_are_left_are_not_among_them() -> None:
    """Where many rows may be marked before a file is purged: together they would be larger than a file aims at."""
    most_marked = [replace(file, marked=80) for file in in_order(4, 100 * MB)]
    step = due(most_marked, replace(LIMITS, marked_percent=90), PLENTY, 0.0)
    assert step is not None
    assert not step.concatenates


def test_files_of_many_marked_rows_are_purged() -> None:
    """The fullest of marks first; one file alone is enough, whatever its size. Compaction goes before, unless it was
    the last thing done."""
    files = [
        FileFacts("a", 100 * MB, 100, marked=30),
        FileFacts("b", 100 * MB, 100, marked=90),
        FileFacts("c", 100 * MB, 100, marked=29),
        FileFacts("d", 100 * MB, 0),
    ]
    step = due(files, LIMITS, 1, 0.0)
    assert step is not None
    assert (step.kind, [file.path for file in step.files], step.outputs) == (Kind.PURGE, ["b"], 1)
    assert "120 of 200 rows in 2 files" in step.reason
    for last, kind in ((None, Kind.COMPACT), (Kind.COMPACT, Kind.PURGE), (Kind.PURGE, Kind.COMPACT)):
        step = due([*files, *some(4, KB)], LIMITS, PLENTY, 0.0, last)
        assert step is not None
        assert step.kind is kind


def test_a_few_marked_rows_are_not_worth_a_commit() -> None:
    """However many they are of their file: those of small files go when these are put together."""
    small = FileFacts("s", 100 * KB, 100, marked=90)
    assert due([small, FileFacts("a", 100 * MB, 100)], LIMITS, PLENTY, 0.0) is None
    step = due([small, FileFacts("a", 500 * KB, 100)], LIMITS, PLENTY, 0.0)
    assert step is not None, "of a small table it is much"


@pytest.mark.parametrize(
    ("hours", "ago", "is_due"),
    [
        (168, None, True),  # nobody knows when
        (168, 86_401.0, True),
        (168, 86_399.0, False),
        (1, 3_601.0, True),  # never less often than files may go
        (0, None, False),
    ],
)
def test_when_old_files_are_removed(hours: int, ago: float | None, is_due: bool) -> None:
    """Once a day, and not at all where they are to stay."""
    step = due([], Thresholds(retention_hours=hours), PLENTY, ago)
    assert (step is not None and step.kind is Kind.VACUUM) == is_due


def test_a_table_that_has_small_files_at_each_look_is_cared_for_as_well() -> None:
    """Old files go first, whatever else is due; marked rows go between two compactions."""
    busy = [*some(9, 20 * KB), FileFacts("m", 100 * MB, 100, marked=50)]
    done, vacuumed, last = [], None, None
    for _ in range(4):
        step = due(busy, LIMITS, PLENTY, vacuumed, last)
        assert step is not None
        vacuumed, last = 0.0, step.kind
        done.append(step.kind)
    assert done == [Kind.VACUUM, Kind.COMPACT, Kind.PURGE, Kind.COMPACT]


def test_what_rests_does_not_hold_up_the_rest() -> None:
    """Small files are put together while a large rewrite rests, and the other way round; so are the small ones among
    files that would be a large rewrite all together. Removing old files rests for itself."""
    small, middle, large = some(8, 20 * KB), some(8, MB, 100), some(8, 30 * MB, 200)

    def sizes(files: list[FileFacts], *resting: Effort, ago: float | None = 0.0) -> set[int] | Kind | None:
        step = due(files, LIMITS, 8 * MB, ago, resting=resting)
        if step is None:
            return None
        assert step.effort not in resting
        return {file.size_bytes for file in step.files} or step.kind

    every = [*small, *middle, *large]
    assert sizes(every) == {20 * KB}
    assert sizes(every, Effort.SMALL) == {MB}
    assert sizes(every, Effort.LARGE) == {20 * KB}
    assert sizes([*middle, *large], Effort.LARGE) is None
    assert sizes([*some(20, 300 * KB), *middle], Effort.LARGE) == {300 * KB}
    assert sizes(every, Effort.SMALL, Effort.LARGE) is None
    assert sizes(every, ago=None) is Kind.VACUUM
    assert sizes(every, Effort.VACUUM, ago=None) == {20 * KB}


def test_a_step_takes_some_seconds_and_a_tenth_of_the_time() -> None:
    """Bytes follow what the last rewrite took; one of far fewer says nothing, and one step does not do too much of it.
    Where there is nothing to land a step may take half of the time."""
    pace = Pace()
    assert pace.bytes_max == 8 * MB
    assert pace.after(KB, 3.0) == pace
    grown = pace.after(7 * MB, 0.1)
    assert grown.bytes_max == 16 * MB
    assert grown.after(15 * MB, 5.0).bytes_max == 9 * MB
    assert grown.after(7 * MB, 0.1) == grown
    assert grown.after(15 * MB, 1_000.0).bytes_max == 8 * MB
    assert [Pace.pause(2.0, busy) for busy in (0.0, 0.25, 0.5, 2.0)] == [2.0, 10.0, 18.0, 18.0]


@pytest.mark.parametrize(
    ("commits", "seconds", "marks", "again"),
    [
        (0, 30.0, True, 30.0),  # nothing happens
        (1, 30.0, True, 30.0),
        (16, 30.0, True, 15.0),
        (30, 30.0, True, 8.0),  # a commit a second
        (300, 30.0, True, 5.0),
        (8, 0.0, True, 5.0),
        (30, 30.0, False, 30.0),
        (64, 30.0, False, 15.0),
    ],
)
def test_a_table_is_looked_at_again_when_it_may_have_small_files(
    commits: int, seconds: float, marks: bool, again: float
) -> None:
    """About every eight commits where they mark rows, or 32, but twice a minute at least."""
    assert next_look(commits, seconds, Thresholds(), marks) == again


@pytest.mark.parametrize(
    ("commits", "ago", "took", "is_due"),
    [
        (9, 1e9, 0.0, False),  # readers go through few commits
        (10, 0.0, 0.0, True),
        (10, 199.0, 2.0, False),
        (10, 200.0, 2.0, True),  # it took a hundredth of the time
        (999, 30.0, 60.0, False),
        (1_000, 30.0, 60.0, True),  # whatever it takes
    ],
)
def test_a_checkpoint_takes_a_hundredth_of_the_time(
    commits: int, ago: float, took: float, is_due: bool
) -> None:
    """Behind ten commits at the soonest, and a thousand at the latest."""
    assert checkpoint_due(commits, ago, took) == is_due
