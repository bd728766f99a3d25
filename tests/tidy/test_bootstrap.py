"""What a machine lacks is said before anything is made: ``scripts/bootstrap``, which every make target calls."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
JAVA_17 = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"
JAVA_8 = "echo 'openjdk version \"1.8.0_412\"' >&2"
OLD_PYTHON = "exit 1"


def executable(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def bootstrap(folder: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """With nothing but these programs, and the shell's own, on PATH."""
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYTHON")}
    environment = {**kept, "PATH": f"{folder}:/usr/bin:/bin", "VENV": str(folder / "venv"), **given}
    command = ["sh", str(ROOT / "scripts" / "bootstrap")]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("java", "found"), [(JAVA_8, "found 1.8.0_412"), ("exit 127", "found none")])
def test_java_is_missing_or_too_old(tmp_path: Path, java: str, found: str) -> None:
    """Spark 4 runs on 17: the message says what was found and what to install, and nothing was made."""
    executable(tmp_path, "java", java)
    ended = bootstrap(tmp_path, PYTHON=sys.executable)
    assert ended.returncode == 1
    assert f"snapshotter needs Java 17 (Spark 4 runs on it), and {found}" in ended.stderr
    assert "openjdk-17" in ended.stderr
    assert not (tmp_path / "venv").exists()


def test_java_home_counts(tmp_path: Path) -> None:
    """A JAVA_HOME that is too old is named, though a newer Java is on PATH: Spark would take it."""
    executable(tmp_path, "java", JAVA_17)
    (tmp_path / "old" / "bin").mkdir(parents=True)
    executable(tmp_path / "old" / "bin", "java", JAVA_8)
    ended = bootstrap(tmp_path, PYTHON=sys.executable, JAVA_HOME=str(tmp_path / "old"))
    assert ended.returncode == 1
    assert f"found 1.8.0_412 at JAVA_HOME={tmp_path / 'old'}" in ended.stderr


def test_python_is_too_old(tmp_path: Path) -> None:
    """The message says which version is needed, where it was looked for, and how to name another."""
    executable(tmp_path, "java", JAVA_17)
    python = executable(tmp_path, "python-of-old", OLD_PYTHON)
    ended = bootstrap(tmp_path, PYTHON=str(python))
    assert ended.returncode == 1
    assert f"snapshotter needs Python 3.11 or later, and found none at PYTHON={python}" in ended.stderr
    assert "make PYTHON=/path/to/python3.11" in ended.stderr
    assert not (tmp_path / "venv").exists()
