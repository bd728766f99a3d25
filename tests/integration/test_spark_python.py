"""`snapshotter.spark_python`: Spark's Python processes take PySpark from where it is installed, not from an archive."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from snapshotter import spark_python
from snapshotter.spark_python import INTERPRETER, name_python

NAMES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", INTERPRETER)
SCRIPT = Path(spark_python.__file__).with_suffix(".sh")


@pytest.fixture
def unnamed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody has named a Python, and what is named here is forgotten."""
    before = {name: os.environ.get(name) for name in NAMES}
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    yield
    for name, value in before.items():
        os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)


def test_workers_have_the_pyspark_that_is_installed(spark: SparkSession) -> None:
    """And so has whatever the driver's JVM starts, by the same script."""

    def look(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import py4j
        import pyspark

        yield pa.RecordBatch.from_pydict({"at": [str(pyspark.__file__), str(py4j.__file__)]})

    found = [row["at"] for row in spark.range(0, 1, 1, 1).mapInArrow(look, "at string").collect()]
    assert found[0] == pyspark.__file__
    assert Path(found[1]).is_file(), "from an archive it would be a path within that"
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == str(SCRIPT)


def test_only_sparks_archives_leave_the_path() -> None:
    """What else is there stays, in its order, whatever its name has in it."""
    path = ["/spark/python/lib/pyspark.zip", "/a b/*", "/spark/python/lib/py4j-0.10.9.9-src.zip", "/mine.zip"]
    path += ["/spark/jars/spark-core_2.13-4.2.0.jar", "/spark/jars/other.jar"]
    said = subprocess.check_output(
        [
            SCRIPT,
            "-c",
            "import os, sys; print(os.environ['PYTHONPATH'], sys.executable, sys.argv[1:])",
            "a b",
            "*",
        ],
        env={**os.environ, "PYTHONPATH": ":".join(path), INTERPRETER: sys.executable},
        text=True,
    )
    assert said.split("\n")[0] == f"/a b/*:/mine.zip:/spark/jars/other.jar {sys.executable} ['a b', '*']"


@pytest.mark.usefixtures("unnamed")
@pytest.mark.parametrize("workers_here", [True, False])
def test_a_cluster_has_its_own_python(workers_here: bool) -> None:
    """The script lies on the driver's machine. What others have named stays."""
    name_python(workers_here=workers_here)
    named = {name: os.environ[name] for name in NAMES}
    assert named == {
        INTERPRETER: sys.executable,
        "PYSPARK_PYTHON": str(SCRIPT) if workers_here else sys.executable,
        "PYSPARK_DRIVER_PYTHON": str(SCRIPT),
    }
    os.environ["PYSPARK_PYTHON"] = "/opt/python"
    name_python(workers_here=workers_here)
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"


@pytest.mark.usefixtures("unnamed")
def test_who_names_this_interpreter_gets_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its path, or by a name that is found there: a start was seconds slower for whoever had said the obvious. One
    of another environment is another, although both are links to one file."""
    this, script = Path(sys.executable), str(SCRIPT)
    monkeypatch.setenv("PATH", f"{this.parent}{os.pathsep}{os.environ['PATH']}")
    for given, named in (
        (str(this), script),
        (this.name, script),
        (str(this.resolve()), str(this.resolve())),
    ):
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = given
        name_python(workers_here=True)
        assert {os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"]} == {named}
    for given in (str(this), this.name):  # a name that each executor finds for itself
        os.environ["PYSPARK_PYTHON"] = given
        name_python(workers_here=False)
        assert os.environ["PYSPARK_PYTHON"] == given


@pytest.mark.usefixtures("unnamed")
def test_without_an_installed_pyspark_archives_are_what_there_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """PySpark of a distribution of Spark, which is found by the path alone; or a package whose script is no program."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(spark_python, "_SHIPPED_BY_SPARK", ("pyspark", "snapshotter"))
        name_python(workers_here=True)
    assert os.environ.pop("PYSPARK_PYTHON") == sys.executable
    (tmp_path / "script.sh").write_text("")
    monkeypatch.setattr(spark_python, "_SCRIPT", tmp_path / "script.sh")
    name_python(workers_here=True)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
