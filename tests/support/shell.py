"""Programs that are called as from a shell, and the environment of one that knows nothing of the tests'."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_OURS = ("PYTHONPATH", "VIRTUAL_ENV", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
"""Where a test has started Spark, it has said which Python workers are to run."""


def environment(*without: str) -> dict[str, str]:
    """This process's ``without`` these variables, and what leads to the tests' own environment."""
    return {name: value for name, value in os.environ.items() if name not in (*_OURS, *without)}


def called(
    command: Sequence[str | Path], folder: Path, env: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    """What a ``command`` has said that was called in this ``folder`` and ``env``, once it has ended."""
    return subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
