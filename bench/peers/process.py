"""Runs a peer in a process of its own and reads the JSON lines it prints; the rest that it says is kept for errors.

A peer must not outlive us, not even when we are killed: its standard input is a pipe that nothing is written to. The
system ends that pipe whichever way we go, and then the peer ends itself (`Peer.java`, `end_with_parent`).
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

_SAID_LINES = 20


class PeerRunError(Exception):
    """A peer did not finish its work; the message has its own last words."""


class Round(TypedDict):
    """One time a peer did the work. `seconds` from asking for it to the last document, `seconds_from_first`
    from the first document (where the peer shows one) to the last."""

    documents: int
    seconds: float
    seconds_from_first: float


def run_rounds(
    name: str, command: Sequence[str], *, timeout_s: float, folder: Path | None = None
) -> list[Round]:
    """The rounds that `command` printed, one JSON object a line. Raises PeerRunError when it failed, took
    too long, or printed none. Its whole process group is gone afterwards."""
    stdin, held = os.pipe()
    try:
        output, errors, status = _run(name, command, timeout_s, folder, stdin)
    finally:
        os.close(held)
    rounds: list[Round] = [json.loads(line) for line in output.splitlines() if line.startswith('{"')]
    if status or not rounds:
        said = "\n".join(errors.strip().splitlines()[-_SAID_LINES:])
        raise PeerRunError(f"{name} failed (exit {status}, {len(rounds)} rounds done):\n{said}")
    return rounds


def end_with_parent() -> None:
    """Called by a peer written in Python: ends its process at once when the one that started it is gone."""

    def watch() -> None:
        sys.stdin.read()
        os._exit(1)  # Spark's JVM ends by itself when this process does

    threading.Thread(target=watch, name="parent", daemon=True).start()


def _run(
    name: str, command: Sequence[str], timeout_s: float, folder: Path | None, stdin: int
) -> tuple[str, str, int]:
    """What it wrote to both outputs, and its exit status. Closes `stdin`."""
    with subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        start_new_session=True,
    ) as process:
        os.close(stdin)
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise PeerRunError(f"{name} was not done after {timeout_s:.0f} s") from error
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        return output, errors, process.returncode
