"""Old rows of a batch's keys: who finds them, and what Spark does where the driver cannot."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from streaming.delta import old_rows, state_upsert
from streaming.delta.comparison import ReadFiles
from streaming.delta.file_keys import FileKeys
from streaming.delta.new_files import NewFile
from streaming.delta.old_rows import Unsound
from streaming.delta.row_writer import Source
from streaming.delta.state_upsert import Upsert
from streaming.delta.table_folder import TableFolder
from streaming.delta.transaction import Transaction
from streaming.keys.ranges import cover
from streaming.layouts.columns.layout import COLUMNS
from tests.support.row_writers import ALL_WRITERS, PLAN, SCHEMA, Bench, Change

BY_DRIVER = "upsert, rows are files, old ones found by the driver"


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    made = Bench(spark, tmp_path / "orders", ALL_WRITERS[BY_DRIVER])
    made.write(0, *((f"k{n}", n, "c") for n in range(9)))
    made.write(1, ("k1", 10, "u"), ("k2", None, "d"))
    return made


def refused(*_: Any) -> None:
    raise AssertionError("this is the other's")


def unreadable(*_: Any) -> None:
    raise ValueError("of a kind that Arrow does not read")


def test_the_driver_needs_no_job(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It marks what it finds, in files that are marked already too; a file that loses all of its rows goes."""
    for name in ("remove", "places"):
        monkeypatch.setattr(Transaction, name, refused)
    bench.write(2, ("k1", 11, "u"), ("k3", 30, "u"), ("k4", None, "d"))
    assert bench.rows() == [("k0", 0), ("k1", 11), ("k3", 30), *((f"k{n}", n) for n in range(5, 9))]
    commit = bench.write(3, *((f"k{n}", None, "d") for n in (0, 5, 6, 7, 8)))
    assert commit is not None
    assert (commit.count("numTargetFilesRemoved"), bench.rows()) == (1, [("k1", 11), ("k3", 30)])
    assert bench.spark.read.format("delta").load(str(bench.path)).count() == 2


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("streaming.delta.old_rows.KEYS_MAX", 0),
        ("streaming.delta.file_keys.FileKeys.have_room", lambda *_: False),
        ("streaming.delta.old_rows.FILES_MAX", 0),
        ("streaming.delta.file_matching.OldFile.reached", property(lambda _: False)),
        ("streaming.delta.file_keys.TableFile.opened", unreadable),
    ],
    ids=["many keys", "many rows", "many files", "elsewhere", "strange"],
)
def test_where_the_driver_cannot_spark_does(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, what: str, value: Any
) -> None:
    """With the same outcome; nothing has been done by then."""
    bench.writer.kept = FileKeys()  # type: ignore[attr-defined]
    monkeypatch.setattr(what, value)
    monkeypatch.setattr(Transaction, "mark", refused)
    bench.write(2, ("k1", 11, "u"), ("k3", 30, "u"), ("k4", None, "d"))
    assert bench.rows() == [("k0", 0), ("k1", 11), ("k3", 30), *((f"k{n}", n) for n in range(5, 9))]


FILES = 40
MET = range(0, FILES, 3)
"""Files that have a key of the batch: more than a batch has ranges."""


class Scattered(Bench):
    """A table of many files of two rows, beside one another."""

    def filled(self) -> list[NewFile]:
        return self.add([[(f"{n:02}a", n), (f"{n:02}b", n)] for n in range(FILES)])

    def add(self, parts: Sequence[Sequence[tuple[str, int]]]) -> list[NewFile]:
        """A file of new rows each."""
        self.upsert.new = files = [self.file(rows) for rows in parts]
        self.write_source(0, Source(None, cover((file.low, file.high) for file in files)), "append")
        self.upsert.new = None
        return files

    def merge_both(self, number: int, changes: Sequence[Change], reads: Sequence[NewFile]) -> None:
        """Streamed rows and READs, both in files."""
        events = self.source(changes)
        ranges = cover([*(events.ranges or ()), *((file.low, file.high) for file in reads)])
        held = ReadFiles(reads, COLUMNS.arrow_schema(PLAN), SCHEMA)
        self.write_source(number, replace(events, reads=held, ranges=ranges))

    @property
    def upsert(self) -> Upsert:
        assert isinstance(self.writer, Upsert)
        return self.writer

    def looked_into(self, files: Sequence[NewFile]) -> list[int]:
        """Those of the files whose keys the driver has read, by their numbers."""
        kept, folder = self.upsert.kept, TableFolder.on_disk(str(self.path))
        assert kept is not None
        return [number for number, file in enumerate(files) if kept.has_keys(folder, file.name)]


