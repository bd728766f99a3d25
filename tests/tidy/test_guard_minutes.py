"""Continuous integration gets done on a slow machine: tests marked guard are skipped once their time is over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUARDS = "tests/e2e/test_prepare.py"
OTHER = "tests/tidy/test_ports.py"


def test_a_test_marked_guard_goes_last_and_does_not_begin_too_late() -> None:
    """It is named with its reason; any other test runs."""
    command = [sys.executable, "-m", "pytest", "-v", "-m", "not peers", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--guard-minutes", "0", GUARDS, OTHER],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith((GUARDS, OTHER))]
    assert done.returncode == 0, done.stdout
    assert [line.split("::")[0] for line in lines] == sorted(
        (line.split("::")[0] for line in lines), reverse=True
    )
    assert all(("SKIPPED" in line) is line.startswith(GUARDS) for line in lines)
    assert f"no time left for {GUARDS}::" in done.stdout
