"""Telling a snapshot mode how its load has ended: code of others, so what it raises is logged, and ends nothing."""

from __future__ import annotations

import structlog

from snapshotter.configuration.snapshot_modes import SnapshotPolicy
from snapshotter.log import warn_of

_log = structlog.get_logger("snapshotter.initial")


def tell_end(policy: SnapshotPolicy, completed: bool) -> None:
    """``completed``: whether all was read that was to be read."""
    try:
        if completed:
            policy.snapshot_completed()
        else:
            policy.snapshot_aborted()
    except Exception as error:  # noqa: BLE001 - see above
        warn_of(_log, "the snapshot mode failed at the end of its load; the engine goes on", error)
