"""`snapshotter status` on a real terminal, of 80 × 24 and of 200 columns: what a person sees of an engine."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from snapshotter.reporting.status import STATUS_FILE, Status
from snapshotter.reporting.status_screen import screen
from tests.unit.test_status_screen import AT_80, STATUS

SECONDS = 180.0
CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")
PROGRAM = (sys.executable, "-c", "from snapshotter.cli import main; main()")


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, columns: int, lines: int, *arguments: str) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            # The terminal says how large it is, and nobody else.
            kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
            os.execve(sys.executable, [*PROGRAM, *arguments], {**kept, "TERM": "xterm"})
        self._seen = ""

    def until(self, text: str | None) -> str:
        """All that has been shown once it has this ``text``, or (None) once the command has ended."""
        deadline = time.monotonic() + SECONDS
        while text is None or text not in self._seen:
            assert time.monotonic() < deadline, self._seen
            if not select.select([self._fd], [], [], 1.0)[0]:
                continue
            try:
                read = os.read(self._fd, 65_536)
            except OSError:  # the other end is closed
                read = b""
            if not read:
                assert text is None, self._seen
                break
            self._seen += CONTROL.sub("", read.decode(errors="replace"))
        return self._seen

    def close(self) -> int:
        """Its exit code."""
        os.close(self._fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextmanager
def engine(folder: Path, status: Status) -> Iterator[tuple[str, Path]]:
    """The configuration of an engine that has said this of itself, and the file in which it did."""
    file = folder / "lake" / "_snapshotter" / "shop" / STATUS_FILE
    file.parent.mkdir(parents=True)
    file.write_text(status.to_json())
    options = {"name": "shop", "mongodb.connection.string": "mongodb://localhost:1/"}
    config = folder / "shop.json"
    config.write_text(json.dumps({**options, "delta.warehouse": str(folder / "lake")}))
    yield str(config), file


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (200, 50)])
def test_a_terminal_shows_every_line_whole(tmp_path: Path, columns: int, lines: int) -> None:
    """What is drawn is what is laid out for it: no line is broken, cut or left out."""
    now = datetime.now(UTC)
    status = STATUS.model_copy(update={"updated_at": now, "requests": STATUS.requests[:2]})
    with engine(tmp_path, status) as (config, _):
        terminal = Terminal(columns, lines, "status", "-c", config)
        shown = terminal.until(None)
        assert terminal.close() == 0
    laid_out = [line.text for line in screen(status, columns, now)]
    assert shown.splitlines() == laid_out
    assert len(AT_80.splitlines()) < 24, "all that is usual has room"


def test_watching_stays_until_it_is_interrupted(tmp_path: Path) -> None:
    """It shows what changes, and Ctrl+C is its clean end."""
    with engine(tmp_path, STATUS.model_copy(update={"updated_at": datetime.now(UTC)})) as (config, file):
        terminal = Terminal(80, 24, "status", "-c", config, "--watch")
        terminal.until("request backfill-of-november is running")
        later = STATUS.model_copy(update={"updated_at": datetime.now(UTC), "requests": STATUS.requests[-1:]})
        file.with_suffix(".new").write_text(later.model_copy(update={"events_total": 77_777}).to_json())
        file.with_suffix(".new").rename(file)
        assert "Traceback" not in terminal.until("events=77777")
        os.kill(terminal.pid, signal.SIGINT)
        terminal.until(None)
        assert terminal.close() == 0
