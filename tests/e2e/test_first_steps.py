"""`docs/first-steps.md`, as somebody follows it who copies and pastes: block after block, from an empty folder."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from signals.parsing.shell_json import parse_document
from snapshotter.reporting.status import EngineState, Status
from snapshotter.testing.mongod_binary import URI_VARIABLE
from snapshotter.testing.processes import wait_until
from tests.support.class_archive import quick_java
from tests.support.shell import called
from tests.support.tables import difference

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_500)]  # some twenty commands, each a process
ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS = 900


def blocks() -> list[tuple[str, str]]:
    text = (ROOT / "docs" / "first-steps.md").read_text(encoding="utf-8")
    return [(match[1], match[2]) for match in _BLOCK.finditer(text)]


class Terminal:
    """Shells in one folder, with the project's commands on their path and what the sandbox says exported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        mine = {name: value for name, value in os.environ.items() if name != URI_VARIABLE}
        self.environment = {
            **mine,
            "PATH": path,
            "PYTHONPATH": str(ROOT),
            "JAVA_TOOL_OPTIONS": quick_java(),
        }

    def run(self, *command: str) -> str:
        done = called(command, self.folder, self.environment, _SECONDS)
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @contextmanager
    def sandbox(self, command: str) -> Iterator[None]:
        """In the background until the block is over; what it says to export holds in every shell."""
        with self._background(command, "sandbox.log", signal.SIGINT) as process:
            assert process.stdout is not None
            for variable in ("MONGODB_URI", "KAFKA_BROKERS"):
                line = process.stdout.readline()
                name, _, value = line.removeprefix("export ").strip().partition("=")
                assert name == variable, (self.folder / "sandbox.log").read_text()
                self.environment[name] = shlex.split(value)[0]
            yield

    @contextmanager
    def engine(self, command: str) -> Iterator[None]:
        """In the background until the block is over; then it ends cleanly."""
        with self._background(command, "engine.log", signal.SIGTERM):
            wait_until(self.is_running, "the first batch", seconds=_SECONDS)
            yield

    @contextmanager
    def _background(self, command: str, log: str, end: signal.Signals) -> Iterator[subprocess.Popen[str]]:
        with (self.folder / log).open("w") as errors:
            process = subprocess.Popen(
                ["sh", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            try:
                yield process
            finally:
                process.send_signal(end)
                process.communicate(timeout=_SECONDS)
            assert process.returncode == 0, (self.folder / log).read_text()

    def is_running(self) -> bool:
        file = self.folder / "warehouse" / "_snapshotter" / "shop" / "status.json"
        if not file.exists():
            return False
        status = Status.from_json(file.read_text())
        return status.state is EngineState.RUNNING and status.batch is not None

    def insert(self, code: str) -> None:
        """What mongosh would do with ``db.getSiblingDB("d").c.insertOne({…})``."""
        (call,) = re.findall(r'^db\.getSiblingDB\("(\w+)"\)\.(\w+)\.insertOne\((.*)\)\s*$', code, re.DOTALL)
        with MongoClient[dict[str, Any]](self.environment["MONGODB_URI"]) as client:
            client[call[0]][call[1]].insert_one(parse_document(call[2]))

    def carried_out(self, commands: Iterable[str]) -> dict[str, str]:
        """What the status collection says became of commands."""
        with MongoClient[dict[str, Any]](self.environment["MONGODB_URI"]) as client:
            told = list(client["shop"]["signals_status"].find({"command": {"$in": list(commands)}}))
        return {one["command"]: one["state"] for one in told}

    def follow(self, kind: str, code: str) -> str:
        """Do what one block says; what it prints."""
        match kind:
            case "toml":
                (self.folder / "shop.toml").write_text(code)
            case "js":
                self.insert(code)
            case "sh":
                return "".join(self.run("sh", "-c", line) for line in code.splitlines())
            case _:
                assert kind == "python", f"nobody tries blocks of {kind}"
                return self.run(sys.executable, "-c", code)
        return ""


@pytest.mark.guard
def test_first_steps_work_by_copy_and_paste(tmp_path: Path) -> None:
    """Every block of it, in its order: all commands succeed, every signal is carried out, whatever it came by, and
    tables equal collections. What a block starts in a terminal of its own runs beside those behind it."""
    steps = blocks()
    (kind, sandbox), *steps = steps
    assert kind == "sh"
    at = next(n for n, (_, code) in enumerate(steps) if "snapshotter run" in code)
    *checks, start = steps[at][1].splitlines()
    before, after, (last_kind, embedding) = steps[:at], steps[at + 1 : -1], steps[-1]
    assert (last_kind, "with Snapshotter(" in embedding) == ("python", True)
    terminal = Terminal(tmp_path)
    with terminal.sandbox(sandbox):
        for kind, code in (*before, ("sh", "\n".join(checks))):
            terminal.follow(kind, code)
        with terminal.engine(start):
            said = "".join(terminal.follow(kind, code) for kind, code in after)
            assert re.search(r"^nightly (stopped|completed) ", said, re.MULTILINE)
            assert "the nightly one is stopped at" in (tmp_path / "engine.log").read_text()
            for row in ("by-document completed 2000", "by-file completed 100", "by-kafka completed 100"):
                assert row in said
            assert re.search(r"^shop\.orders: 2,000 documents, about ", said, re.MULTILINE), "the dry run"
            commands = "pause-snapshot", "resume-snapshot", "stop-snapshot", "log", "dry-run"
            assert terminal.carried_out(commands) == dict.fromkeys(commands, "completed")
        shown = terminal.follow("python", embedding)
        assert re.search(r"\|\s*paid\|\s*\d+\|", shown)
        assert re.search(r"\|by-kafka\|\s*COMPLETED\|", shown)
        for name in ("orders", "customers"):
            table = tmp_path / "warehouse" / "state" / "shop" / name
            assert difference(terminal.environment["MONGODB_URI"], "shop", name, table) == []
    assert {kind for kind, _ in after} == {"sh", "js", "python"}
