"""Where Java's archive of classes lies, which ``snapshotter prepare`` makes, and how a JVM is told of it.

A quarter of a cold start is Java that reads Spark's classes, and verifies them. An archive of those (JEP 350) spares
each JVM that (bench/README.md). Java itself sees to it that an archive is of its own version and of the very jars that
it is given, and goes without one that is not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Or Java complains to standard output of an archive that it goes without."""
_CHOSEN = re.compile(r"-XX:(SharedArchiveFile|ArchiveClassesAtExit)=|-Xshare:")


def place(environ: Mapping[str, str] = os.environ) -> Path:
    """The archive of the installed Spark and Delta: with what else is kept of this user's, as the XDG specification has
    it. It need not be there."""
    cache = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    versions = "-".join(metadata.version(name) for name in ("pyspark", "delta-spark"))
    return Path(cache, "snapshotter", f"classes-{versions}.jsa")


def java_options(given: Iterable[str], environ: Mapping[str, str] = os.environ) -> str:
    """The options for a JVM to use the archive: none where it is not there, or where the options that are ``given``
    already choose one."""
    archive = place(environ)
    if any(_CHOSEN.search(options) for options in given) or not archive.is_file():
        return ""
    return f'"-XX:SharedArchiveFile={archive}" {QUIET}'
