"""Which collections ``verify`` compares, and what reads their tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from typer.testing import CliRunner

from snapshotter.cli.app import app
from snapshotter.cli.verify import chosen_collections
from snapshotter.configuration.settings import Settings
from snapshotter.errors import ConfigurationError
from snapshotter.verification import small_table
from streaming.delta.table_paths import state_path
from streaming.namespaces import Namespace
from tests.support.commands import share
from tests.support.pairs import Pair, pair
from tests.support.sources import ROOT

__all__ = ["pair"]


@pytest.fixture
def config(pair: Pair, tmp_path: Path) -> str:
    """Of an engine that has landed the collection of `pair`."""
    pair.path = str(tmp_path / "lake" / state_path(pair.namespace))
    documents = [{"at": {"seen": [datetime(2024, 3, 10, 7, 30, tzinfo=UTC)]}, "_id": n} for n in range(20)]
    pair.collection.insert_many(documents)
    pair.load()
    file = tmp_path / "shop.json"
    options = {
        "name": "shop",
        "mongodb.connection.string": pair.uri,
        "database.include.list": pair.namespace.database,
        "delta.warehouse": str(tmp_path / "lake"),
    }
    file.write_text(json.dumps(options))
    return str(file)


def test_verify_takes_captured_collections_only(
    mongo_client: MongoClient[dict[str, Any]], mongo_uri: str, database: str
) -> None:
    """All captured ones or those that are named, never the signal collection; an unknown name is an error."""
    for name in ("orders", "customers", "signals"):
        mongo_client[database][name].insert_one({})
    settings = Settings.from_options(
        {
            "name": "shop",
            "mongodb.connection.string": mongo_uri,
            "database.include.list": database,
            "signal.data.collection": f"{database}.signals",
            "delta.warehouse": "/lake",
        },
        {},
    )
    assert [n.collection for n in chosen_collections(settings, [])] == ["customers", "orders"]
    assert [n.collection for n in chosen_collections(settings, [rf"{database}\.o.*"])] == ["orders"]
    for unknown in (f"{database}.signals", f"{database}.missing", "x.*"):
        with pytest.raises(ConfigurationError, match=r"is no captured collection.*\. Captured are: "):
            chosen_collections(settings, [unknown])


def test_nothing_captured_is_not_equal(mongo_uri: str, database: str) -> None:
    """With no collection to compare there is an error, not a success."""
    settings = Settings.from_options(
        {
            "name": "shop",
            "mongodb.connection.string": mongo_uri,
            "database.include.list": database,
            "delta.warehouse": "/lake",
        },
        {},
    )
    with pytest.raises(ConfigurationError, match="nothing to compare"):
        chosen_collections(settings, [])


def test_a_small_table_takes_no_java(config: str) -> None:
    """In a process that finds none, and whose clock is of another zone than Spark's session."""
    environment = {**os.environ, "PATH": "/nowhere", "JAVA_HOME": "/nowhere", "TZ": "America/New_York"}
    environment["PYTHONPATH"] = str(ROOT)
    command = [
        sys.executable,
        "-c",
        "from snapshotter.cli import main; main()",
        "verify",
        "-c",
        config,
        "--json",
    ]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    (report,) = json.loads(ran.stdout)
    assert (report["equal"], report["documents"]) == (True, 20)
    assert (report["read_by"], report["why_spark"]) == ("duckdb", None)


def test_it_is_said_why_spark_reads_a_table(pair: Pair, config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the report of each, and in the log once for each reason; what is found is the same."""
    share(pair.spark, monkeypatch)
    monkeypatch.setattr(small_table, "BYTES_MAX", 0)
    pair.namespace = Namespace(pair.namespace.database, "more")
    pair.collection = pair.collection.database["more"]
    pair.path = str(Path(pair.path).parent / "more")
    pair.collection.insert_one({"_id": 1})
    pair.load()
    result = CliRunner().invoke(app, ["verify", "-c", config, "--json"])
    assert result.exit_code == 0, result.output
    reports = json.loads(result.stdout)
    assert [(report["equal"], report["documents"], report["read_by"]) for report in reports] == [
        (True, 1, "spark"),
        (True, 20, "spark"),
    ]
    (why,) = {report["why_spark"] for report in reports}
    assert why == "it has 0 MB, and Spark is quicker from 0 MB on"
    assert result.stderr.count(why) == 1
