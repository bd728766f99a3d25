"""Files of READs held against the files of a table that may have rows of their keys, by Spark's Python workers.

A worker takes a few neighbouring files of READs, and the table's files that may hold keys between their first and their
last. It looks for the keys in these, and compares each READ that has one row with it, a column at a time, as long as
any is equal so far (`streaming.delta.comparison` says what equal is). What it reports is row numbers:

- of the table's files, which rows have to go: those whose READ differs;
- of a file of READs, which rows are not to be seen: they gave way to an event, or equal the row that is there. Where
  these are most of it, the others are written into a file of their own instead, so that no table gets a file of rows
  that nobody sees.

No row goes through the JVM. Files never change, so what is found holds for the version whose files these are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.column_names import KEY
from streaming.delta.arrow_rows import Flags, equal
from streaming.delta.comparison import Found
from streaming.delta.marked_rows import Numbers, marked_rows, within_reach
from streaming.delta.new_files import (
    MARKED_MAX,
    FileGone,
    FileWriter,
    NewFile,
    discard_job,
    job_name,
    opened,
)
from streaming.delta.table_file import KEYS, UNREAD, TableFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streaming.delta.table_folder import TableFolder

FILES_MAX = 400
"""Of the table, in one job: a worker has all of them open."""
_TASK_ROWS = 20_000
_KEYS_HELD = 2_000_000
_REPORT = "what string, name string, rows binary"
_OLD, _KEPT, _MADE, _FOUND, _GONE, _STRANGE = "old", "kept", "made", "found", "gone", "strange"


class Strange(Exception):
    """A file of the table is of a kind that is not read here. Nothing has been done."""


@dataclass(frozen=True, slots=True)
class OldFile:
    """A file of the table: its name in the table's folder, its deletion ``vector`` as the log describes it, and the
    bounds of its keys, as far as they are known."""

    name: str
    vector: Mapping[str, Any] | None = None
    low: str | None = None
    high: str | None = None

    @property
    def reached(self) -> bool:
        """Whether workers find it and its vector by their names."""
        plain = not self.name.startswith("/") and not {":", "%"} & {*self.name}
        return plain and (self.vector is None or within_reach(self.vector))

    def may_meet(self, new: NewFile) -> bool:
        """Whether it may have a row of a key between the first and the last of a file."""
        return (self.low or "") <= new.high and (self.high is None or new.low <= self.high)


@dataclass(frozen=True, slots=True)
class Task:
    """Files of READs, in the order of their keys, and the table's that may meet them."""

    new: tuple[NewFile, ...]
    old: tuple[OldFile, ...]


@dataclass(frozen=True, slots=True)
class Matching:
    """A job. ``folder``: the table's; ``columns``: those that are compared, and written where files are written anew,
    the key first; ``rewrite``: nothing counts as equal. Files that it writes begin with its ``name``."""

    folder: TableFolder
    columns: pa.Schema
    tasks: tuple[Task, ...]
    rewrite: bool = False
    name: str = field(default_factory=job_name)


@dataclass(frozen=True, slots=True)
class Matched:
    """What is to be done: these files are ``added``, with what is marked in them, and these rows of the table's files
    are ``gone``, by the names of the files. ``found``: what the READs have met."""

    added: tuple[NewFile, ...]
    gone: Mapping[str, Numbers]
    found: Found


