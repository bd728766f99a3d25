"""A Spark that does not start, or has too little to run with, is named, with the option that helps."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from snapshotter.configuration.settings import Settings
from snapshotter.errors import EXIT_OK
from snapshotter.reporting.status import STATUS_FILE, EngineState, Status
from snapshotter.testing.processes import GuardedProcess, wait_until
from tests.support.engine_process import EngineProcess
from tests.support.tables import rows


@pytest.mark.slow
@pytest.mark.guard
@pytest.mark.parametrize(
    ("option", "wrong", "condition"),
    [
        ("spark.driver.memory", "200m", "resource (heap-too-small)"),
        ("spark.driver.memory", "much", "configuration (spark-not-started)"),
        ("spark.sql.shuffle.partitions", "many", "configuration (wrong-option)"),
    ],
)
def test_a_spark_that_does_not_start_is_named(
    option: str,
    wrong: str,
    condition: str,
    mongo_uri: str,
    mongo_client: MongoClient[dict[str, Any]],
    database: str,
    tmp_path: Path,
) -> None:
    """Nothing is called unexpected. With the option corrected the engine starts, and reads what is there."""
    mongo_client[database]["orders"].insert_one({"_id": 1})
    right = {
        "name": "starts",
        "mongodb.connection.string": mongo_uri,
        "database.include.list": database,
    }
    engine = EngineProcess(tmp_path, {**right, option: wrong})
    assert engine.start("--once").wait() != EXIT_OK
    said = engine.log.read_text()
    assert f"class: {condition}" in said
    assert "unexpected" not in said
    if wrong == "200m":
        engine = EngineProcess(tmp_path, right)
        assert engine.start("--once").wait() == EXIT_OK
        assert [row["_id"] for row in rows(engine.table(database, "orders"))] in ([1], ["1"])


_RESTARTING = """
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from snapshotter.configuration.patience import RestartPolicy
from snapshotter.configuration.settings import Settings
from snapshotter.engine import assembly
from snapshotter.engine.engine import Engine
settings = Settings.load(Path(sys.argv[1]))
policy = RestartPolicy(enabled=True, most=None, minute_ms=1_000)
config = replace(assembly.engine_config(settings), restart_policy=policy)
engine = Engine(partial(assembly.spark_session, settings), config)
engine.run(once=True)
engine.session.stop()
"""
"""An engine that restarts by itself, and whose minutes are seconds."""


@pytest.mark.slow
@pytest.mark.guard
def test_a_spark_whose_port_is_taken_is_started_again(
    mongo_uri: str, mongo_client: MongoClient[dict[str, Any]], database: str, tmp_path: Path
) -> None:
    """Broken, with the condition and the time of the next attempt, before any run has begun; once the port is free the
    engine starts in the same process, and reads what is there."""
    mongo_client[database]["orders"].insert_one({"_id": 1})
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        options = {
            "mongodb.connection.string": mongo_uri,
            "database.include.list": database,
            "delta.warehouse": str(tmp_path / "warehouse"),
            "spark.master": "local[2]",
            "spark.driver.memory": "1g",
            "spark.driver.port": str(taken.getsockname()[1]),
            "spark.port.maxRetries": "0",
        }
        file, log = tmp_path / "engine.json", tmp_path / "engine.log"
        file.write_text(json.dumps({"name": "port", "config": options}))
        place = Path(Settings.load(file).state_location()) / STATUS_FILE
        command = [sys.executable, "-c", _RESTARTING, str(file)]
        process = GuardedProcess(command, folder=tmp_path / "scratch", output=log, env={**os.environ})

        def waits() -> Status | None:
            assert process.alive, process.tail(60)
            found = Status.from_json(place.read_text()) if place.exists() else None
            return found if found and found.restarts and found.restarts.next_at else None

        found = wait_until(waits, "a status that says when it starts again")
        assert (found.state, found.health) == (EngineState.FAILED, "Broken")
        assert found.error is not None
        assert (found.error.failure, found.error.condition) == ("resource", "ports-taken")
    wait_until(lambda: not process.alive, "the engine to have caught up", seconds=240)
    assert process.exit_code == EXIT_OK, process.tail(60)
    table = tmp_path / "warehouse" / "state" / database / "orders"
    assert [row["_id"] for row in rows(table)] in ([1], ["1"])


_FRESH = """
import sys
from snapshotter.spark_session import spark_builder
spark = spark_builder("fresh", {"spark.jars.ivy": sys.argv[1]}, "local[2]")
spark.range(3).write.format("delta").save(sys.argv[2])
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.guard
def test_two_that_start_at_once_on_a_fresh_machine_both_start(tmp_path: Path) -> None:
    """One of them has Ivy download Delta's jars, the other waits for it. (Ivy takes half a file for whole.)"""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _FRESH, str(tmp_path / "ivy"), str(tmp_path / f"table {number}")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(2)
    ]
    try:
        said = [process.communicate(timeout=300)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0, 0], "\n\n".join(said)[-4_000:]
    assert sum("confs: [default]" in one for one in said) == 1, "one of them downloads"
