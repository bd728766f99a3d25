"""Java's classes of Spark and Delta, parsed and verified once for all of a user's short commands.

Most of what a command that starts Spark takes, if it has little to do, is a cold JVM: some twenty thousand classes are
found, parsed and verified. A class-data archive (JEP 350) holds them as the JVM has them in memory. The first JVM
writes it when it ends, beside nobody's work; those after it map it.

It has 200 MB, and a JVM maps it as a whole, so only commands that end by themselves use one: an engine that runs for
months wins nothing. Java itself checks that an archive is sound and fits its own version, class path and settings, and
goes without one that does not; its name keeps those apart that would not fit each other. Nothing depends on it: where
the folder cannot be written, there is none.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
# A JVM writes for some seconds when it ends, and its header last of all (`FileMapInfo::write_header`): what has one is
# whole a moment later, and what has none after so long was given up.
_WHOLE_SECONDS, _GIVEN_UP_SECONDS = 1.0, 60.0
_NO_HEADER = bytes(4)


def folder() -> Path:
    """Where this user's archives are."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "snapshotter" / "java"


def java_options(where: Path, given: str, now: Callable[[], float] = time.time) -> str:
    """Java's options for a command: with the archive in the folder ``where``, or such that its JVM writes one there.
    Empty where ``given``, the options that it has already, say something of archives themselves, or where nothing
    can be written. ``now``: as seconds since 1970."""
    if "-Xshare" in given or "SharedArchiveFile" in given or "ArchiveClassesAtExit" in given:
        return ""
    name = f"spark-{metadata.version('pyspark')}-delta-{metadata.version('delta-spark')}-{_java()}"
    archive = where / f"{name}.jsa"
    with suppress(OSError):
        where.mkdir(parents=True, exist_ok=True)
        _adopt(where, name, archive, now())
        if archive.exists():
            return f"-XX:SharedArchiveFile={archive} -XX:+VerifySharedSpaces {_QUIET}"
        if os.access(where, os.W_OK) and " " not in str(where):
            return f"-XX:ArchiveClassesAtExit={where / f'{name}.{uuid.uuid4().hex}.new'} {_QUIET}"
    return ""


def _adopt(where: Path, name: str, archive: Path, now: float) -> None:
    """Of what JVMs have written since, one is the archive from now on, and the others go."""
    for new in where.glob(f"{name}.*.new"):
        age = now - new.stat().st_mtime
        if not archive.exists() and age > _WHOLE_SECONDS and _has_header(new):
            new.rename(archive)
        elif age > _GIVEN_UP_SECONDS:
            new.unlink()


def _has_header(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(_NO_HEADER)) not in (_NO_HEADER, b"")


def _java() -> str:
    """What tells one Java from another, and from itself after an upgrade."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    with suppress(OSError):
        java = java.resolve(strict=True)
        java = java / str(java.stat().st_mtime_ns)
    return hashlib.sha256(str(java).encode()).hexdigest()[:12]
