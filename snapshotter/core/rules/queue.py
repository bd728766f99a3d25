"""The queue of requests: whose turn it is.

Of two requests that want the same, the one of the higher priority goes first, then the one that was accepted first.
In each collection one task at a time has its turn, so that the READs of one commit never hold a key twice; different
collections go side by side. A request that is paused has no turn, and keeps nobody else from it; nor has a task whose
collection is suspended, unless it ends that (`core.values.suspension`). While a blocking request has its turn, nobody
else has one.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator

from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.tasks import TaskProgress
from streaming.namespaces import Namespace


def blocking(progress: Progress) -> RequestProgress | None:
    """The blocking request whose turn it is: of several, the one that was accepted first."""
    waiting = (r for r in progress.requests if r.blocking and not r.paused and not r.ended)
    return next((r for r in waiting if not progress.resting(r)), None)


def active(progress: Progress) -> list[tuple[RequestProgress, TaskProgress]]:
    """The task whose turn it is in each collection, the more urgent ones first."""
    taken: set[Namespace] = set()
    found = []
    alone = blocking(progress)
    waiting = [r for r in progress.requests if not r.paused] if alone is None else [alone]
    for request in sorted(waiting, key=lambda r: -r.priority):
        for task in request.tasks:
            if not task.ended and task.namespace not in taken and not progress.rests(request, task):
                taken.add(task.namespace)
                found.append((request, task))
    return found


def first_loads(progress: Progress) -> Iterator[tuple[RequestProgress, TaskProgress]]:
    """First loads that have begun and not ended, whether it is their turn or not."""
    for request in progress.requests:
        for task in request.tasks:
            if task.first_load and not task.ended:
                yield request, task


def overtaken(progress: Progress) -> list[tuple[RequestProgress, TaskProgress]]:
    """First loads in whose collection somebody else has the turn now."""
    loads = list(first_loads(progress))
    turns = {task.namespace: request.id for request, task in active(progress)} if loads else {}
    return [(r, t) for r, t in loads if turns.get(t.namespace, r.id) != r.id]


def task_of(progress: Progress, request_id: str, namespace: Namespace) -> TaskProgress:
    """The task of the request ``request_id`` for this collection. Raises ValueError if there is none: callers take both
    names from this very progress."""
    request = progress.request(request_id)
    task = request.task(namespace) if request is not None else None
    if task is None:
        raise ValueError(f"no task for {namespace} in request {request_id!r}")
    return task


def with_task(progress: Progress, request_id: str, task: TaskProgress) -> Progress:
    """``progress`` with ``task`` in the place of the one that the request ``request_id`` had for its collection. Raises
    ValueError where it had none."""
    task_of(progress, request_id, task.namespace)
    request = progress.request(request_id)
    assert request is not None
    return progress.with_request(request.with_task(task))
