"""Rows of given keys, found in files of a table without Spark: those that the plain rule says, and vectors of them are
read as they were written."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.delta import file_keys
from streaming.delta.file_keys import Column, FileKeys
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


@given(
    files=FILES,
    ascend=st.booleans(),
    wanted=st.lists(KEYS, unique=True, min_size=1),
    scarce=st.booleans(),
    block=st.integers(1, 4),
)
def test_rows_of_keys_are_found(
    files: list[tuple[list[str], set[int]]], ascend: bool, wanted: list[str], scarce: bool, block: int
) -> None:
    """Each that is not marked, with the place of its key, even if there is just room for the keys; and the same at a
    second look. In files that are sorted, where some keys come more than once, too, few are looked for in blocks of
    rows."""
    if ascend:
        files = [(sorted(keys), marked) for keys, marked in files]
    with (
        tempfile.TemporaryDirectory() as path,
        patch.object(file_keys, "_BLOCK", block),
        patch.object(file_keys, "_FEW", 1),
    ):
        needed = sum(Column.of(pa.array(keys)).nbytes for keys, _ in files)
        folder, known = TableFolder.on_disk(path), FileKeys(needed if scarce else 1 << 20)
        olds = [a_file(folder, *one) for one in files]
        expected = {}
        for old, (keys, marked) in zip(olds, files, strict=True):
            rows = [n for n, key in enumerate(keys) if key in wanted and n not in marked]
            if rows:
                expected[old.name] = rows, [wanted.index(keys[n]) for n in rows]
        for _ in range(2):
            found = known.find(folder, olds, pa.array(wanted))
            assert {n: (h.rows.tolist(), h.places.tolist()) for n, h in found.items()} == expected


@given(
    files=st.lists(st.lists(KEYS, min_size=1, max_size=12), min_size=1, max_size=4),
    looked_at=st.sets(st.integers(0, 3)),
    kept=st.sampled_from([2_800, 1 << 20]),
)
def test_keys_of_files_that_were_concatenated_are_those_of_the_new_file(
    files: list[list[str]], looked_at: set[int], kept: int
) -> None:
    """If all of them were there, and there is room; nothing of the files themselves is kept any longer, and as much
    counts as is kept."""
    with tempfile.TemporaryDirectory() as path:
        folder, known = TableFolder.on_disk(path), FileKeys(kept)
        olds = [a_file(folder, keys, set()) for keys in files]
        for old in [old for number, old in enumerate(olds) if number in looked_at]:
            known.keys(folder, old.name)
        had = [known.has_keys(folder, old.name) for old in olds]
        whole = a_file(folder, [key for keys in files for key in keys], set())
        known.concat(folder, [old.name for old in olds], whole.name)
        assert not any(known.has_keys(folder, old.name) for old in olds)
        assert known.has_keys(folder, whole.name) <= all(had)
        if kept > 2_800:
            assert known.has_keys(folder, whole.name) is all(had)
        assert known._bytes == sum(one.size for one in known._kept.values()) <= kept
        folder.remove([whole.name] if known.has_keys(folder, whole.name) else [])
        assert known.keys(folder, whole.name).to_pylist() == [key for keys in files for key in keys]


@given(
    keys=st.lists(KEYS, min_size=1, max_size=12).map(sorted),
    wanted=st.sets(KEYS, min_size=1, max_size=3).map(sorted),
    block=st.integers(1, 4),
)
def test_a_block_that_is_left_out_has_none_of_the_keys(
    keys: list[str], wanted: list[str], block: int
) -> None:
    """And where few are looked for, most are."""
    with patch.object(file_keys, "_BLOCK", block):
        near = Column.of(pa.array(keys)).near(wanted)
    if near is not None:
        assert near.tolist() == sorted(set(near.tolist()))
        assert not {key for row, key in enumerate(keys) if row not in near} & {*wanted}


def test_few_keys_of_a_large_sorted_file_are_looked_for_in_few_rows() -> None:
    """Beyond its ends in none; in one that is not sorted, or has a row without a key, in all."""
    keys = [f"k{number:06}" for number in range(100_000)]
    column = Column.of(pa.array(keys))
    near = column.near(["a", "k000500", "k099999", "z"])
    assert near is not None
    assert 500 in near
    assert 99_999 in near
    assert len(near) < 1_000
    beyond = column.near(["a", "z"])
    assert beyond is not None
    assert beyond.tolist() == []
    assert Column.of(pa.array([*keys, "a"])).near(["k000500"]) is None
    assert Column.of(pa.array([*keys, None])).near(["k000500"]) is None


def test_it_holds_no_more_than_it_is_told_to(tmp_path: Path) -> None:
    """From that moment on."""
    folder, known = TableFolder.on_disk(str(tmp_path)), FileKeys()
    old = a_file(folder, ["x"], set())
    known.find(folder, [old], pa.array(["x"]))
    assert known.has_keys(folder, old.name)
    known.hold(100)
    assert not known.has_keys(folder, old.name)
    known.hold(1 << 20)
    known.find(folder, [old], pa.array(["x"]))
    assert known.has_keys(folder, old.name)


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
