"""Runs a peer in a process of its own and reads the JSON lines it prints; everything else it says is kept
for errors."""

import json
import os
import signal
import subprocess
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
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise PeerRunError(f"{name} was not done after {timeout_s:.0f} s") from error
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    rounds: list[Round] = [json.loads(line) for line in output.splitlines() if line.startswith('{"')]
    if process.returncode or not rounds:
        said = "\n".join(errors.strip().splitlines()[-_SAID_LINES:])
        raise PeerRunError(f"{name} failed (exit {process.returncode}, {len(rounds)} rounds done):\n{said}")
    return rounds
