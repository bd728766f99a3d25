"""What has to be done at an end, whatever led to it, and whichever part of it fails."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from snapshotter.errors import cause_of
from snapshotter.failures import Fault, classify
from snapshotter.log import warn_of

_log = structlog.get_logger("snapshotter.engine")


def all_of(*steps: Callable[[], object]) -> None:
    """Take each step by itself. One that fails is logged; it neither keeps the others from being done nor hides the
    error that led here. Where Spark is gone there is nothing left of it to wind up, which is no news."""
    for step in steps:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - see above
            # py4j finds nobody behind the JVM's port then.
            if isinstance(error, ConnectionRefusedError) or classify(error) is Fault.SESSION_LOST:
                _log.info("nothing of Spark is left to wind up", error=cause_of(error))
            else:
                warn_of(_log, "winding up failed", error)
