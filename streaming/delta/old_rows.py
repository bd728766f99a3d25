"""The old rows of a batch's keys, taken out of a table: found, and marked in deletion vectors.

Two roads lead there, and `tests/conformance/test_row_writers.py` holds both to the same. The driver finds them by
itself, without a Spark job, where it has the batch's keys at hand and can hold those of the table's files that may meet
them (`file_keys`). Spark joins the two where these are many, where the batch is rows in a frame, and where a file is
one that is not read here.

Invariant: as many rows are marked as were found, each once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from streaming.column_names import KEY, OP
from streaming.delta.file_keys import FILES_MAX, KEYS_MAX, FileKeys
from streaming.delta.listed_file import ListedFile
from streaming.delta.row_writer import RowsInFiles, Source
from streaming.delta.state_merge import OUTSIDE, guarded
from streaming.delta.table_file import UNREAD
from streaming.delta.transaction import PLACE, Removed, Transaction
from streaming.delta.vector_writer import write_vectors

if TYPE_CHECKING:
    from streaming.delta.comparison import Matches
    from streaming.delta.file_matching import OldFile
    from streaming.delta.marked_rows import Numbers
    from streaming.delta.table_folder import TableFolder
    from streaming.keys.ranges import Range

_OP = "_snapshotter_op"


class Unsound(Exception):
    """A batch is not what was promised of it. Nothing has been done."""


@dataclass(frozen=True, slots=True)
class ByReads:
    """Rows that READs in files replace: ``gone``, by the names of the ``listed`` files of the table."""

    listed: Sequence[ListedFile]
    gone: Mapping[str, Numbers] = field(default_factory=dict)


def remove(
    transaction: Transaction,
    files: Any,
    source: Source,
    matches: Matches | None,
    by_reads: ByReads | None,
    kept: FileKeys | None,
    slower: Callable[[str], None],
) -> Removed:
    """In this ``transaction``, take out what these ``files`` of the table have of the source's keys, but for rows that
    equal their READ, of which ``matches`` or ``by_reads`` tells. ``kept``: None leaves all to Spark. ``slower`` is told
    why Spark had to look where the driver would have. Raises `Unsound` where the driver has the keys, and one comes
    twice or lies outside the source's ranges."""
    told = keys_at_hand(source.rows)
    if told is not None:
        _guard(told[KEY], source.ranges)
    if files.isEmpty():
        return Removed()
    if kept is not None and matches is None and (source.rows is None or told is not None):
        removed = _by_driver(transaction, files, told, by_reads, kept, slower)
        if removed is not None:
            return removed
    return _by_spark(transaction, files, source, matches, by_reads)


def keys_at_hand(rows: RowsInFiles | DataFrame | None) -> pa.Table | None:
    """The keys of rows and what becomes of each, where the driver has them and they are not too many."""
    told = rows.told if isinstance(rows, RowsInFiles) else None
    return told if told is not None and told.num_rows <= KEYS_MAX else None


def _by_driver(
    transaction: Transaction,
    files: Any,
    told: pa.Table | None,
    by_reads: ByReads | None,
    kept: FileKeys,
    slower: Callable[[str], None],
) -> Removed | None:
    """As `remove`, of the keys that are ``told``; None where the files are not for the driver. Nothing has been done
    then."""
    if transaction.known is None or files.size() > FILES_MAX:
        return None
    listed = transaction.listed(files) if by_reads is None else by_reads.listed
    if not all(one.said.counted for one in listed):
        return None
    if told is not None and not kept.have_room(sum(one.said.facts.rows for one in listed), told[KEY]):
        return None
    old = {one.name: one.as_old() for one in listed}
    if not all(file.reached for file in old.values()):
        return None
    folder = transaction.folder()
    try:
        marks, before, deletes = _looked_up(
            kept, folder, old, told, {} if by_reads is None else by_reads.gone
        )
    except UNREAD as error:
        slower(f"Spark looked for old rows: {type(error).__name__}: {error}")
        return None
    touched = [one for one in listed if one.name in marks]
    lost = [one for one in touched if one.loses_all(len(marks[one.name]))]
    names = {one.name for one in lost}
    rest = [one for one in touched if one.name not in names]
    whole = [_once((before[one.name], marks[one.name])) for one in rest]
    dropped = transaction.drop(lost)
    vectors = write_vectors(folder, whole)
    for one, vector, rows in zip(rest, vectors, whole, strict=True):
        kept.note(folder, one.name, vector.described, rows)
    marked = transaction.mark(list(zip(rest, vectors, strict=True)))
    return replace(marked, rows=sum(map(len, marks.values())), files=dropped.files, deletes=deletes)


