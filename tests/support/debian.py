"""Programs from Debian's packages for tests: downloaded and unpacked into a folder that is kept, never installed.

It needs `apt-get` and the package registry, and no root: nothing of the system's is touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_SECONDS = 300


class Unavailable(Exception):
    """A program is not to be had; the message says why."""


def unpacked(name: str, *packages: str, needs: bool = False) -> Path:
    """The root of what these ``packages`` would install, kept under this ``name``; ``needs``: with what they depend on,
    as far as the system does not have it. Raises Unavailable."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = caches / "snapshotter-tests" / "debian" / name
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            _download(draft, packages, needs=needs)
            # Another process may have been quicker. Its programs are the same.
            if not folder.is_dir():
                (draft / "root").rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return folder


def _download(draft: Path, packages: tuple[str, ...], *, needs: bool) -> None:
    draft.chmod(0o755)  # apt downloads as a user of its own
    for part in ("lists/partial", "cache/archives/partial"):
        (draft / part).mkdir(parents=True)
    ours = [f"Dir::State::Lists={draft / 'lists'}", f"Dir::Cache={draft / 'cache'}", "Debug::NoLocking=1"]
    options = [text for option in ours for text in ("-o", option)]
    run(draft, "apt-get", "-q", *options, "update")
    if needs:
        quietly = "--download-only", "--yes", "--no-install-recommends"
        run(draft, "apt-get", "-q", *options, "install", *quietly, *packages)
        found = sorted((draft / "cache" / "archives").glob("*.deb"))
    else:
        run(draft, "apt-get", "-q", *options, "download", *packages)
        found = sorted(draft.glob("*.deb"))
    if not found:
        raise Unavailable(f"apt-get brought nothing of {', '.join(packages)}")
    for package in found:
        run(draft, "dpkg-deb", "-x", str(package), str(draft / "root"))


def run(folder: Path, *command: str) -> None:
    """Run it in this ``folder``. Raises Unavailable with what it said where it fails."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise Unavailable(f"{command[0]}, which would bring Debian's package, is not there") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{' '.join(command[:2])} did not end within {_SECONDS} s") from error
    if done.returncode:
        raise Unavailable(f"{command[0]} failed: {(done.stdout + done.stderr).strip()[-500:]}")
