"""A run's seed decides all that is random in it, in every process that takes part, and is told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_TESTS = """
from hypothesis import given, strategies as st

def test_one(seed):
    assert False

test_two = test_one

def test_tried():
    tried = []
    @given(st.integers(0, 10**9))
    def inner(n):
        tried.append(n)
    inner()
    assert False, f"tried {tried}"
"""


def run(folder: Path, seed: str) -> tuple[str, str]:
    """The seed that the header of a run by two workers tells, and what Hypothesis tried."""
    (folder / "test_there.py").write_text(_TESTS)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-vv"),
            *("-n", "2", "-c", os.devnull, "--rootdir", str(folder), str(folder), "--seed", seed),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "3 failed" in done.stdout, done.stdout + done.stderr
    (told,) = re.findall(r"^seed: (\d+) \(replay", done.stdout, re.MULTILINE)
    assert set(re.findall(r"^seed \d+ \(of the run: --seed (\d+)", done.stdout, re.MULTILINE)) == {told}, (
        "a worker had another seed"
    )
    return told, re.findall(r"AssertionError: tried (.*)", done.stdout)[0]


def test_a_fresh_seed_is_reported_and_replays_everything(tmp_path: Path) -> None:
    """``--seed random`` takes another one each time; all workers have it, and Hypothesis goes by it."""
    one, two = run(tmp_path, "random"), run(tmp_path, "random")
    assert one[0] != two[0]
    assert one[1] != two[1]
    assert run(tmp_path, one[0]) == one
