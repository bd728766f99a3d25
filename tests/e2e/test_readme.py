"""The tour of README.md, as somebody follows it who copies and pastes: block after block, from an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from snapshotter.status import EngineState, Status
from snapshotter.testing.processes import wait_until
from tests.support.engine_process import QUICK_JAVA
from tests.support.tables import difference

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_500)]  # some twenty commands, each a process
ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS = 400


def blocks() -> list[tuple[str, str]]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tour = text[text.index("## A tour") : text.index("## Commands")]
    return [(match[1], match[2]) for match in _BLOCK.finditer(tour)]


@pytest.fixture
def shop(mongo_client: MongoClient[Any]) -> Iterator[None]:
    mongo_client.drop_database("shop")
    statuses = ("open", "returned", "paid")
    mongo_client["shop"]["orders"].insert_many(
        [{"_id": n, "status": statuses[n % 3], "lines": [{"n": n}]} for n in range(200)]
    )
    mongo_client["shop"]["customers"].insert_many([{"_id": n, "name": f"c{n}"} for n in range(20)])
    yield
    mongo_client.drop_database("shop")


class Terminal:
    """A shell in one folder, with the project's commands on its path."""

    def __init__(self, folder: Path, uri: str) -> None:
        self.folder = folder
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {
            **os.environ,
            "PATH": path,
            "MONGODB_URI": uri,
            "PYTHONPATH": str(ROOT),
            "JAVA_TOOL_OPTIONS": QUICK_JAVA,
        }

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @contextmanager
    def engine(self, command: str) -> Iterator[None]:
        """In the background until the block is over; then it ends cleanly."""
        with (self.folder / "engine.log").open("w") as log:
            process = subprocess.Popen(
                ["sh", "-c", f"exec {command}"], cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )
            try:
                wait_until(self.is_running, "the first batch", seconds=_SECONDS)
                yield
            finally:
                process.terminate()
                code = process.wait(_SECONDS)
            assert code == 0, (self.folder / "engine.log").read_text()

    def is_running(self) -> bool:
        file = self.folder / "warehouse" / "_snapshotter" / "shop" / "status.json"
        if not file.exists():
            return False
        status = Status.from_json(file.read_text())
        return status.state is EngineState.RUNNING and status.batch is not None


def test_the_tour_works_by_copy_and_paste(tmp_path: Path, mongo_uri: str, shop: None) -> None:
    """Every command of it succeeds, tables equal collections, and the client and the engine in a program do as well."""
    tour = blocks()
    (configuration,) = [code for kind, code in tour if kind == "toml"]
    (tmp_path / "shop.toml").write_text(configuration)
    lines = [line for kind, code in tour if kind == "sh" for line in code.splitlines()]
    commands = [line for line in lines if line.startswith("snapshotter ")]
    programs = [code for kind, code in tour if kind == "python"]
    (asking,) = [code for code in programs if "SnapshotClient" in code]
    (embedding,) = [code for code in programs if "Snapshotter(" in code]
    start = next(line for line in commands if line.startswith("snapshotter run "))
    before, after = commands[: commands.index(start)], commands[commands.index(start) + 1 :]
    terminal = Terminal(tmp_path, mongo_uri)
    for command in before:
        terminal.run("sh", "-c", command)
    with terminal.engine(start):
        for command in after:
            terminal.run("sh", "-c", command)
        assert "completed" in terminal.run(sys.executable, "-c", asking)
    terminal.run(sys.executable, "-c", embedding)
    for name in ("orders", "customers"):
        assert difference(mongo_uri, "shop", name, tmp_path / "warehouse" / "state" / "shop" / name) == []
    assert len(after) >= 12
