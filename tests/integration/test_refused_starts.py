"""What keeps an engine from starting is said before Spark is started for nothing; and what is waited for is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from snapshotter.configuration.settings import Settings
from snapshotter.errors import EXIT_DEFINITE, EXIT_GAVE_UP
from snapshotter.state.lock import EngineLock
from snapshotter.state.process import this_process
from snapshotter.state.storage import LocalStorage
from snapshotter.testing.processes import free_port

COMMAND = [sys.executable, "-c", "import sys; from snapshotter.cli import main; sys.exit(main())"]
_JAVA = """#!/bin/sh
touch "{started}"
exit 1
"""


@pytest.fixture
def options(mongo_uri: str, database: str, tmp_path: Path) -> dict[str, str]:
    return {
        "mongodb.connection.string": mongo_uri,
        "database.include.list": database,
        "delta.warehouse": str(tmp_path / "lake"),
    }


def refused(folder: Path, options: dict[str, str]) -> tuple[int, str]:
    """The command's exit code and what it says. The Java that it finds tells whether it was called."""
    started, java = folder / "java-was-started", folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(_JAVA.format(started=started))
    java.chmod(0o755)
    config = folder / "shop.json"
    config.write_text(json.dumps({"name": "shop", "config": options}))
    done = subprocess.run(
        [*COMMAND, "run", "-c", str(config)],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "JAVA_HOME": str(java.parents[1]),
            "SNAPSHOTTER_LOG_FILE": str(folder / "shop.log"),
        },
        timeout=300,
        check=False,
    )
    assert not started.exists(), "Java was started"
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_the_name_is_taken(options: dict[str, str], tmp_path: Path) -> None:
    """Another engine of this name runs: who it is, and what to do."""
    settings = Settings.from_options({"name": "shop", **options}, {})
    storage = LocalStorage(Path(settings.state_location()))
    other = EngineLock(storage, "shop", this_process(), lambda: int(time.time() * 1000))
    other.acquire()
    code, said = refused(tmp_path, options)
    assert code == EXIT_DEFINITE
    assert (
        f"another engine named 'shop' is running: host {this_process().host}, process {os.getpid()}" in said
    )
    assert "class: configuration (name-taken)" in said


def test_the_warehouse_cannot_be_written_to(options: dict[str, str], tmp_path: Path) -> None:
    """A file lies where tables belong, though the engine's state could be written: the folder is named."""
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "state").write_text("in the way")
    code, said = refused(tmp_path, options)
    assert code == EXIT_DEFINITE
    assert (
        f"delta.warehouse = {tmp_path / 'lake'}: nothing can be written to {tmp_path / 'lake' / 'state'}"
        in said
    )
    assert "class: sink (storage-failing)" in said
    assert not (tmp_path / "lake" / "_snapshotter").exists()


def test_mongodb_does_not_answer(options: dict[str, str], tmp_path: Path) -> None:
    """That it is being tried is said at once, and again while it lasts; then that it was in vain."""
    address = f"127.0.0.1:{free_port()}"
    away: dict[str, Any] = {
        "mongodb.connection.string": f"mongodb://{address}/?replicaSet=rs&serverSelectionTimeoutMS=5000",
        "connect.max.attempts": "1",
        "connect.backoff.initial.delay.ms": "1",
    }
    code, said = refused(tmp_path, {**options, **away})
    assert code == EXIT_GAVE_UP
    tried = [line for line in said.splitlines() if line.startswith(f"checking MongoDB at {address}")]
    assert tried[0].endswith(address)
    assert any(line.endswith("s)") for line in tried[1:]), said
    assert "MongoDB cannot be reached, and is waited for: attempt 1 of 1" in said
