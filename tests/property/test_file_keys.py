"""Rows of given keys, found in files of a table without Spark: those that the plain rule says, and vectors of them are
read as they were written."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.delta.file_keys import FileKeys
from streaming.delta.file_matching import OldFile
from streaming.delta.marked_rows import marked_rows, rows_in
from streaming.delta.new_files import FileWriter, job_name
from streaming.delta.table_folder import TableFolder
from streaming.delta.vector_writer import to_bytes, write_vectors

SCHEMA = pa.schema([pa.field("_key", pa.string())])
KEYS = st.integers(0, 30).map(lambda n: f"k{n:02}")
FILES = st.lists(st.tuples(st.lists(KEYS, min_size=1, max_size=12), st.sets(st.integers(0, 11))), max_size=4)
SIZES = st.sampled_from([1, 5, 4_096, 4_097, 65_536, 70_000])


def a_file(folder: TableFolder, keys: list[str], marked: set[int]) -> OldFile:
    writer = FileWriter(folder, SCHEMA, job_name(), 0)
    writer.add(pa.RecordBatch.from_arrays([pa.array(keys)], schema=SCHEMA))
    made = writer.close()
    assert made is not None
    gone = np.array(sorted(n for n in marked if n < len(keys)), np.int64)
    vector = write_vectors(folder, [gone])[0].described if len(gone) else None
    return OldFile(made.name, vector)


@given(files=FILES, wanted=st.lists(KEYS, unique=True, min_size=1), kept=st.sampled_from([2_500, 1 << 20]))
def test_rows_of_keys_are_found(
    files: list[tuple[list[str], set[int]]], wanted: list[str], kept: int
) -> None:
    """Each that is not marked, with the place of its key, however little is kept; and the same at a second look."""
    with tempfile.TemporaryDirectory() as path:
        folder, known = TableFolder.on_disk(path), FileKeys(kept)
        olds = [a_file(folder, *one) for one in files]
        expected = {}
        for old, (keys, marked) in zip(olds, files, strict=True):
            rows = [n for n, key in enumerate(keys) if key in wanted and n not in marked]
            if rows:
                expected[old.name] = rows, [wanted.index(keys[n]) for n in rows]
        for _ in range(2):
            found = known.find(folder, olds, pa.array(wanted))
            assert {n: (h.rows.tolist(), h.places.tolist()) for n, h in found.items()} == expected


def test_what_is_kept_is_not_read_again_and_is_one_tables(tmp_path: Path) -> None:
    """A file that is gone meanwhile is still known; one of the same name in another folder is another file."""
    one, other = (TableFolder.on_disk(str(tmp_path / name)) for name in ("a", "b"))
    for folder in (one, other):
        Path(folder.path).mkdir()
    known, old = FileKeys(), a_file(one, ["x", "y"], set())
    for _ in range(2):
        assert known.find(one, [old], pa.array(["y"]))[old.name].rows.tolist() == [1]
        one.remove([old.name])
    with pytest.raises(FileNotFoundError):
        known.find(other, [old], pa.array(["y"]))
    with pytest.raises(FileNotFoundError):
        FileKeys(500).find(one, [old], pa.array(["y"]))  # too little for one to be kept
    with pytest.raises(ValueError, match="room for less"):
        FileKeys(1).find(other, [a_file(other, ["x"], set())], pa.array(["y"]))


def test_a_newer_vector_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    """So that what is kept of a file does not grow with the commits that mark its rows."""
    folder, known = TableFolder.on_disk(str(tmp_path)), FileKeys(2_500)
    file = a_file(folder, ["x", "y", "z"], set())
    for rows in ([0], [0, 1], [0, 1, 2]):
        (vector,) = write_vectors(folder, [np.array(rows, np.int64)])
        known.note(folder, file.name, vector.described, np.array(rows, np.int64))
    known.find(folder, [OldFile(file.name, vector.described)], pa.array(["y"]))
    folder.remove([path.name for path in tmp_path.iterdir()])
    assert known.marked(folder, OldFile(file.name, vector.described)).tolist() == [0, 1, 2]
    assert known.find(folder, [OldFile(file.name, vector.described)], pa.array(["y"])) == {}


def test_a_file_without_keys_is_none_to_look_into(tmp_path: Path) -> None:
    """Spark, to which names are the same in any case, may see them."""
    pq.write_table(pa.table({"_KEY": ["x"]}), tmp_path / "f.parquet")
    with pytest.raises(ValueError, match="no column _key"):
        FileKeys().find(TableFolder.on_disk(str(tmp_path)), [OldFile("f.parquet")], pa.array(["x"]))


def test_it_is_known_beforehand_whether_there_is_room() -> None:
    """By the keys that are looked for: those of a table are as long as these."""
    some = pa.array(["k" * 26] * 10)
    assert FileKeys(10 * some.nbytes).have_room(100, some)
    assert not FileKeys(10 * some.nbytes).have_room(101, some)
    assert FileKeys(0).have_room(100, some.slice(0, 0))


def test_what_was_noted_of_a_vector_is_what_lies_there(tmp_path: Path) -> None:
    """Whoever has written one need not read it."""
    folder, known = TableFolder.on_disk(str(tmp_path)), FileKeys()
    rows = np.array([0, 2], np.int64)
    (vector,) = write_vectors(folder, [rows])
    known.note(folder, "f", vector.described, rows)
    folder.remove([path.name for path in tmp_path.iterdir()])
    assert known.marked(folder, OldFile("f", vector.described)).tolist() == [0, 2]


@given(size=SIZES, high=st.sampled_from([1 << 17, 1 << 20, 1 << 34]), seed=st.integers(0, 99))
def test_a_vector_is_read_as_it_was_written(size: int, high: int, seed: int) -> None:
    """Few rows and many, close together and far apart, beyond 32 bits too."""
    rows = np.unique(np.random.default_rng(seed).integers(0, high, size))
    assert np.array_equal(rows_in(to_bytes(rows)), rows)


def test_vectors_of_a_commit_lie_in_one_file(tmp_path: Path) -> None:
    """Each at its place; and a file that could not be written whole is not left there."""
    folder = TableFolder.on_disk(str(tmp_path))
    wanted = [np.arange(n, dtype=np.int64) for n in (1, 5_000, 3)]
    written = write_vectors(folder, wanted)
    assert len(list(tmp_path.iterdir())) == 1
    for vector, rows in zip(written, wanted, strict=True):
        assert np.array_equal(marked_rows(folder, vector.described), rows)
    with pytest.raises(OSError, match="nowhere"):
        write_vectors(TableFolder.on_disk(str(tmp_path / "nowhere")), wanted)
