"""Python workers run the product that the driver runs, wherever an engine is started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from snapshotter.worker_code import PACKAGES, differences, looker

REPOSITORY = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "programs" / "worker_code.py"


@pytest.mark.slow
def test_the_folder_of_the_start_is_no_place_for_code(tmp_path: Path) -> None:
    """Files called like the product's packages, or a library of its, lie where it is started: workers do not look at
    them. Where they do (somebody wants it so), it is an error that names both places."""
    for name in ("streaming", "signals", "bson"):
        (tmp_path / f"{name}.py").write_text('raise SystemExit("this file is somebody else\'s")\n')
    checkout = tmp_path / "snapshotter"
    checkout.mkdir()
    (checkout / "__init__.py").write_text("VERSION = 'another one'\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [sys.executable, "-P", str(PROGRAM)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["checked"] == "the same"
    assert found["rows"] == 3
    assert found["environment"] is None
    assert str(REPOSITORY / "streaming") in found["refused"]
    assert str(tmp_path / "streaming.py") in found["refused"]
    assert str(checkout) in found["refused"]
    assert "PYTHONSAFEPATH" in found["next_step"]


def test_workers_begin_with_what_they_use(spark: SparkSession) -> None:
    """Imported before they were forked, and in shared pages."""

    def known(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        there = [name in sys.modules for name in ("pyarrow", "bson", "snapshotter.reading.chunk_reader")]
        yield pa.RecordBatch.from_pydict({"known": [all(there)]})

    rows = spark.range(0, 2, 1, 2).mapInArrow(known, "known boolean").collect()
    assert [row["known"] for row in rows] == [True, True]


def test_any_file_that_differs_is_a_difference(tmp_path: Path) -> None:
    """By its name and its content; where it lies does not matter, and that nothing is there does."""
    here = looker()(PACKAGES)
    assert list(differences(here, [here, dict(here)])) == []
    moved = {package: ("/elsewhere", print_) for package, (_, print_) in here.items()}
    assert list(differences(here, [moved])) == []
    gone = here | looker()(["no_such_package_at_all"]) | {"streaming": ("nowhere", "")}
    (said,) = differences(here, [gone])
    assert said == f"streaming is {REPOSITORY / 'streaming'} in the driver and nowhere in a worker"
