"""A command at a terminal, as a person has it: what is on the screen, when it came, and the keys that are pressed.

The terminal is a real one (a pty), of 80 columns and 24 rows unless told otherwise, and the command's own: Ctrl+C is a
key, and the kernel makes a signal of it for the whole foreground group. What comes out is drawn on a `Screen`, which
knows what our displays use: new lines, going up, erasing.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from snapshotter.testing.processes import wait_until

CTRL_C = b"\x03"
_TAKE_TERMINAL = "; ".join(
    (
        "import fcntl, os, sys, termios",
        "fcntl.ioctl(0, termios.TIOCSCTTY, 0)",
        "os.execv(sys.argv[1], sys.argv[1:])",
    )
)
_PARTS = re.compile(r"\x1b\[(?P<numbers>[0-9;?]*)(?P<final>[A-Za-z])|\x1b.|(?P<one>.)", re.DOTALL)


class Screen:
    """What is seen of what was written: all lines, those that have scrolled away first."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self.rows = columns, rows
        self._lines: list[list[str]] = [[]]
        self._row = self._column = 0

    @property
    def text(self) -> str:
        return "\n".join("".join(line).rstrip() for line in self._lines)

    def write(self, text: str) -> None:
        for part in _PARTS.finditer(text):
            if (final := part["final"]) is not None:
                self._control(final, part["numbers"])
            elif (one := part["one"]) is not None:
                self._put(one)

    def _control(self, final: str, numbers: str) -> None:
        if final == "A":
            top = max(0, len(self._lines) - self.rows)
            self._row = max(top, self._row - int(numbers or 1))
        elif final == "K":
            kept = 0 if numbers == "2" else self._column
            del self._lines[self._row][kept:]

    def _put(self, one: str) -> None:
        if one == "\r":
            self._column = 0
        elif one == "\n":
            self._down()
        elif one.isprintable():
            if self._column == self.columns:
                self._down()
                self._column = 0
            line = self._lines[self._row]
            line += [" "] * (self._column + 1 - len(line))
            line[self._column] = one
            self._column += 1

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._lines):
            self._lines.append([])


class Terminal:
    """A ``command`` at a terminal of its own, in the folder ``cwd`` and the environment ``env``; it is killed at the
    end of the block, if it still runs. ``came`` has what came out, with the seconds since it was started."""

    def __init__(
        self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], columns: int = 80, rows: int = 24
    ) -> None:
        self.screen = Screen(columns, rows)
        self.came: list[tuple[float, str]] = []
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env={**env, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, name="terminal", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.signal_group(signal.SIGKILL)
        self.process.wait()
        self._reader.join(10)
        os.close(self._master)

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def signal_group(self, number: signal.Signals) -> None:
        """To the command and all that is in its group, as `timeout` does."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def until(self, what: str, ready: Callable[[], object], seconds: float = 300) -> None:
        """Wait while it runs; fails with what is on the screen."""

        def look() -> bool:
            if ready():
                return True
            assert self.process.poll() is None, f"it ended while waiting for {what}\n{self.screen.text}"
            return False

        try:
            wait_until(look, what, seconds=seconds)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.screen.text}") from error

    def until_shown(self, text: str, seconds: float = 300) -> None:
        self.until(f"{text!r} on the screen", lambda: text in self.screen.text, seconds)

    def wait(self, seconds: float = 120) -> int:
        """Until it has ended; returns the exit code."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"it does not end\n{self.screen.text}") from error
        self._reader.join(10)
        return code

    def silence(self, upto: str) -> float:
        """The longest time without output until this text came, in seconds, counted from the start."""
        last = longest = 0.0
        for at, text in self.came:
            longest, last = max(longest, at - last), at
            if upto in text:
                break
        return longest

    def _read(self) -> None:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        while True:
            try:
                got = os.read(self._master, 65_536)
            except OSError:  # nobody has the other end any more
                return
            if not got:
                return
            text = decode(got)
            self.came.append((time.monotonic() - self.started, text))
            self.screen.write(text)
