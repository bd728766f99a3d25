"""What operators are notified of when progress is saved: the difference between two saved states.

Derived, never stored, so that nothing is announced that is not durable. Of a request, in this order:

    STARTED               the first of its collections has been opened
    PAUSED, RESUMED       by an operator; RESUMED also where it goes on after a failure
    IN_PROGRESS           chunks of a collection have landed, its last ones too
    TABLE_SCAN_COMPLETED  a collection has been read: status SUCCEEDED, or EMPTY where there was nothing to read
    FAILED                a collection is given up, with the reason
    ABORTED               collections have been stopped by an operator, ``data_collections``
    COMPLETED             every collection has been read
    STOPPED, FAILED       it has ended otherwise (FAILED without a collection; also where others were stopped)

Of a collection, under its own name:

    SUSPENDED             nothing of it lands from here on, with the reason

Of the position, under the gap's number (``gap-2``):

    GAP_OPENED            the stream goes on at a new position, behind a gap
    GAP_CLOSED            every collection has been compared since

The engine itself adds SKIPPED, where a start has no initial load.

``data`` has the peer's names (Debezium's notifications); the keys in it are ours (`streaming.keys.keys`).

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from snapshotter.core.values.effects import Announce
from snapshotter.core.values.gaps import Gap
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.tasks import TaskProgress, TaskState

SKIPPED = "SKIPPED"
GAP_OPENED, GAP_CLOSED = "GAP_OPENED", "GAP_CLOSED"
COMPLETED = "COMPLETED"
_ENDS = (COMPLETED, "STOPPED", "FAILED")


def ends(announcement: Announce) -> bool:
    """Whether it says how a request as a whole has ended."""
    return announcement.namespace is None and announcement.kind in _ENDS


def between(before: Progress, after: Progress) -> Iterator[Announce]:
    """The announcements that the step from ``before`` to ``after`` calls for, in the order of the queue."""
    for namespace, suspension in after.suspended.items():
        was = before.suspended.get(namespace)
        if not suspension.lands and (was is None or was.lands or was.since != suspension.since):
            data = {"cause": suspension.cause, "next_step": suspension.next_step}
            yield Announce("SUSPENDED", str(namespace), namespace, suspension.error, data)
    yield from _of_gaps({gap.number: gap for gap in before.gaps}, after.gaps)
    known = {request.id: request for request in before.requests}
    for request in after.requests:
        old = known.get(request.id)
        if old is not request:
            yield from _of_request(old, request)


def _of_gaps(before: Mapping[int, Gap], gaps: Iterable[Gap]) -> Iterator[Announce]:
    for gap in gaps:
        old = before.get(gap.number)
        data = {
            "number": str(gap.number),
            "cause": gap.cause,
            "policy": "heal" if gap.heals else "continue",
            "since": str(gap.since),
            "upto": str(gap.upto or ""),
            "collections": ",".join(sorted(map(str, gap.affected))),
            "found_ms": str(gap.found_ms),
            "error": gap.error,
            "closed": str(gap.closed or ""),
        }
        if old is None:
            yield Announce(GAP_OPENED, f"gap-{gap.number}", None, gap.error, data)
        if gap.closed is not None and (old is None or old.closed is None):
            yield Announce(GAP_CLOSED, f"gap-{gap.number}", None, "", data)


def _of_request(old: RequestProgress | None, request: RequestProgress) -> Iterator[Announce]:
    queue = {"data_collections": ",".join(str(task.namespace) for task in request.tasks)}
    if _has_started(request) and not (old is not None and _has_started(old)):
        yield Announce("STARTED", request.id, data=queue)
    paused = old is not None and old.paused
    if request.paused and not paused:
        yield Announce("PAUSED", request.id, data=queue)
    if _goes_on(old, request):
        yield Announce("RESUMED", request.id, data=queue)
    stopped = []
    for task in request.tasks:
        was = old.task(task.namespace) if old is not None else None
        yield from _of_task(request.id, was, task, queue)
        if _newly(TaskState.STOPPED, was, task):
            stopped.append(str(task.namespace))
    if stopped:
        yield Announce("ABORTED", request.id, data={"data_collections": ",".join(stopped)})
    if request.ended and not (old is not None and old.ended):
        yield Announce(_end_of(request), request.id)


def _has_started(request: RequestProgress) -> bool:
    return any(
        task.last is not None or task.resumed or task.state not in (TaskState.WAITING, TaskState.STOPPED)
        for task in request.tasks
    )


def _goes_on(old: RequestProgress | None, request: RequestProgress) -> bool:
    if old is None or request.ended or request.paused:
        return False
    again = any(task.resumed > was.resumed for was, task in zip(old.tasks, request.tasks, strict=True))
    return old.paused or again


def _end_of(request: RequestProgress) -> str:
    return "FAILED" if request.failed else "STOPPED" if request.stopped else COMPLETED


def _newly(state: TaskState, was: TaskProgress | None, task: TaskProgress) -> bool:
    # A task that went on in between has failed once more.
    return task.state is state and (was is None or (was.state, was.resumed) != (state, task.resumed))


def _of_task(
    request_id: str, was: TaskProgress | None, task: TaskProgress, queue: dict[str, str]
) -> Iterator[Announce]:
    if task.chunks > (was.chunks if was is not None else 0) and task.state is not TaskState.STOPPED:
        data = {**queue, "current_collection_in_progress": str(task.namespace)}
        if task.last is not None and task.frontier is not None:
            data |= {"maximum_key": task.last.key, "last_processed_key": task.frontier.key}
        yield Announce("IN_PROGRESS", request_id, task.namespace, data=data)
    if _newly(TaskState.FAILED, was, task):
        yield Announce("FAILED", request_id, task.namespace, task.error or "")
    elif _newly(TaskState.DONE, was, task):
        status = "SUCCEEDED" if task.last else "EMPTY"
        data = {
            **queue,
            "scanned_collection": str(task.namespace),
            "total_rows_scanned": str(task.rows + task.superseded),
            "status": status,
        }
        if task.reconcile:
            counts = {"deleted": task.deleted, "inserted": task.inserted}
            counts |= {"changed": task.changed, "unchanged": task.unchanged}
            data |= {f"total_rows_{what}": str(count) for what, count in counts.items()}
        yield Announce("TABLE_SCAN_COMPLETED", request_id, task.namespace, status, data)
