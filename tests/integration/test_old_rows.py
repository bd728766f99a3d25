"""Old rows of a batch's keys: who finds them, and what Spark does where the driver cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from streaming.delta.file_keys import FileKeys
from streaming.delta.transaction import Transaction
from tests.support.row_writers import ALL_WRITERS, Bench

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
