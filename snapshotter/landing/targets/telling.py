"""What workers do with READs that are told: they read their documents from files, and hand on what is made of them, or
write it into a file in the folder of whatever tells them. Nothing of it goes through the JVM but what a file is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streaming.column_names import KEY
from streaming.delta.new_files import TOLD, FileGone, FileWriter, NewFile, job_name, opened
from streaming.delta.table_folder import TableFolder
from streaming.events.read_envelopes import READS, TEXTS, WINDOW
from streaming.json_text import from_text, to_text

Batches = Iterable[pa.RecordBatch]
Make = Callable[[Batches], Iterator[pa.RecordBatch]]
"""Makes of READs (`streaming.events.read_envelopes.READS`) the rows that tell them."""
REPORT = "file string, gone string"
"""What `writer` says of each file: what it is, or which documents are gone."""
_BATCH_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """Documents of one window: the ``file`` that they lie in, with those marked that are not told; their bytes; and the
    ``window`` as `WINDOW` has it."""

    file: NewFile
    size_bytes: int
    window: tuple[int, str, str, str | None]


@dataclass(frozen=True, slots=True)
class Tell:
    """``make`` makes rows with these ``columns``. Those that are ``distinct`` have hardly any value twice."""

    make: Make
    columns: pa.Schema
    distinct: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """Documents in the folder ``of``, which are to be told in one file."""

    of: TableFolder
    parts: tuple[Part, ...]
    tell: Tell


@dataclass(frozen=True, slots=True)
class Telling:
    """A job: each of the ``tasks`` makes one file in the folder ``to``. Names of files begin with its ``name``."""

    to: TableFolder
    tasks: Sequence[Task]
    name: str = field(default_factory=partial(job_name, TOLD))


def made(
    make: Make, of: TableFolder, tasks: Sequence[Sequence[Part]], batches: Batches
) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: what ``make`` makes of the documents in the folder ``of``, of the ``tasks`` whose numbers are
    in ``batches``. Raises `FileGone`."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from make(_reads(of, tasks[number]))


def writer(job: Telling, batches: Batches) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: writes the files of the ``job``'s tasks whose numbers are in ``batches``; `REPORT`."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            file = gone = None
            try:
                file = _written(job, number)
            except FileGone as error:
                gone = str(error)
            text = None if file is None else to_text(file.to_json())
            said = [pa.array([value], pa.string()) for value in (text, gone)]
            yield pa.RecordBatch.from_arrays(said, names=["file", "gone"])


def reported(found: pa.Table) -> tuple[NewFile, ...]:
    """The files that a `writer` has reported. Raises `FileGone`."""
    rows = found.to_pylist()
    if (gone := next((row["gone"] for row in rows if row["gone"] is not None), None)) is not None:
        raise FileGone(gone)
    return tuple(NewFile.from_json(from_text(row["file"])) for row in rows if row["file"] is not None)


def _written(job: Telling, number: int) -> NewFile | None:
    task, tell = job.tasks[number], job.tasks[number].tell
    file = FileWriter(job.to, tell.columns, job.name, number, plain=tell.distinct)
    try:
        for batch in tell.make(_reads(task.of, task.parts)):
            file.add(batch)
        return file.close()
    except BaseException:
        file.discard()
        raise


def _reads(folder: TableFolder, parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
    """The documents of these parts as `READS`, some megabytes at a time."""
    for part in parts:
        told = np.ones(part.file.rows, np.bool_)
        told[list(part.file.gone)] = False
        with opened(folder, part.file) as source:
            file = pq.ParquetFile(source, pre_buffer=folder.store is not None)
            if file.metadata.num_rows != part.file.rows:
                raise ValueError(f"{part.file.name} has {file.metadata.num_rows} rows, not {part.file.rows}")
            groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
            size = sum(group.total_byte_size for group in groups)
            begin = 0
            for batch in file.iter_batches(
                max(1, _BATCH_BYTES * part.file.rows // size), columns=[KEY, *TEXTS.names]
            ):
                kept = batch.filter(pa.array(told[begin : begin + batch.num_rows]))
                begin += batch.num_rows
                said = zip(part.window, WINDOW, strict=True)
                window = [pa.repeat(pa.scalar(value, of.type), len(kept)) for value, of in said]
                yield pa.RecordBatch.from_arrays([*kept.columns, *window], schema=READS)
