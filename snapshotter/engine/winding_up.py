"""What has to be done at an end, whatever led to it and whatever fails of it."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from snapshotter.log import warn_of

_log = structlog.get_logger("snapshotter.engine")


def all_of(*steps: Callable[[], object]) -> None:
    """Each step by itself: where one fails that is logged, and keeps neither the others from being done nor the error
    from being seen that led here."""
    for step in steps:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - see above
            warn_of(_log, "winding up failed", error)
