"""Whether Spark's Python workers run the product that the driver runs.

A worker finds packages by its own search path, on its own machine. Where that begins with the folder it is started in,
a file ``streaming.py`` or a checkout there stands in the place of what is installed (``PYTHONSAFEPATH`` keeps it out:
`snapshotter.spark_session`); where machines were not updated together, they differ as well. Either would decode and
land rows by other rules than those that the driver counts on, so it is an error before anything is touched.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from snapshotter.errors import DefiniteError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

PACKAGES = ("snapshotter", "streaming", "signals")
Places = Mapping[str, tuple[str, str]]
"""Of each package: the folder (or file) that its name leads to, and a fingerprint of the Python files there."""

_checked: set[tuple[str, str]] = set()


def check_workers(spark: SparkSession) -> None:
    """Ask a worker for each of the session's cores, once in the life of its application.

    Raises DefiniteError, which names both places of a package that differs.
    """
    context = spark.sparkContext
    application = str(context.applicationId), str(context.environment.get("PYTHONSAFEPATH"))
    if application in _checked:
        return
    try:
        found = _in_workers(spark)
    except Exception as error:
        # A worker that is forked from the product's own daemon does not even start where it finds another product.
        try:
            found = [_as_started(context.environment)]
        except (OSError, subprocess.SubprocessError, ValueError):
            raise error from None  # there is no such Python here: it is what Spark says
        if not any(differences(looker()(PACKAGES), found)):
            raise
    if differing := sorted(set(differences(looker()(PACKAGES), found))):
        raise DefiniteError(
            f"Spark's Python workers run other code than the driver: {'; '.join(differing)}",
            "install the same release for the Python of the workers (PYSPARK_PYTHON), and keep the folder they are "
            "started in off their search path (PYTHONSAFEPATH=1, spark.executorEnv.PYTHONSAFEPATH = 1)",
            condition="wrong-libraries",
        )
    _checked.add(application)


def _in_workers(spark: SparkSession) -> list[Places]:
    look, cores = looker(), spark.sparkContext.defaultParallelism

    def looked(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import json

        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"places": [json.dumps(look(PACKAGES))]})

    # By `mapInArrow`, as chunks and batches are read: so it asks the very workers that will read them.
    rows = spark.range(0, cores, 1, cores).mapInArrow(looked, "places string").collect()
    return [json.loads(row["places"]) for row in rows]


def _as_started(environment: Mapping[str, str]) -> Places:
    """What a Python finds that is started here in the way workers are."""
    lines = "from __future__ import annotations", inspect.getsource(looker), "import json"
    asked = "\n".join([*lines, f"print(json.dumps(looker()({PACKAGES!r})))"])
    command = [os.environ.get("PYSPARK_PYTHON", sys.executable), "-c", asked]
    found: Places = json.loads(subprocess.check_output(command, env={**os.environ, **environment}, text=True))
    return found


def differences(here: Places, workers: Iterable[Places]) -> Iterator[str]:
    """For each package of a worker that is not as here, both places."""
    for places in workers:
        for package, (folder, fingerprint) in here.items():
            there, other = places[package]
            if other != fingerprint:
                yield f"{package} is {folder} in the driver and {there} in a worker"


def looker() -> Callable[[Iterable[str]], dict[str, tuple[str, str]]]:
    """A function that finds packages where it runs. It goes to the workers by value, so it needs none of them."""

    def look(packages: Iterable[str]) -> dict[str, tuple[str, str]]:
        import hashlib
        import importlib.util
        from pathlib import Path

        found = {}
        for package in packages:
            spec = importlib.util.find_spec(package)
            folders = list(spec.submodule_search_locations or ()) if spec is not None else []
            origin = spec.origin if spec is not None else None
            place = folders[0] if folders else origin or "nowhere"
            digest = hashlib.sha256()
            files = sorted(Path(folders[0]).rglob("*.py")) if folders else [Path(origin)] if origin else []
            for file in files:
                digest.update(file.relative_to(place).as_posix().encode() + b"\0")
                digest.update(hashlib.sha256(file.read_bytes()).digest())
            found[package] = place, digest.hexdigest()
        return found

    return look
