"""Writes to a Delta table that are tried again where somebody else was quicker."""

from __future__ import annotations

from collections.abc import Callable

import stamina

from streaming.delta.delta_log import CONFLICTS

_ATTEMPTS = 6


class Altered(Exception):
    """Somebody has given the table other columns since the rows were made to fit it."""


def attempts(
    write: Callable[[], object],
    again: Callable[[], object] | None = None,
    *,
    admit: Callable[[], object] = lambda: None,
) -> None:
    """Call ``write``; where another writer was quicker, ``admit`` and then ``again`` (None: ``write``), some times.

    Raises the last conflict when these attempts are used up, and any other error at once.
    """
    for attempt in stamina.retry_context(on=(*CONFLICTS, Altered), attempts=_ATTEMPTS, timeout=None):
        with attempt:
            if attempt.num == 1:
                write()
            else:
                admit()
                (again or write)()
