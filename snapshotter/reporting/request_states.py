"""The states of requests by the names that operators see: in ``status``, and beside the signal collection."""

from __future__ import annotations

from snapshotter.core.values.progress import RequestProgress
from snapshotter.core.values.requests import Origin
from snapshotter.core.values.tasks import TaskState
from snapshotter.reporting.status import RequestState

AFTER_REFUSAL = "correct the signal, and send it again under a new id"
STATES = {
    TaskState.WAITING: RequestState.QUEUED,
    TaskState.OPENED: RequestState.RUNNING,
    TaskState.RUNNING: RequestState.RUNNING,
    TaskState.DONE: RequestState.COMPLETED,
    TaskState.STOPPED: RequestState.STOPPED,
    TaskState.FAILED: RequestState.FAILED,
}


def state_of(request: RequestProgress) -> RequestState:
    """The state of the request as a whole. One that waits for suspended collections is not told apart here."""
    if request.ended:
        if request.failed:
            return RequestState.FAILED
        return RequestState.STOPPED if request.stopped else RequestState.COMPLETED
    if request.paused:
        return RequestState.PAUSED
    started = any(task.state is not TaskState.WAITING for task in request.tasks)
    return RequestState.RUNNING if started else RequestState.QUEUED


def type_of(request: RequestProgress) -> str:
    """What kind of snapshot it is, as operators name it."""
    if request.blocking:
        return "blocking"
    return "initial" if request.origin is Origin.INITIAL else "incremental"


def after_failure(request: RequestProgress) -> str:
    """The next step to take."""
    return (
        f"cure the cause, then send resume-snapshot for request {request.id}: it goes on behind what has landed; "
        f"or ask for the collection again under a new id"
    )
