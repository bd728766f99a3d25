"""The Python that Spark starts: this very interpreter, which finds PySpark where it is installed.

Spark puts the archives of PySpark that it ships in front of all that is on the path of a Python. What is in an archive
is compiled anew by each process: a third of a second, and a stream's start waits for four of them, one after the other
(bench/README.md). So Spark is given a script as its Python, which takes those archives away, where the same PySpark is
installed beside this package; else, and where `SPARK_HOME` names another Spark, the interpreter itself. Whoever has
named this interpreter for Spark, as many do, gets the script as well.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

INTERPRETER = "PYSPARK_INTERPRETER"
"""The environment variable that tells the script which interpreter it stands for."""
_SCRIPT = Path(__file__).with_suffix(".sh")
_SHIPPED_BY_SPARK = ("pyspark", "py4j")


def name_python(*, workers_here: bool) -> None:
    """Name the Python that a JVM started from here on takes, in this process's environment, unless somebody has named
    another than this one. ``workers_here``: executors run on this machine."""
    os.environ.setdefault(INTERPRETER, sys.executable)
    _name("PYSPARK_PYTHON", _python() if workers_here else sys.executable)
    _name("PYSPARK_DRIVER_PYTHON", _python())


def _name(variable: str, python: str) -> None:
    """What somebody has named stays, but for this interpreter where the script takes its place: executors elsewhere may
    have theirs by the same name, and at another path."""
    given = os.environ.get(variable)
    if given is None or (python != sys.executable and _is_this(given)):
        os.environ[variable] = python


def _is_this(python: str) -> bool:
    named = shutil.which(python)
    # Not resolved: what makes an environment is the path by which its interpreter is started.
    return named is not None and Path(named).absolute() == Path(sys.executable).absolute()


def _python() -> str:
    return str(_SCRIPT) if os.access(_SCRIPT, os.X_OK) and _installed() else sys.executable


def _installed() -> bool:
    """Whether this interpreter has by itself what Spark's archives have."""
    home, pyspark = os.environ.get("SPARK_HOME"), find_spec("pyspark")
    if home and pyspark and pyspark.origin and Path(home).resolve() != Path(pyspark.origin).parent.resolve():
        return False
    own = {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    found = (find_spec(name) for name in _SHIPPED_BY_SPARK)
    return all(spec is not None and spec.origin and Path(spec.origin).parents[1] in own for spec in found)
