"""What is on the disk once a call has returned, and whether anything can be put there.

Whether a folder can be written to is tried by a file that has no name, or none for long: rights, a disk that is full, a
quota and a file system that is only to be read all look alike then, and nothing is left behind.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def nearest(folder: Path) -> Path:
    """The folder, or what is seen of the path to it."""
    return next((one for one in (folder, *folder.parents) if os.path.exists(one)), folder)  # noqa: PTH110 - never raises


def why_closed(folder: Path) -> str | None:
    """Why nothing can be written into the folder, or into the nearest above it, where it would be made; None where that
    can be done."""
    place = nearest(folder)
    if not place.is_dir():
        return "a file is in the way"
    try:
        with tempfile.TemporaryFile(dir=place):
            return None
    except OSError as error:
        return error.strerror or str(error)


def sync(path: Path) -> None:
    """Make a file's contents, or what is new, moved or deleted in a folder, outlive a crash of the machine."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
