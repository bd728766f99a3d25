"""An engine that does not run, for the command line: its configuration, its state folder, and what it said last."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from snapshotter.cli.app import app
from snapshotter.reporting.status import STATUS_FILE, EngineState, Status
from snapshotter.state.storage import LocalStorage


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration whose warehouse is this test's own."""
    path = tmp_path / "shop.json"
    options = {
        "name": "shop",
        "mongodb.connection.string": "mongodb://me:s3cret@localhost:1/",
        "mongodb.server.selection.timeout.ms": 50,
        "delta.warehouse": str(tmp_path / "lake"),
        "key.converter": "x",
    }
    path.write_text(json.dumps(options), encoding="utf-8")
    return path


@pytest.fixture
def state(tmp_path: Path) -> LocalStorage:
    """The state folder of that engine."""
    return LocalStorage(tmp_path / "lake" / "_snapshotter" / "shop")


def invoke(*arguments: object) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(app, [str(a) for a in arguments])


def report(state: LocalStorage, **fields: Any) -> Status:
    """Write a status as the engine does."""
    status = Status(
        **{"name": "shop", "state": EngineState.RUNNING, "updated_at": datetime.now(UTC), **fields}
    )
    state.write_text(STATUS_FILE, status.to_json())
    return status
