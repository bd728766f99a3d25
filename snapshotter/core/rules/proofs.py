"""What a batch has proven of collections: that they were read whole, so that marks and gaps of before are done with.

Pure: standard library only.
"""

from __future__ import annotations

from snapshotter.core.values.coverage import Coverage
from snapshotter.core.values.gaps import Gap
from snapshotter.core.values.inputs import BatchArrived
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.requests import Origin
from snapshotter.core.values.tasks import TaskState
from streaming.namespaces import Namespace


def covered(saved: Progress, progress: Progress, arrived: BatchArrived) -> Coverage | None:
    """The marks once the batch that ``arrived`` has landed, which led from ``saved`` to ``progress``."""
    known = progress.coverage
    if known is None:
        return None
    read = _read_whole(progress) - _read_whole(saved) if known.unread else ()
    marked = known.after_batch(arrived.streamed, arrived.truncated, (namespace for _, namespace in read))
    given_up = {namespace for _, namespace in _given_up(progress) - _given_up(saved)}
    if not given_up:
        return marked
    whole = {namespace for _, namespace in _read_whole(progress)}
    return marked.leaving(marked.settled & given_up - whole)


def gaps(saved: Progress, progress: Progress, arrived: BatchArrived) -> tuple[Gap, ...]:
    """The gaps once the batch that ``arrived`` has landed, which led from ``saved`` to ``progress``."""
    if all(gap.closed is not None for gap in progress.gaps):
        return progress.gaps
    read = _compared(progress) - _compared(saved)
    compared = {namespace for _, namespace in read} | arrived.truncated.keys()
    return tuple(gap.after_batch(compared, arrived.end) for gap in progress.gaps)


def _read_whole(progress: Progress) -> set[tuple[str, Namespace]]:
    return {(r.id, task.namespace) for r in progress.requests for task in r.tasks if task.proves}


def _given_up(progress: Progress) -> set[tuple[str, Namespace]]:
    """Loads that an operator stopped: first loads, for they left out what streamed of keys that they had yet to read,
    and those of a start or behind a rename, which were to read what is not in the tables, or not as it is now. (One
    that fails says so itself, and may go on.)"""
    stopped = ((r, t) for r in progress.requests for t in r.tasks if t.state is TaskState.STOPPED)
    origins = (Origin.INITIAL, Origin.RENAME)
    return {(r.id, t.namespace) for r, t in stopped if t.began_first or r.origin in origins}


def _compared(progress: Progress) -> set[tuple[str, Namespace]]:
    """Besides, what a request that heals has read: it asks for as much as its collection needs."""
    healed = (r for r in progress.requests if r.origin is Origin.HEAL)
    done = {(r.id, t.namespace) for r in healed for t in r.tasks if t.state is TaskState.DONE}
    return _read_whole(progress) | done
