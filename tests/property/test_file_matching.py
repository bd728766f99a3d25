"""Files of READs held against the files of a table, by the worker's own function and without Spark: what is to be done
is what the plain rule says, row by row."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.delta import file_matching, new_files
from streaming.delta.comparison import Found
from streaming.delta.file_matching import Matched, Matching, OldFile, reported, tasks, worker
from streaming.delta.new_files import FileGone, FileWriter, NewFile, job_name
from streaming.delta.table_folder import TableFolder
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.plan import Array, Column, Scalar, Struct, TablePlan

PLAN = TablePlan(
    (
        Column("n", Scalar("long")),
        Column("s", Struct((Column("d", Scalar("double")),))),
        Column("a", Array(Scalar("double"))),
    )
)
SCHEMA = COLUMNS.arrow_schema(PLAN)
DOUBLES = st.sampled_from([0.0, -0.0, 1.0, math.nan, None])
VALUES = st.tuples(
    st.sampled_from([1, 2, None]),
    st.one_of(st.none(), DOUBLES.map(lambda value: {"d": value})),
    st.one_of(st.none(), st.lists(DOUBLES, max_size=2)),
    st.sampled_from([None, '{"x":1}']),
)
KEYS = st.integers(0, 40).map(lambda n: f"k{n:02}")
ROWS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=30)


@dataclass
class Case:
    """``old``: the rows of each file of the table. ``new``: READs, of which the keys ``hidden`` gave way; cut into
    files at the places ``cuts``. Times differ from file to file."""

    old: list[dict[str, Any]]
    new: dict[str, Any]
    hidden: set[str]
    cuts: list[int]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    old, new = draw(st.lists(ROWS, max_size=3)), draw(ROWS)
    if old and draw(st.booleans()):  # a table that is sound but for a few rows
        few = dict(sorted(new.items())[:3])
        new = {**old[0], **few}
    hidden = draw(st.sets(st.sampled_from(sorted(new)), max_size=5))
    return Case(old, new, hidden, sorted(draw(st.sets(st.integers(1, len(new)), max_size=2))))


def write(folder: TableFolder, rows: dict[str, Any], time: int) -> NewFile:
    """In row groups of a few rows each."""
    writer, keys = FileWriter(folder, SCHEMA, job_name(), 1, time), sorted(rows)
    for at in range(0, len(keys), 7):
        some = keys[at : at + 7]
        columns = [some, *zip(*(rows[key] for key in some), strict=True)]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
        writer.add(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    made = writer.close()
    assert made is not None
    return made


def rows_in(folder: TableFolder, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(f"{folder.path}/{name}").to_pylist()
    return rows


def run(job: Matching) -> Matched:
    indexes = pa.RecordBatch.from_arrays([pa.array(range(len(job.tasks)), pa.int64())], names=["id"])
    return reported(job, pa.Table.from_batches(list(worker(job)(iter([indexes])))))


def plain(value: Any) -> Any:
    """The same for values that are equal."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, plain(inner)) for name, inner in value.items())
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def cut(rows: dict[str, Any], places: Sequence[int]) -> list[dict[str, Any]]:
    keys = sorted(rows)
    ends = [0, *places, len(keys)]
    parts = [keys[begin:end] for begin, end in pairwise(ends)]
    return [{key: rows[key] for key in part} for part in parts if part]


@settings(max_examples=150)
@given(case=cases(), cores=st.integers(1, 3), rewrite=st.booleans())
def test_what_is_done_is_what_the_rule_says(case: Case, cores: int, rewrite: bool) -> None:
    """A READ that did not give way takes the place of all rows of its key, unless there is one and it is equal; nothing
    else is taken out, or added. No file is added of which most is not to be seen."""
    small = (
        patch.multiple(new_files, GROUP_BYTES=1),
        patch.multiple(file_matching, _TASK_ROWS=1, _KEYS_HELD=5),
    )
    with tempfile.TemporaryDirectory() as path, small[0], small[1]:
        folder = TableFolder.on_disk(path)
        old = [write(folder, rows, 1) for rows in case.old]
        new = []
        for time, rows in enumerate(cut(case.new, case.cuts), 10):
            hidden = [place for place, key in enumerate(sorted(rows)) if key in case.hidden]
            new.append(write(folder, rows, time).without(hidden))
        table = [OldFile(file.name, None, file.low, file.high) for file in old]
        job = Matching(folder, SCHEMA, tasks(new, table, cores), rewrite)
        found = run(job)

        times = Counter(key for rows in case.old for key in rows)
        mine = {key: plain(row) for key, row in case.new.items() if key not in case.hidden}
        theirs = {key: plain(row) for rows in case.old for key, row in rows.items()}
        same = {key for key in mine if times[key] == 1 and mine[key] == theirs[key] and not rewrite}
        assert found.found == Found(sum(times[key] > 0 for key in mine.keys() - same), len(same))
        gone = {
            file.name: [place for place, key in enumerate(sorted(rows)) if key in mine.keys() - same]
            for file, rows in zip(old, case.old, strict=True)
        }
        assert {name: rows.tolist() for name, rows in found.gone.items()} == {
            n: r for n, r in gone.items() if r
        }
        seen = {}
        read = {file.name for file in new}
        for file in found.added:
            rows = rows_in(folder, file.name)
            assert len(rows) == file.rows <= 2 * file.visible
            assert file.name in read or (not file.gone and file.name.startswith(job.name))
            assert {row["_cluster_time"] for row in rows} == {file.time}
            left = [row for place, row in enumerate(rows) if place not in set(file.gone)]
            assert (rows[0]["_key"], rows[-1]["_key"]) == (file.low, file.high)
            assert not seen.keys() & {row["_key"] for row in left}
            seen |= {row["_key"]: (plain([row[of] for of in SCHEMA.names[1:]]), file.time) for row in left}
        assert {key: row for key, (row, _) in seen.items()} == {
            k: row for k, row in mine.items() if k not in same
        }
        times_read = {row["_key"]: file.time for file in new for row in rows_in(folder, file.name)}
        assert all(time >= times_read[key] for key, (_, time) in seen.items()), (
            "it holds as of when it was read"
        )


def test_a_file_that_is_gone_is_told(tmp_path: Any) -> None:
    """It was one of READs: nothing else is to be done than to read them again."""
    folder = TableFolder.on_disk(str(tmp_path))
    new = write(folder, {"a": (1, None, None, None)}, 1)
    folder.remove([new.name])
    with pytest.raises(FileGone, match=new.name):
        run(Matching(folder, SCHEMA, tasks([new], [], 1)))
