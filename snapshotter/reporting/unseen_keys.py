"""Keys that are pressed while a display is shown: they are not drawn into it.

A terminal echoes what is typed where the cursor stands. A new line, or Ctrl+C at the end of a full one, moves it down
without the display knowing: the next drawing begins too low, and leaves lines of the former one behind.
"""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def keys_unseen() -> Iterator[None]:
    """Within, nothing is echoed. Where standard input is no terminal, or somebody else's just now (a job in the
    background would be stopped by asking), nothing changes."""
    if (place := _terminal()) is None:
        yield
        return
    before = termios.tcgetattr(place)
    silent = [*before]
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(place, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(place, termios.TCSADRAIN, before)


def _terminal() -> int | None:
    """The descriptor of the terminal that keys come from, where it is ours to ask."""
    try:
        place = sys.stdin.fileno()
        return place if os.isatty(place) and os.tcgetpgrp(place) == os.getpgrp() else None
    except (OSError, ValueError, AttributeError):  # closed, or replaced by something that is no file
        return None
