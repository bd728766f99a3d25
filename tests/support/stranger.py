"""Somebody who has the program, a folder and what the program prints, and does what that says.

Commands are those of an installed program, run in a folder of their own with nothing of a checkout on their path. What
one has said can be followed (`Said.command`): the command that stands behind ``next:``, as it stands there.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from snapshotter.reporting.status import STATUS_FILE, Status
from snapshotter.testing.mongod_binary import URI_VARIABLE
from snapshotter.testing.processes import wait_until
from tests.support.class_archive import quick_java
from tests.support.shell import called, environment
from tests.support.terminal import Terminal

FILE = "shop.toml"
_SECONDS = 600.0
_NEXT = re.compile(r"^ *next: +(.*(?:\n {2,}\S.*)*)", re.MULTILINE)
_NAMED = re.compile(r"`(snapshotter [^`]+)`")


@dataclass(frozen=True, slots=True)
class Said:
    """What a command has said: its exit ``code``, standard output, standard error, and the ``seconds`` it took."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def text(self) -> str:
        return self.out + self.err

    @property
    def next_step(self) -> str:
        """What stands behind the first ``next:``, in one line."""
        found = _NEXT.search(self.text)
        assert found, f"nothing says what to do next:\n{self.text}"
        return " ".join(found[1].split())

    @property
    def command(self) -> list[str]:
        """The command that the next step names, for the stranger's own configuration."""
        named = _NAMED.search(self.next_step)
        text = named[1] if named else self.next_step
        words = [FILE if word == "FILE" else word for word in shlex.split(text)]
        assert words[0] == "snapshotter", f"it names no command: {self.next_step}"
        return words[1:]

    def near(self, wrong: str) -> str:
        """The name that is said to be near a ``wrong`` one."""
        found = re.search(rf"{re.escape(wrong)}\W.*?\(near it: ([\w.]+)", " ".join(self.text.split()))
        assert found, f"no name near {wrong} is said:\n{self.text}"
        return found[1]


@dataclass(slots=True)
class Stranger:
    """``programs`` is the folder of the installed ones; what is called is called in ``folder``, with the ``variables``
    exported. ``engine`` is the terminal in which theirs runs, if it does."""

    folder: Path
    programs: Path
    variables: Mapping[str, str]
    engine: Terminal | None = None
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.environment = {
            **environment(URI_VARIABLE),
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(self.folder / "logs"),
            "JAVA_TOOL_OPTIONS": quick_java(),
            "COLUMNS": "80",
            **self.variables,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def run(self, *words: str, code: int = 0) -> Said:
        """A command of the program's, which has to end with this ``code``."""
        said = self._said(*words)
        assert said.code == code, f"snapshotter {shlex.join(words)} ended with {said.code}:\n{said.text}"
        assert "Traceback" not in said.text, said.text
        return said

    def _said(self, *words: str) -> Said:
        began = time.monotonic()
        done = called([self.programs / "snapshotter", *words], self.folder, self.environment, _SECONDS)
        return Said(done.returncode, done.stdout, done.stderr, time.monotonic() - began)

    def ask(self, command: str, *words: str, code: int = 0) -> Said:
        """A command for the stranger's own configuration."""
        return self.run(*command.split(), "-c", FILE, *words, code=code)

    def start(self, words: list[str], until: str) -> Terminal:
        """The engine, by the ``words`` of a command, in a terminal of its own, until it shows a text."""
        assert words[0] == "run", words
        self.leave()
        environment = {n: v for n, v in self.environment.items() if n != "COLUMNS"}
        command = [str(self.programs / "snapshotter"), *words]
        self.engine = Terminal(command, cwd=self.folder, env=environment)
        self.engine.until_shown(until, _SECONDS)
        return self.engine

    def leave(self) -> None:
        """Close the engine's terminal; one that still runs is killed."""
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.__exit__(None, None, None)

    @property
    def status(self) -> Status | None:
        """What the engine last said, without a command."""
        file = self.folder / "warehouse" / "_snapshotter" / "shop" / STATUS_FILE
        return Status.from_json(file.read_text()) if file.exists() else None

    def until(self, what: str, seen: Callable[[Status], object]) -> None:
        """Wait until the status shows it, while the engine runs."""
        engine = self.engine
        assert engine is not None
        engine.until(what, lambda: (status := self.status) is not None and seen(status), _SECONDS)

    def until_said(self, what: str, command: str, *words: str, code: int = 0) -> Said:
        """Ask again and again until the exit code is this one; what was said then."""
        found: list[Said] = []

        def asked() -> bool:
            found[:] = [self._said(command, "-c", FILE, *words)]
            return found[0].code == code

        wait_until(asked, what)
        return found[0]


def delete_by_hand(table: Path) -> None:
    """What ``DELETE FROM`` by another program leaves in a table's log, where it hits all rows of one file: a version
    that removes the file."""
    log = table / "_delta_log"
    versions = sorted(log.glob("[0-9]*.json"))
    there: dict[str, Any] = {}
    for version in versions:
        for action in map(json.loads, version.read_text().splitlines()):
            if "add" in action:
                there[action["add"]["path"]] = action["add"]
            elif "remove" in action:
                there.pop(action["remove"]["path"], None)
    path, add = next(iter(there.items()))
    moment = int(time.time() * 1000)
    kept = {n: add[n] for n in ("partitionValues", "size", "deletionVector") if n in add}
    remove = {
        "path": path,
        "deletionTimestamp": moment,
        "dataChange": True,
        "extendedFileMetadata": True,
        **kept,
    }
    said = {"timestamp": moment, "operation": "DELETE", "engineInfo": "somebody's notebook"}
    lines = [json.dumps(line) for line in ({"commitInfo": said}, {"remove": remove})]
    new = log / f"{int(versions[-1].stem) + 1:020d}.json"
    with new.open("x") as file:
        file.write("\n".join(lines) + "\n")
