"""The queue of requests: whose turn it is.

Requests are carried out in the order in which they were accepted. Of each collection only the first
unfinished task is active, so that the READs of one commit never hold a key twice; different collections go
side by side.

Pure: standard library only.
"""

from __future__ import annotations

from snapshotter.core.progress import Progress, RequestProgress, TaskProgress
from streaming.namespaces import Namespace


def active(progress: Progress) -> list[tuple[RequestProgress, TaskProgress]]:
    """The first unfinished task of each collection, in the order of the queue."""
    taken: set[Namespace] = set()
    found = []
    for request in progress.requests:
        for task in request.tasks:
            if not task.ended and task.namespace not in taken:
                taken.add(task.namespace)
                found.append((request, task))
    return found


def task_of(progress: Progress, request_id: str, namespace: Namespace) -> TaskProgress:
    """Raises ValueError if there is no such task: whoever asks got the pair from this very progress."""
    request = progress.request(request_id)
    for task in request.tasks if request is not None else ():
        if task.namespace == namespace:
            return task
    raise ValueError(f"no task for {namespace} in request {request_id!r}")


def with_task(progress: Progress, request_id: str, task: TaskProgress) -> Progress:
    """``progress`` with the task of this collection replaced."""
    task_of(progress, request_id, task.namespace)
    request = progress.request(request_id)
    assert request is not None
    return progress.with_request(request.with_task(task))
