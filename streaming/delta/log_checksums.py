"""Removes checksum files of old versions from a table's log, where it lies on this machine's disks.

A commit leaves four files there: its own, Delta's checksum of the version, and Hadoop's checksum of either. Whoever
lists the log, as each start of an engine and each query of others does, lists them all, and a table that is committed
to each second has 2.6 million within a week. Delta reads a version's checksum to know the newest version, and from the
one before to write the next; Hadoop reads a file without its checksum as well. Behind the newest thousand versions
nobody needs them, so a quarter of the files is left. In an object store there is no second pair, and each would be a
request.

Invariant: commits and checkpoints stay, so that each version can be read as before.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from streaming.delta.newest_version import LOCAL

KEPT = 1_000
"""Of so many newest versions the checksums stay."""
# `<version>.crc`, `.<version>.crc.crc` and `.<version>.json.crc`.
_CHECKSUM = re.compile(r"(?:(\d{20})\.crc|\.(\d{20})\.(?:crc|json)\.crc)")


def remove_old_checksums(log_folder: str, newest: int) -> int:
    """Remove checksums of versions that are ``KEPT`` or more older than ``newest`` from a log's folder, which is named
    as Hadoop names it; how many there were. None is removed where the folder is not on this machine's disks. Raises
    OSError."""
    if not log_folder.startswith(LOCAL):
        return 0
    folder, removed = Path(log_folder.removeprefix(LOCAL)), 0
    with os.scandir(folder) as found:
        for entry in found:
            match = _CHECKSUM.fullmatch(entry.name)
            if match is not None and int(match[1] or match[2]) <= newest - KEPT:
                (folder / entry.name).unlink(missing_ok=True)
                removed += 1
    return removed
