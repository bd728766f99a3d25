"""Short commands share what their JVMs know of classes, on a real Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from snapshotter.class_archive import folder
from snapshotter.testing.processes import wait_until

PROGRAM = Path(__file__).parent / "programs" / "brief_command.py"


def command(cache: Path) -> bool:
    """Whether the command's JVM had the archive in this folder."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(cache)],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout.strip().endswith("True")


@pytest.mark.slow
@pytest.mark.thorough
def test_the_second_has_what_the_first_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first JVM writes the archive when it ends. One that is damaged, unfinished, or something else keeps no
    command from its work."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert not command(tmp_path)
    wait_until(
        lambda: [file for file in folder().glob("*.new") if file.stat().st_size > 1 << 20], "the archive"
    )
    (new,) = folder().glob("*.new")
    wait_until(lambda: not written_to(new), "the JVM to end")
    os.utime(new, (0, 0))
    assert command(tmp_path)
    (archive,) = folder().iterdir()
    whole = archive.read_bytes()
    archive.chmod(0o600)
    half = len(whole) // 2
    for damaged in (
        whole[:half] + b"damage" + whole[half + 6 :],
        bytes(4096) + whole[4096:half],
        b"no archive",
    ):
        archive.write_bytes(damaged)
        assert not command(tmp_path)


def written_to(file: Path) -> bool:
    """Whether some process has the file open, or a JVM is still there that is to write it."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if file.name in (process / "cmdline").read_text():
                return True
        except OSError:
            continue  # it has ended meanwhile
    return False
