"""The command line, run in this process, on the session that all tests share; nothing else is different."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from snapshotter.cli.app import app
from snapshotter.engine import assembly
from tests.support.engines import Lab, shared


def share(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have commands use this session."""
    monkeypatch.setattr(assembly, "spark_session", lambda settings, **_: shared(spark))


def run(lab: Lab, name: str, *arguments: str) -> Result:
    """Run a command with the lab's configuration; one of a group by both names."""
    result = CliRunner().invoke(app, [*name.split(), "-c", str(lab.config_file()), *arguments])
    print(result.output)
    return result
