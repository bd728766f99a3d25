"""Wheel and sdist as `make dist` makes them, of the sources alone, and programs of an environment with the wheel."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

from tests.support.packaged import DEPLOY
from tests.support.shell import called, environment
from tests.support.sources import PACKAGES, ROOT

SOURCES = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "NOTICE", "constraints.txt")
_SECONDS = 600


def run(*command: str | Path, folder: Path) -> str:
    """Whatever it prints; without anything of this environment's on Python's path."""
    done = called(command, folder, environment(), _SECONDS)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(folder: Path, *kinds: str) -> Path:
    """The folder with what was built of a copy of the sources: without ``kinds`` (``--wheel``) the sdist, and the wheel
    out of that."""
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        shutil.copy(ROOT / name, source)
    left_out = shutil.ignore_patterns("__pycache__")
    for place in (*(ROOT / package for package in PACKAGES), DEPLOY):
        shutil.copytree(place, source / place.name, ignore=left_out)
    run(sys.executable, "-m", "build", *kinds, "--outdir", folder / "dist", source, folder=folder)
    return folder / "dist"


def install_beside(wheel: Path, folder: Path) -> Path:
    """The programs of an environment with the ``wheel``, whose other packages are those of the tests' environment: a
    minute sooner than with its own. Nothing of the checkout is on its path."""
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", folder=folder)
    programs = folder / "venv" / "bin"
    run(
        *(sys.executable, "-m", "pip", "--python", programs / "python", "install", "-q", "--no-deps", wheel),
        folder=folder,
    )
    # A folder that is named in a .pth file is looked into, but .pth files in there (an editable install's) are not.
    own = Path(run(programs / "python", "-c", _OWN, folder=folder).strip())
    (own / "beside.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return programs


_OWN = "import sysconfig; print(sysconfig.get_path('purelib'))"
