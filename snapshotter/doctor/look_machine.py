"""What this machine has: the place where tables will lie, the packages, Java. Spark is not started to find out, nor is
a JVM: Java's own file ``release`` says which version it is.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from snapshotter.doctor.facts import Java, Package, Place
from snapshotter.spark_start import java_command
from streaming.disk import nearest, why_closed

_PINNED = re.compile(r"([\w-]+)==([\d.]+)(?:\s*;.*)?")
_TRIED_TOGETHER = ("pyspark", "delta-spark")
_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)


def place(warehouse: Path) -> Place:
    """Whether the folder of a ``warehouse``, or the nearest above it, can be written to, and has room."""
    folder = nearest(warehouse)
    known = str(warehouse), str(folder)
    if (why := why_closed(folder)) is not None:
        return Place(*known, why)
    return Place(*known, free=shutil.disk_usage(folder).free)


def packages() -> Iterator[Package]:
    """Those that must be of one version, as this release says."""
    pins = [found for text in metadata.requires("snapshotter") or () if (found := _PINNED.fullmatch(text))]
    for pin in pins:
        if pin[1] in _TRIED_TOGETHER:
            yield Package(pin[1], pin[2], _installed(pin[1]))


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def java() -> Java:
    """The Java that Spark will take."""
    binary, home = java_command(), os.environ.get("JAVA_HOME")
    if binary is None or not Path(binary).is_file():
        return Java(None, None)
    root = Path(home) if home else Path(binary).resolve().parents[1]
    try:
        said = _VERSION.search((root / "release").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        said = None
    return Java(str(root), int(said[1]) if said else None)
