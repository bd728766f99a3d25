"""What a table's files need: which of them are to be written together, and whether old files may be removed.

Each landing adds a file, however little it holds, and marks old rows in others. Files are put together in tiers, so
that a row is written anew only a few times however small its file was: a tier holds files of about one size, and is due
once there are many of them. What they become is a file of a higher tier. Files that have their full size are left alone
until many of their rows are marked.

    compact   many small files of one tier, or a few that landings mark rows in: the oldest of them, which change least,
              become few, sorted by key. Those that follow one another by key, and are not tiny, are concatenated: their
              row groups are copied as they are, which takes a hundredth of the time
    purge     files of which many rows are marked: written anew without these rows, once that frees enough
    vacuum    files that no version of the last hours needs are removed

One step is bounded by bytes: landings share the machine with it, and may have to wait. With what a step took, `Pace`
says how many bytes the next may have, and how long steps of its effort rest behind it: the less there is to land, the
shorter.

A table that changes all the time has small files again at each look, so what is due takes turns: old files go first,
for they do so once a day at most, and a purge goes before the next compaction once there was one. What rests does not
hold up the rest: small files come with each landing, and are put together while a large rewrite rests.

Invariants: a rewrite takes at least two files, or such of which rows are marked, and no file twice; it never takes more
than was allowed, unless it is a single file, or the two that are the least there is to put together. Files that are
concatenated have no more bytes than one file aims at.

Pure: standard library only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

SAFE_HOURS = 168
"""So long Delta remembers that a file was removed, unless the table says otherwise; removing files sooner than that is
what it takes for unsafe."""
_TIER = 16
"""How many times larger files of the next tier may be."""
_MARKED_COUNTS = 4
"""For so many others a small file counts of which rows are marked: landings mark rows in all of these, one landing
after the other, and each time the log has to remember what such a file was before."""
_FILES_MAX = 500
"""More are not put together at once, however small they are: each costs the driver calls into the JVM."""
_VACUUM_SECONDS = 86_400.0
_STEP_SECONDS = 3.0
_PAUSE, _PAUSE_IDLE = 9, 1
IDLE, _BUSY = 0.1, 0.5
"""Where batches take less than the first part of the time, there is nothing else to do; where they take the second,
there is no time for much else."""
_DEAD_PART = 10
"""Marked rows of less than this part of a table are not worth a commit."""
_CHAINED_BYTES = 512 << 10
"""A file of no less has row groups that whoever reads the table can do with."""
_BYTES_LEAST = 8 << 20
_SMALL_BYTES = 4 << 20
"""A rewrite of no more is a small one, which takes a moment."""
_LIGHT_BYTES = _SMALL_BYTES // 8
"""Files of no more are put together by a small rewrite while large ones rest."""
LOOK_SECONDS = 30.0
"""A table is looked at as often as this at least; what a look finds to be sound costs some calls into the JVM."""
_LOOK_SECONDS_MIN = 5.0
COMMITS, _COMMITS_MAX = 10, 1_000
"""Behind so many commits a checkpoint of the log may be due, and behind so many it is."""
_CHECKPOINT_PART = 100


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file of a table: its name, its size, how many ``rows`` it has, how many of these are ``marked`` as gone, and
    when it was written, in any unit that grows. ``low`` and ``high`` bound the keys of its rows, marked ones included;
    None: that is not known, or the order of keys is not what the table is to have."""

    path: str
    size_bytes: int
    rows: int
    marked: int = 0
    written: int = 0
    low: str | None = None
    high: str | None = None

    @property
    def live_bytes(self) -> int:
        """About so many bytes are of rows that are there."""
        return self.size_bytes * (self.rows - self.marked) // max(1, self.rows)

    @property
    def dead_bytes(self) -> int:
        """About so many bytes are of rows that are marked."""
        return self.size_bytes * self.marked // max(1, self.rows)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When upkeep is due: ``files``, that many small ones of about one size, or a fourth of that where rows of all of
    them are marked; ``file_bytes``, what a file aims at; ``marked_percent``, that part of a file's rows.
    ``file_rows``: a file has about so many rows at most, for what the driver holds of a file grows with them.
    ``retention_hours``: removed files stay so long, 0 is for ever; ``retention_checked``: less than Delta takes for
    safe is refused. ``idle``: nothing else is to be done, so that a fourth of ``files`` is enough, marked or not."""

    files: int = 32
    file_bytes: int = 128 << 20
    marked_percent: int = 30
    retention_hours: int = SAFE_HOURS
    retention_checked: bool = True
    idle: bool = False
    file_rows: int = 1 << 40

    @property
    def small_bytes(self) -> int:
        """A file below this is small."""
        return self.file_bytes // 2

    def worth_purging(self, table_bytes: int) -> int:
        """Marked rows of so many bytes are worth a commit."""
        return min(self.small_bytes // _TIER, table_bytes // _DEAD_PART)

    def are_enough(self, files: Sequence[FileFacts]) -> bool:
        """Whether these, of about one size, are to be put together."""
        weight = sum(_MARKED_COUNTS if file.marked or self.idle else 1 for file in files)
        return len(files) > 1 and weight >= self.files

    def fewest(self, marks: bool) -> int:
        """No fewer are ever enough, where some have ``marks``, or none has."""
        return max(2, self.files // _MARKED_COUNTS if marks or self.idle else self.files)

    def is_small(self, file: FileFacts) -> bool:
        return file.live_bytes < self.small_bytes and 2 * (file.rows - file.marked) < self.file_rows

    def is_marked(self, file: FileFacts) -> bool:
        """Whether enough of its rows are marked."""
        return file.marked > 0 and 100 * file.marked >= self.marked_percent * file.rows

    def chains(self, files: Sequence[FileFacts], full: Sequence[FileFacts]) -> list[list[FileFacts]]:
        """As many of these as can follow one another by key, in that order, in lists between which others of the table
        begin (``full``); no tiny ones, and none that is to be written without its marked rows anyway. (By their ends:
        Kleinberg and Tardos, Algorithm Design, section 4.1.)"""
        found: list[FileFacts] = []
        for file in sorted(
            filter(self._may_be_chained, files), key=lambda file: (file.high or "", file.path)
        ):
            if not found or (found[-1].high or "") < (file.low or ""):
                found.append(file)
        between = sorted(file.low for file in full if file.low is not None)
        return [list(some) for _, some in groupby(found, lambda file: bisect_left(between, file.low or ""))]

    def _may_be_chained(self, file: FileFacts) -> bool:
        known = file.low is not None and file.high is not None
        return known and _CHAINED_BYTES <= file.size_bytes < self.small_bytes and not self.is_marked(file)


class Kind(StrEnum):
    """What is done to a table."""

    COMPACT = "compact"
    PURGE = "purge"
    VACUUM = "vacuum"


class Effort(StrEnum):
    """What takes about as long, and rests together."""

    CONCATENATION = "concatenation"
    SMALL = "small rewrite"
    LARGE = "large rewrite"
    VACUUM = "vacuum"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class Step:
    """What is due, and why, as a clause for people. A rewrite: these ``files`` become so many (``outputs``);
    ``concatenates``: in this order, as they are."""

    kind: Kind
    reason: str
    files: tuple[FileFacts, ...] = ()
    outputs: int = 0
    concatenates: bool = False

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def effort(self) -> Effort:
        if self.kind is Kind.VACUUM:
            return Effort.VACUUM
        if self.concatenates:
            return Effort.CONCATENATION
        return Effort.SMALL if self.size_bytes <= _SMALL_BYTES else Effort.LARGE


def due(
    files: Sequence[FileFacts],
    limits: Thresholds,
    bytes_max: int,
    vacuumed_seconds_ago: float | None,
    last: Kind | None = None,
    resting: Collection[Effort] = (),
) -> Step | None:
    """What the table needs first; None for nothing.

    ``files``: those of its newest version, or as many of them as may need something. ``limits``: when it needs that.
    ``bytes_max``: a rewrite reads no more. ``vacuumed_seconds_ago``: when its old files were last removed; None where
    that is not known. ``last``: the rewrite that was done last. ``resting``: steps that are not to be done now.
    """
    steps = _steps(files, limits, bytes_max, vacuumed_seconds_ago, last)
    return next((step for step in steps if step.effort not in resting), None)


def _steps(
    files: Sequence[FileFacts], limits: Thresholds, bytes_max: int, ago: float | None, last: Kind | None
) -> Iterator[Step]:
    yield from _vacuum(limits, ago)
    for rewrites in (_purge, _compact) if last is Kind.COMPACT else (_compact, _purge):
        yield from rewrites(files, limits, bytes_max)


def _compact(files: Sequence[FileFacts], limits: Thresholds, bytes_max: int) -> Iterator[Step]:
    """Of each tier: the smallest ones first, which are most files for the fewest bytes."""
    tiers: dict[int, list[FileFacts]] = {}
    full = []
    for file in files:
        if limits.is_small(file):
            tiers.setdefault(_tier(file, limits), []).append(file)
        else:
            full.append(file)
    for tier, found in sorted(tiers.items(), reverse=True):
        size = _size(limits.small_bytes // _TIER**tier)
        if chains := [chain for chain in limits.chains(found, full) if limits.are_enough(chain)]:
            some = _within(chains[0], limits.file_bytes, least=2, rows_max=limits.file_rows)
            reason = f"{len(some)} of {len(found)} files of less than {size} follow one another by key"
            yield Step(Kind.COMPACT, reason, tuple(some), 1, concatenates=True)
            chained = {file.path for chain in chains for file in chain}
            found = [file for file in found if file.path not in chained]
        reason = f"{len(found)} files of less than {size}"
        light = [file for file in found if file.size_bytes <= _LIGHT_BYTES]
        for some, most in ((found, bytes_max), (light, min(bytes_max, _SMALL_BYTES))):
            if limits.are_enough(some):
                yield _rewrite(Kind.COMPACT, reason, _within(sorted(some, key=_age), most, least=2), limits)


def _purge(files: Sequence[FileFacts], limits: Thresholds, bytes_max: int) -> Iterator[Step]:
    found = [file for file in files if limits.is_marked(file)]
    dead, size = sum(file.dead_bytes for file in found), sum(file.size_bytes for file in files)
    if not found or dead < limits.worth_purging(size):
        return
    # Those that give most for what is written.
    ordered = sorted(found, key=lambda file: (-file.marked / file.rows, *_age(file)))
    marked, rows = sum(file.marked for file in found), sum(file.rows for file in found)
    reason = f"{marked:,} of {rows:,} rows in {len(found)} files are marked as gone"
    yield _rewrite(Kind.PURGE, reason, _within(ordered, bytes_max, least=1), limits)


def _vacuum(limits: Thresholds, ago: float | None) -> Iterator[Step]:
    every = min(_VACUUM_SECONDS, 3_600.0 * limits.retention_hours)
    if limits.retention_hours and (ago is None or ago >= every):
        reason = f"files that were removed more than {limits.retention_hours} hours ago are to go"
        yield Step(Kind.VACUUM, reason)


def _rewrite(kind: Kind, reason: str, files: Sequence[FileFacts], limits: Thresholds) -> Step:
    live, rows = sum(file.live_bytes for file in files), sum(file.rows - file.marked for file in files)
    outputs = max(1, round(live / limits.file_bytes), -(-rows // limits.file_rows))
    return Step(kind, reason, tuple(files), outputs)


def _within(
    files: Sequence[FileFacts], bytes_max: int, *, least: int, rows_max: int = 1 << 62
) -> list[FileFacts]:
    """The first of them, up to so many bytes and rows, but no fewer than ``least``."""
    chosen: list[FileFacts] = []
    size = rows = 0
    for file in files[:_FILES_MAX]:
        size, rows = size + file.size_bytes, rows + file.rows
        if len(chosen) >= least and (size > bytes_max or rows > rows_max):
            break
        chosen.append(file)
    return chosen


def _tier(file: FileFacts, limits: Thresholds) -> int:
    """0 for files of nearly full size, and one more for each factor that they are smaller."""
    tier, size = 0, limits.small_bytes // _TIER
    while size > 0 and file.live_bytes < size:
        tier, size = tier + 1, size // _TIER
    return tier


def _age(file: FileFacts) -> tuple[int, str]:
    return file.written, file.path


def _size(size: int) -> str:
    return f"{size / 1e6:,.3g} MB"


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is done at a time: ``bytes_max`` of the next rewrite. A step takes some seconds, and steps of its effort
    rest for nine times as long, or for as long as it took where there is nothing else to do."""

    bytes_max: int = _BYTES_LEAST

    def after(self, size_bytes: int, seconds: float) -> Pace:
        """The pace once a rewrite of ``size_bytes`` took so many ``seconds``. One of far fewer bytes than it might have
        had says nothing: it took what every one takes."""
        if size_bytes < self.bytes_max // 2:
            return self
        fits = int(size_bytes * _STEP_SECONDS / max(seconds, 0.001))
        return Pace(max(_BYTES_LEAST, min(fits, 2 * self.bytes_max)))

    @staticmethod
    def pause(seconds: float, busy: float) -> float:
        """How long steps rest behind one that took so many ``seconds``, where batches take the part ``busy`` of the
        time: from half of it on as long as they ever do."""
        return (_PAUSE_IDLE + (_PAUSE - _PAUSE_IDLE) * min(1.0, busy / _BUSY)) * seconds


def next_look(commits: int, seconds: float, limits: Thresholds, marks: bool) -> float:
    """In how many seconds a table is looked at again that had so many ``commits`` in so many ``seconds``: when there
    may be as many small files as its ``limits`` want, which are few where landings leave ``marks`` in them; at most
    every five seconds, and twice a minute at least."""
    wait = limits.fewest(marks) * seconds / max(1, commits)
    return min(LOOK_SECONDS, max(_LOOK_SECONDS_MIN, wait))


def checkpoint_due(commits: int, ago: float, took: float) -> bool:
    """Whether a checkpoint of the log is due, with so many commits behind the newest one: from ten on, but in no more
    than a hundredth of the time, where the last one was written ``ago`` seconds ago and ``took`` so many (0: none is
    known); and behind a thousand at the latest, for readers go through all of them.

    It has all files of the table, and those that were removed within a week, so it takes longer the more a table
    changes; and landings share the machine with it."""
    return commits >= _COMMITS_MAX or (commits >= COMMITS and ago >= _CHECKPOINT_PART * took)
