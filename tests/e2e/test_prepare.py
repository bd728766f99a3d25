"""`snapshotter prepare`: what it leaves behind is used by the next JVM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from snapshotter.class_archive import place
from tests.support.shell import called

SESSION = """
from snapshotter.spark_session import spark_builder
spark = spark_builder("next", {"spark.driver.extraJavaOptions": "-Xlog:class+load:file=loaded.txt"}, "local[2]")
spark.range(3).count()
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.guard
def test_the_next_start_takes_its_classes_from_the_archive(tmp_path: Path) -> None:
    """One of its own says where the archive is; a JVM that is started then has most of Spark's classes from there. What
    is prepared again takes its place, and nothing else is left."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    archive = place(environment)
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"of another Java")
    command = [sys.executable, "-c", "from snapshotter.cli import main; main()", "prepare"]
    done = called(command, tmp_path, environment, 600)
    assert done.returncode == 0, done.stderr
    assert f"classes in {archive} (" in done.stdout
    assert [file.name for file in archive.parent.iterdir()] == [archive.name]

    subprocess.run([sys.executable, "-c", SESSION], cwd=tmp_path, env=environment, check=True, timeout=300)
    loaded = (tmp_path / "loaded.txt").read_text().splitlines()
    read = [line for line in loaded if "source: file:" in line]
    archived = [line for line in loaded if "source: shared objects file (top)" in line]
    assert len(archived) > 10 * len(read)
