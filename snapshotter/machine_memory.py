"""How much memory there is for this process: the machine's, or what a container or a service manager leaves of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_LIMITS = "memory.max", "memory/memory.limit_in_bytes"
"""Of the second version of Linux's control groups, and of the first; in a container they are its own."""


def memory_bytes(groups: Path = _GROUPS) -> int:
    """In bytes. ``groups``: where control groups are mounted."""
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_limits(groups)])


def _limits(groups: Path) -> Iterator[int]:
    for name in _LIMITS:
        try:
            text = (groups / name).read_text("ascii").strip()
        except OSError:  # another version, or none
            continue
        if text.isdigit():  # "max" is no limit
            yield int(text)