@pytest.fixture
def scattered(spark: SparkSession, tmp_path: Path) -> Scattered:
    return Scattered(spark, tmp_path / "orders", ALL_WRITERS[BY_DRIVER])


UPDATES: list[Change] = [*((f"{n:02}a", 100 + n, "u") for n in MET[1:]), ("00a", None, "d"), ("20c", 7, "c")]
"""Of one row in each file that is met, but for one that is deleted and one that is new."""


def updated(more: Mapping[str, int]) -> list[tuple[str, int]]:
    """The rows of a table that was `filled` once these have landed, and ``more`` beside them."""
    rows = {f"{n:02}{what}": n for n in range(FILES) for what in "ab"}
    rows |= {key: n for key, n, _ in UPDATES if n is not None} | more
    del rows["00a"]
    return sorted(rows.items())


def test_files_between_scattered_keys_are_left_alone(
    scattered: Scattered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few ranges say where the keys of a batch are: the driver opens the files alone that may have one of them,
    and does so where all those of the ranges would be too many."""
    files = scattered.filled()
    monkeypatch.setattr(old_rows, "FILES_MAX", len(MET))
    scattered.write(1, *UPDATES)
    assert scattered.looked_into(files) == [*MET]
    assert scattered.rows() == updated({})


def test_so_they_are_beside_reads_that_lie_in_files(
    scattered: Scattered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which are held against the files of the table that may have a key of theirs."""
    files = scattered.filled()
    reads = [scattered.file([("01a", 1), ("01b", 5)]), scattered.file([("39b", 6), ("39c", 6)])]
    near = len(MET) + 1  # the last file has an event's key as well
    for module in (state_upsert, old_rows):
        monkeypatch.setattr(module, "FILES_MAX", near)
    scattered.merge_both(1, UPDATES, reads)
    assert scattered.upsert.slower is None
    assert scattered.looked_into(files) == sorted({*MET, 1})
    assert scattered.rows() == updated({"01b": 5, "39b": 6, "39c": 6})


@pytest.mark.parametrize("too_many", [None, old_rows, state_upsert], ids=["driver", "Spark", "READs as rows"])
def test_batches_of_few_keys_among_many_files(
    scattered: Scattered, rng: random.Random, monkeypatch: pytest.MonkeyPatch, too_many: Any
) -> None:
    """Whose ranges overlap: whatever comes by event and by READ, a key has one row, the newest; whoever finds the old
    ones among the files that are left."""
    if too_many is not None:
        monkeypatch.setattr(too_many, "FILES_MAX", 0)
    keys = [f"{n:03}" for n in range(3 * FILES)]
    expected = dict.fromkeys(sorted(rng.sample(keys, 2 * FILES)), 0)
    some = [*expected]
    for at in range(0, len(some) - 4, 4):  # neighbours, now and then one from afar
        other = rng.randrange(at, min(at + 8, len(some)))
        some[at], some[other] = some[other], some[at]
    files = scattered.add([[(some[at], 0), (some[at + 1], 0)] for at in range(0, len(some), 2)])
    for number in range(1, 5):
        at = rng.randrange(len(keys) - 4)
        read, same = keys[at : at + 3], keys[at + 3]
        streamed = rng.sample([*keys[:at], *keys[at + 4 :]], 4)
        changes: list[Change] = [(key, number, rng.choice("cud")) for key in streamed]
        reads = dict.fromkeys(read, number) | {same: expected.get(same, number)}
        scattered.merge_both(number, changes, [scattered.file(list(reads.items()))])
        expected |= reads | {key: number for key, _, op in changes if op != "d"}
        for key in (key for key, _, op in changes if op == "d"):
            expected.pop(key, None)
        assert scattered.rows() == sorted(expected.items())
    assert (scattered.upsert.slower is None) == (too_many is not state_upsert)
    looked_into = scattered.looked_into(files)
    assert len(looked_into) < len(files)
    assert bool(looked_into) == (too_many is None)


@pytest.mark.parametrize(
    ("changes", "ranges"),
    [
        ([("k0", 1, "c"), ("k0", 2, "c")], [("k0", "k0")]),
        ([("k0", 1, "c"), ("k5", 2, "c"), ("k9", 3, "c")], [("k0", "k1"), ("k8", "k9")]),
    ],
    ids=["twice", "outside"],
)
def test_keys_that_are_not_as_promised_fail_where_no_file_is_near(
    scattered: Scattered, changes: list[Change], ranges: list[tuple[str, str]]
) -> None:
    """As they do elsewhere: nothing is written, and in a new table two rows of a key would stay unseen."""
    with pytest.raises(Unsound):
        scattered.write(0, *changes, ranges=ranges)
    assert scattered.rows() == []