def tasks(new: Sequence[NewFile], old: Sequence[OldFile], cores: int) -> tuple[Task, ...]:
    """The files of READs (``new``) in groups that follow one another, one for each of so many ``cores``, but none of a
    few rows; each with what it may meet of the ``old`` files, the table's."""
    ordered, whole = sorted(new, key=lambda file: file.low), sum(file.rows for file in new)
    size = max(_TASK_ROWS, -(-whole // cores))
    groups: list[list[NewFile]] = []
    rows = size
    for file in ordered:
        if rows >= size:
            groups.append([])
            rows = 0
        groups[-1].append(file)
        rows += file.rows
    return tuple(
        Task(tuple(group), tuple(one for one in old if any(one.may_meet(file) for file in group)))
        for group in groups
    )


def match(session: SparkSession, job: Matching) -> Matched:
    """Run the job, which leaves no file behind where it fails. Raises `FileGone` where a file of READs is not there,
    or is of another size, `Strange` where a file of the table cannot be read."""
    count = len(job.tasks)
    try:
        made = session.range(0, count, 1, count).mapInArrow(worker(job), _REPORT)
        return reported(job, made.toArrow())
    except BaseException:
        discard_job(job.folder, job.name)
        raise


def worker(job: Matching) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that runs on executors: it reports what it finds of the tasks of these numbers."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield _report(list(_matched(job, job.tasks[index])))

    return run


def reported(job: Matching, found: pa.Table) -> Matched:
    """What the workers have reported, put together. Raises what `match` raises."""
    added: list[NewFile] = []
    gone: dict[str, list[Numbers]] = {}
    changed = unchanged = 0
    files = {file.name: file for task in job.tasks for file in task.new}
    for row in found.to_pylist():
        what, name, rows = row["what"], row["name"], np.frombuffer(row["rows"], np.int64)
        if what == _GONE:
            raise FileGone(f"{name}, a file of READs, is gone, or of another size")
        if what == _STRANGE:
            raise Strange(name)
        if what == _OLD:
            gone.setdefault(name, []).append(rows)
        elif what == _KEPT:
            added.append(files[name].without(rows.tolist()))
        elif what == _MADE:
            added.append(NewFile.from_json(json.loads(name)))
        else:
            changed, unchanged = changed + int(rows[0]), unchanged + int(rows[1])
    whole = {name: np.concatenate(parts) for name, parts in gone.items()}
    return Matched(tuple(added), whole, Found(changed, unchanged))


Line = tuple[str, str, Numbers]


def _report(lines: Sequence[Line]) -> pa.RecordBatch:
    whats, names, rows = zip(*lines, strict=True)
    data = [numbers.astype(np.int64).tobytes() for numbers in rows]
    arrays = [pa.array(whats), pa.array(names), pa.array(data, pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, names=["what", "name", "rows"])


def _matched(job: Matching, task: Task) -> Iterator[Line]:
    with ExitStack() as stack:
        new: list[TableFile] = []
        for file in task.new:
            try:
                new.append(TableFile.of(opened(job.folder, file), job.folder, stack))
            except FileGone:
                yield _GONE, file.name, _NONE
                return
        reads = _Reads(task.new, new)
        try:
            hits = _hits(job.folder, task, reads, stack)
            times = np.bincount(
                np.concatenate([_NONE, *(hit.reads for hit in hits)]), minlength=len(reads.rows)
            )
            same = times == 1
            if job.rewrite or not _compared(job.columns, reads, hits, same):
                same[:] = False
        except UNREAD as error:
            yield _STRANGE, f"{type(error).__name__}: {error}", _NONE
            return
        yield _FOUND, "", np.array([np.count_nonzero((times > 0) & ~same), np.count_nonzero(same)])
        for hit in hits:
            differs = hit.rows[~same[hit.reads]]
            if len(differs):
                yield _OLD, hit.name, differs
        yield from _landing(job, reads, same)


_NONE = np.empty(0, np.int64)


class _Reads:
    """The READs of a task that did not give way, one behind the other: ``rows`` are their places among all of them,
    ``keys`` their keys."""

    def __init__(self, said: Sequence[NewFile], files: Sequence[TableFile]) -> None:
        self.said, self.files = said, files
        self.begins = [0, *np.cumsum([file.rows for file in files]).tolist()]
        seen = np.ones(self.begins[-1], np.bool_)
        for begin, file, one in zip(self.begins, said, files, strict=False):
            if one.rows != file.rows:
                raise ValueError(f"{file.name} has {one.rows} rows, and {file.rows} were written")
            seen[begin + np.array(file.gone, np.int64)] = False
        self.rows = np.flatnonzero(seen)
        self.keys = _taken(self.column(KEYS), self.rows)

    def column(self, of: pa.Field) -> pa.Array:
        return pa.concat_arrays([file.whole(of) for file in self.files])


@dataclass(slots=True)
class _Hit:
    """A file of the table that has rows of READs' keys: their numbers, ascending, and at each the place of the READ
    among those that did not give way."""

    name: str
    file: TableFile
    rows: Numbers
    reads: Numbers


def _hits(folder: TableFolder, task: Task, reads: _Reads, stack: ExitStack) -> list[_Hit]:
    """However much of the table lies between the READs' keys, no more than some of its keys are held at a time."""
    if not len(reads.keys):
        return []
    ordered = sorted(reads.keys.to_pylist())
    hits: list[_Hit] = []
    some: list[tuple[OldFile, TableFile, pa.Array, Numbers]] = []
    held = 0
    for old in task.old:
        file = TableFile.opened(folder, old.name, stack)
        gone = np.zeros(file.rows, np.bool_)
        if old.vector is not None:
            gone[marked_rows(folder, old.vector)] = True
        for group in file.groups_of(ordered):
            numbers = np.arange(file.begins[group], file.begins[group + 1])
            live = ~gone[numbers]
            keys = _taken(file.column(group, KEYS), np.flatnonzero(live))
            some.append((old, file, keys, numbers[live]))
            held += len(keys)
            if held >= _KEYS_HELD:
                hits += _met(some, reads)
                some, held = [], 0
    return _joined([*hits, *_met(some, reads)])


def _met(groups: Sequence[tuple[OldFile, TableFile, pa.Array, Numbers]], reads: _Reads) -> Iterator[_Hit]:
    """What row groups have of the READs' keys. They are looked for all at once: each look makes a table of all keys of
    READs."""
    whole = pa.concat_arrays([pa.array([], pa.string()), *(keys for _, _, keys, _ in groups)])
    places = pc.fill_null(pc.index_in(whole, value_set=reads.keys), -1).to_numpy().astype(np.int64)
    begin = 0
    for old, file, _, numbers in groups:
        of_group = places[begin : begin + len(numbers)]
        begin += len(numbers)
        met = of_group >= 0
        if met.any():
            yield _Hit(old.name, file, numbers[met], of_group[met])


def _joined(hits: Sequence[_Hit]) -> list[_Hit]:
    """One for each file; the row groups of a file come in their order."""
    files: dict[str, list[_Hit]] = {}
    for hit in hits:
        files.setdefault(hit.name, []).append(hit)
    return [
        _Hit(
            name,
            parts[0].file,
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.reads for part in parts]),
        )
        for name, parts in files.items()
    ]


def _compared(columns: pa.Schema, reads: _Reads, hits: Sequence[_Hit], same: Flags) -> bool:
    """Take out of ``same`` the READs that differ from their row; whether any is left."""
    for of in columns:
        if of.name == KEY:
            continue
        if not same.any():
            return False
        mine = reads.column(of)
        for hit in hits:
            for group, begin in enumerate(hit.file.begins[:-1]):
                inside = slice(*np.searchsorted(hit.rows, [begin, hit.file.begins[group + 1]]))
                left = same[hit.reads[inside]]
                rows, places = hit.rows[inside][left] - begin, hit.reads[inside][left]
                if len(rows):
                    theirs = _taken(hit.file.column(group, of), rows)
                    same[places] = equal(theirs, _taken(mine, reads.rows[places]))
    return bool(same.any())


def _landing(job: Matching, reads: _Reads, same: Flags) -> Iterator[Line]:
    """The files of the task as they are to be added: with their marks, or what is left of several as another."""
    seen = np.zeros(reads.begins[-1], np.bool_)
    seen[reads.rows[~same]] = True
    rest: list[tuple[NewFile, TableFile, Flags]] = []
    for said, file, begin in zip(reads.said, reads.files, reads.begins, strict=False):
        of_file = seen[begin : begin + said.rows]
        dead = np.flatnonzero(~of_file)
        if len(dead) == said.rows:
            continue
        if len(dead) <= MARKED_MAX and 2 * len(dead) <= said.rows:
            yield _KEPT, said.name, dead
        else:
            rest.append((said, file, of_file))
    if rest:
        yield _MADE, json.dumps(_written(job, rest).to_json()), _NONE


def _written(job: Matching, rest: Sequence[tuple[NewFile, TableFile, Flags]]) -> NewFile:
    """These rows of files in one file. All say that they hold as of the latest time that any of the files says: nothing
    has streamed on their keys up to the end of the batch, or they would have given way."""
    writer = FileWriter(job.folder, job.columns, job.name, 0, max(said.time for said, _, _ in rest))
    try:
        for _, file, seen in rest:
            for group, begin in enumerate(file.begins[:-1]):
                rows = np.flatnonzero(seen[begin : file.begins[group + 1]])
                if len(rows):
                    arrays = [_taken(file.column(group, of), rows) for of in job.columns]
                    writer.add(pa.RecordBatch.from_arrays(arrays, schema=job.columns))
        made = writer.close()
    except BaseException:
        writer.discard()
        raise
    assert made is not None, "some rows are seen"
    return made


def _taken(values: pa.Array, rows: Numbers) -> pa.Array:
    """Those rows; without a copy where they follow one another."""
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows) and (len(rows) < 2 or (np.diff(rows) == 1).all()):
        return values.slice(int(rows[0]), len(rows))
    return values.take(pa.array(rows))
