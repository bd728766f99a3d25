"""What the status says of the oplog: how far it reaches back, until when it holds the position, what to warn of.

A pure step behind the rest of the status, which has all that it needs but the oplog itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from snapshotter.position.runway import Oplog, outlasted, runway_hours, warning, while_paused
from snapshotter.reporting.status import OplogReport, RequestReport, Status
from streaming.positions import ClusterTime


def with_oplog(status: Status, oplog: Oplog | None, least_hours: float) -> Status:
    """The status with the report of the ``oplog`` (None: not known), and with warnings where it holds the position for
    less than ``least_hours``, or for less than a snapshot will take."""
    if oplog is None:
        return status
    position = None if status.position is None else ClusterTime(status.position.t, status.position.i)
    if position is not None and status.lag_seconds is not None:
        # The oplog was looked at a while ago, and its head has moved since.
        head = ClusterTime(position.t + round(status.lag_seconds), position.i)
        oplog = replace(oplog, newest=max(oplog.newest, head))
    left = None if position is None else runway_hours(oplog, position)
    report = _report(oplog, position, left)
    warnings = *status.warnings, *_warnings(status, left, least_hours)
    return status.model_copy(update={"oplog": report, "warnings": warnings})


def _report(oplog: Oplog, position: ClusterTime | None, left: float | None) -> OplogReport:
    until = None
    if position is not None and left:
        until = datetime.fromtimestamp(position.t, UTC) + timedelta(hours=oplog.window_hours)
    return OplogReport(
        oldest=datetime.fromtimestamp(oplog.oldest.t, UTC),
        hours=round(oplog.hours, 2),
        runway_hours=None if left is None else round(left, 4),
        held_until=until,
        bytes_per_second=oplog.bytes_per_second,
        used_bytes=oplog.used,
        capacity_bytes=oplog.capacity,
    )


def _warnings(status: Status, left: float | None, least_hours: float) -> Iterator[str]:
    if left is None:
        return
    standing = while_paused(left) if status.stream_paused else None
    if said := standing or warning(left, least_hours):  # of a paused stream both would say the same
        yield said
    if not least_hours:
        return
    for request in status.requests:
        seconds = None if request.state.ended else _seconds_left(request, status.snapshot_speed)
        if seconds is not None and (longer := outlasted(request.id, seconds, left)):
            yield longer


def _seconds_left(request: RequestReport, speed: float | None) -> float | None:
    """What is left of a snapshot at the newest speed that was measured; None where nobody knows how much there is."""
    left = [
        max(0, c.estimated_total - c.rows - c.dropped)
        for c in request.collections
        if not c.state.ended and c.estimated_total is not None
    ]
    return sum(left) / speed if left and speed else None