def _looked_up(
    kept: FileKeys,
    folder: TableFolder,
    old: Mapping[str, OldFile],
    told: pa.Table | None,
    by_reads: Mapping[str, Numbers],
) -> tuple[dict[str, Numbers], dict[str, Numbers], int]:
    """Which rows of files have to go, by the names of these; which are gone already; how many are of deletes."""
    gone = {name: [rows] for name, rows in by_reads.items()}
    before = dict(zip(gone, folder.each(lambda name: kept.marked(folder, old[name]), [*gone]), strict=True))
    deletes = 0
    if told is not None:
        is_delete = np.asarray(pc.equal(told[OP], "d"))
        for name, hits in kept.find(folder, list(old.values()), told[KEY].combine_chunks()).items():
            gone.setdefault(name, []).append(hits.rows)
            before[name] = hits.marked
            deletes += int(np.count_nonzero(is_delete[hits.places]))
    return {name: _once(parts) for name, parts in gone.items()}, before, deletes


def _once(parts: Sequence[Numbers]) -> Numbers:
    """Rows of a file, ascending. A READ of a key that an event has gives way, and what is gone is not found again, so
    no row comes twice."""
    # NumPy's sets are hashed: a hundred times as long as sorting what ascends in runs.
    rows: Numbers = np.sort(np.concatenate(parts), kind="stable")
    if (rows[1:] == rows[:-1]).any():
        raise RuntimeError(f"of {len(rows)} old rows of a file one was found twice")
    return rows


def _guard(keys: pa.ChunkedArray, ranges: Sequence[Range] | None) -> None:
    """Raises `Unsound` for keys that come twice, or lie beyond all of these ranges."""
    if len(keys.unique()) != len(keys):
        raise Unsound("a key comes twice among streamed rows")
    if ranges is None or not len(keys):
        return
    within = (pc.and_(pc.greater_equal(keys, low), pc.less_equal(keys, high)) for low, high in ranges)
    if not ranges or not pc.all(reduce(pc.or_, within)).as_py():
        raise Unsound(f"{OUTSIDE}: one of a streamed row")


def _by_spark(
    transaction: Transaction, files: Any, source: Source, matches: Matches | None, by_reads: ByReads | None
) -> Removed:
    few, found, whole = source.known.few, [], Removed()
    if by_reads is not None and (gone := by_reads.gone):
        # Of a file that loses all of its rows to READs nothing is left for events.
        lost = [file for file in by_reads.listed if file.loses_all(len(gone.get(file.name, ())))]
        whole, names = transaction.drop(lost), {file.name for file in lost}
        files = transaction.list_of([file for file in by_reads.listed if file.name not in names])
        if rest := {name: rows for name, rows in gone.items() if name not in names}:
            found.append(transaction.places_of(rest).withColumn(_OP, F.lit("r")))
    if source.keys is not None and not files.isEmpty():
        rows = source.keys
        if isinstance(source.rows, RowsInFiles):  # others are guarded where they are written
            rows = guarded(rows, source.ranges, distinct=True)
        keys = rows.select(KEY, F.col(OP).alias(_OP))
        mine = transaction.places(files).join(F.broadcast(keys) if few else keys, KEY)
        found.append(mine.select(*PLACE, _OP))
    if matches is not None and matches.found.differing:
        found.append(matches.differing.select(*PLACE, F.lit("r").alias(_OP)))
    if not found:
        return whole
    seen = Observation()
    counts = F.count_if(F.col(_OP) == "d").alias("deletes"), F.count(F.lit(1)).alias("rows")
    removed = transaction.remove(files, reduce(DataFrame.unionByName, found).observe(seen, *counts), few=few)
    if removed.rows != seen.get["rows"]:
        raise RuntimeError(f"{seen.get['rows']} old rows were found, and {removed.rows} were marked")
    removed = replace(removed, rows=removed.rows + whole.rows, files=removed.files + whole.files)
    return replace(removed, deletes=int(seen.get["deletes"]))
