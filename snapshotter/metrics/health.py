"""Whether an engine lives, and whether it keeps tables up to date: for whoever restarts it, or waits for it.

*Healthy* is a process whose control loop goes on; one that is not should be killed, and started again. An engine that
tries again after an error is healthy, and so is one that is about to start or to end. *Ready* is one that runs, has
landed a batch, and has no error. Neither answer names more than states and classes of errors: nobody is asked for a
token.

No clock, no thread, no server.
"""

from __future__ import annotations

from dataclasses import dataclass

from snapshotter.reporting.status import EngineState, Status

SILENT_SECONDS = 180.0
"""The loop says something once a second. One that waits for MongoDB, for a batch to end or for reads under way does so
later; none of these takes as long."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``good``, and why or why not."""

    good: bool
    text: str


def healthy(status: Status | None, now: float) -> Answer:
    """``status`` is the newest one, None before the first; ``now`` is in seconds since the epoch."""
    if status is None or status.updated_at is None:
        return Answer(True, "starting")
    silent = now - status.updated_at.timestamp()
    if silent > SILENT_SECONDS:
        return Answer(False, f"the engine has said nothing for {silent:.0f} s")
    return Answer(True, status.state.value)


def ready(status: Status | None, now: float) -> Answer:
    """As for `healthy`."""
    if status is None:
        return Answer(False, "starting")
    alive = healthy(status, now)
    if not alive.good or status.state is not EngineState.RUNNING:
        return Answer(False, alive.text)
    if status.error is not None:
        return Answer(False, f"{status.error.kind}: it is tried again; see snapshotter status")
    if status.batch is None:
        return Answer(False, "no batch has landed yet")
    return Answer(True, "ready")
