"""What operators are told when progress is saved: the difference between two saved states.

Derived, never stored, so that nothing is announced that is not durable.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator

from snapshotter.core.effects import Announce
from snapshotter.core.progress import Progress, RequestProgress, TaskState


def between(before: Progress, after: Progress) -> Iterator[Announce]:
    """The announcements that the step from ``before`` to ``after`` calls for, in the order of the queue."""
    for request in after.requests:
        old = before.request(request.id)
        if (old is None or not _has_started(old)) and _has_started(request):
            yield Announce("STARTED", request.id)
        yield from _of_tasks(old, request)
        if request.ended and not (old is not None and old.ended):
            yield Announce("ABORTED" if request.failed else "COMPLETED", request.id)


def _has_started(request: RequestProgress) -> bool:
    return any(task.state is not TaskState.WAITING for task in request.tasks)


def _of_tasks(old: RequestProgress | None, request: RequestProgress) -> Iterator[Announce]:
    known = {task.namespace: task for task in old.tasks} if old is not None else {}
    for task in request.tasks:
        was = known.get(task.namespace)
        if task.state is TaskState.FAILED and (was is None or was.state is not TaskState.FAILED):
            yield Announce("FAILED", request.id, task.namespace, task.error or "")
        elif task.state is TaskState.DONE and (was is None or was.state is not TaskState.DONE):
            yield Announce(
                "TABLE_SCAN_COMPLETED", request.id, task.namespace, "SUCCEEDED" if task.last else "EMPTY"
            )
        elif was is not None and task.chunks > was.chunks:
            yield Announce("IN_PROGRESS", request.id, task.namespace)
