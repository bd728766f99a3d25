"""The engine as an application of Spark's, as a driver on Kubernetes is: its JVM is Spark's launcher's, not ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pymongo import MongoClient

from deploy.entry import command
from snapshotter.errors import EXIT_CONFIGURATION
from snapshotter.spark_jars import delta_settings, ivy_folder
from tests.support.class_archive import quick_java
from tests.support.packaged import DEPLOY
from tests.support.sources import ROOT
from tests.support.tables import difference

pytestmark = [pytest.mark.slow, pytest.mark.guard]  # a JVM each
_SECONDS = 600


def submitted(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A container that Spark calls ``driver``: here without a cluster, and with Delta's jars, which are there among
    Spark's own."""
    environment = {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_DRIVER_BIND_ADDRESS": "127.0.0.1",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "JAVA_TOOL_OPTIONS": quick_java(),
    }
    options = {"spark.master": "local[2]", "spark.driver.memory": "1g", **delta_settings(ivy_folder({}))}
    given = [word for name, value in options.items() for word in ("--conf", f"{name}={value}")]
    application = [
        "--class",
        "org.apache.spark.deploy.PythonRunner",
        f"local://{DEPLOY}/engine.py",
        *arguments,
    ]
    return subprocess.run(
        command(["driver", *given, *application], environment),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


def test_its_exit_code_is_the_commands(tmp_path: Path) -> None:
    """So whatever restarts a driver can go by it."""
    ended = submitted(tmp_path, "run", "-c", "missing.toml")
    assert ended.returncode == EXIT_CONFIGURATION
    assert "cannot read the configuration 'missing.toml'" in ended.stdout + ended.stderr


def test_it_catches_up(mongo_uri: str, mongo_client: MongoClient[Any], database: str, tmp_path: Path) -> None:
    """The whole of `run --once`: what is there is loaded, and it ends with nothing to complain of."""
    mongo_client[database]["orders"].insert_many([{"_id": n, "total": n} for n in range(300)])
    (tmp_path / "shop.properties").write_text(
        f"name=submitted\nmongodb.connection.string={mongo_uri}\ndatabase.include.list={database}\n"
        f"delta.warehouse={tmp_path / 'lake'}\n"
    )
    ended = submitted(tmp_path, "run", "-c", "shop.properties", "--once")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    table = tmp_path / "lake" / "state" / database / "orders"
    assert difference(mongo_uri, database, "orders", table) == []
