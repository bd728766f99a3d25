"""Gaps that are open, as the status shows them: what is not compared yet, and what to run where nothing is under
way."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime

from signals.matching.selection import spelled
from snapshotter.configuration.option_values import PositionLost
from snapshotter.core.values.gaps import Gap
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.requests import Origin
from snapshotter.errors import redact
from snapshotter.reporting.status import GapReport

_NAMES = 20


def gap_report(gap: Gap, progress: Progress) -> GapReport:
    """The report of a ``gap`` that is open. What ``progress`` has no read under way for, somebody has to ask for."""
    under_way = {
        task.namespace
        for request in progress.requests
        for task in request.tasks
        if not task.ended and (task.restores or request.origin is Origin.HEAL)
    }
    rest = sorted(map(str, gap.left - under_way))
    names = " ".join(shlex.quote(spelled(name)) for name in rest[:_NAMES])
    more = f" (and {len(rest) - _NAMES} more)" if len(rest) > _NAMES else ""
    return GapReport(
        number=gap.number,
        cause=gap.cause,
        error=redact(gap.error),
        policy=PositionLost.HEAL if gap.heals else PositionLost.CONTINUE,
        since=datetime.fromtimestamp(gap.since.t, UTC),
        upto=datetime.fromtimestamp(gap.upto.t, UTC) if gap.upto else None,
        left=tuple(sorted(map(str, gap.left))),
        next_step=f"snapshotter execute-snapshot -c FILE --reconcile {names}{more}" if rest else "",
    )
