"""Dry runs that came as signals: estimated in the background, one after another. The answer goes into a file, and to
what reports the outcomes of signals.

Counting may take seconds, so it is done in the background. Nothing about a dry run is durable but its answer: one
that waits when the engine ends is not answered, and may be sent again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import structlog

from snapshotter.core.values.requests import SnapshotRequest
from snapshotter.errors import describe
from snapshotter.intake.background import BackgroundWorker
from snapshotter.log import warn_of
from snapshotter.reading.catalogue import RequestRefused
from snapshotter.reporting.answers import DryRun, write_answer
from snapshotter.state.storage import Storage

WAITING_MAX = 100
Estimate = Callable[[SnapshotRequest], DryRun]
_log = structlog.get_logger("snapshotter.signals")


class DryRuns:
    """``submit`` from any thread."""

    def __init__(self) -> None:
        self._worker = BackgroundWorker("dry-runs", WAITING_MAX)

    def submit(
        self,
        request: SnapshotRequest,
        storage: Storage,
        estimate: Estimate,
        report: Callable[[DryRun], None],
    ) -> None:
        """Answer the ``request`` in time, from another thread: what ``estimate`` returns, or the error that it raised,
        is written to ``storage`` and given to ``report``. Raises RequestRefused where too many wait already."""
        if not self._worker.submit(partial(_run, request, storage, estimate, report)):
            raise RequestRefused(
                f"signal {request.id!r}: {WAITING_MAX} dry runs wait already; send it again later"
            )


def _run(
    request: SnapshotRequest, storage: Storage, estimate: Estimate, report: Callable[[DryRun], None]
) -> None:
    answer = _answer(request, estimate)
    for give in (partial(write_answer, storage), report):
        try:
            give(answer)
        except Exception as error:  # noqa: BLE001 - it costs this answer, nothing else
            warn_of(_log, "the answer to a dry run cannot be written", error, id=request.id)


def _answer(request: SnapshotRequest, estimate: Estimate) -> DryRun:
    try:
        answer = estimate(request)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is reported to the sender, and affects nobody else
        why = describe(error).message
        _log.error("a dry run failed", id=request.id, error=why)
        return DryRun(id=request.id, answered_at=datetime.now(UTC), error=why)
    return answer
