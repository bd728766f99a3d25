"""A warehouse on a disk has to be the same folder for the driver and for those who work for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from snapshotter.engine.shared_warehouse import why_apart


def test_one_folder_is_seen_to_be_one(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is left in it."""
    assert why_apart(spark, tmp_path, tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("there", ["a disk of its own", "nothing"])
def test_another_folder_is_named(spark: SparkSession, tmp_path: Path, there: str) -> None:
    """With a machine that has it. What the driver has written goes all the same."""
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    if there != "nothing":
        elsewhere.mkdir()
    why = why_apart(spark, here, elsewhere)
    assert why is not None
    assert why.endswith(": a worker there does not see what the driver has written")
    assert list(here.iterdir()) == []


def test_a_folder_that_is_only_to_be_read_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers see the driver's file, and cannot write theirs: their names are too long for any file system."""
    monkeypatch.setattr("snapshotter.engine.shared_warehouse._WORKERS", "x" * 300)
    why = why_apart(spark, tmp_path, tmp_path)
    assert why is not None
    assert why.endswith(": a worker there may not use it: File name too long")
