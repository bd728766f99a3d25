"""`core.values.progress`: every value that can be, and so can be saved, comes back from JSON as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from snapshotter.core.values.chunks import Bound, KeyRange
from snapshotter.core.values.coverage import Coverage
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import Origin
from snapshotter.core.values.rereads import Rereads
from snapshotter.core.values.suspension import Suspension
from snapshotter.core.values.tasks import TaskProgress, TaskState
from streaming.delta.table_identity import TableMark
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

NAMES = st.text(min_size=1, max_size=5)
NAMESPACES = st.builds(
    Namespace, NAMES.filter(lambda name: "." not in name), NAMES.filter(lambda name: not name.endswith("."))
)
COUNTS = st.integers(0, 2**40)
BOUNDS = st.builds(Bound, st.binary(max_size=8), st.text(max_size=8))


def sound_task(task: TaskProgress) -> TaskProgress:
    """With as little changed as makes it one that can be (``TaskProgress.unsound``)."""
    frontier, last, began = task.frontier, task.last, task.frontier is not None
    if last is None and (began or task.state in (TaskState.OPENED, TaskState.RUNNING)):
        last = frontier or Bound(b"", "")
    if frontier is not None and last is not None and frontier.key > last.key:
        frontier, last = last, frontier
    return replace(
        task,
        frontier=frontier,
        last=last,
        chunks=max(1, task.chunks) if began else 0,
        error=(task.error or "") if task.state is TaskState.FAILED else None,
        first_load=task.first_load and task.whole,
    )


def sound_request(request: RequestProgress) -> RequestProgress:
    return request if request.ended else replace(request, ended_in=None)


def sound_progress(progress: Progress) -> Progress:
    return replace(progress, rereads=progress.rereads.leaving_out(progress.left_out))


TASKS = st.builds(
    TaskProgress,
    namespace=NAMESPACES,
    filter=st.none() | st.text(max_size=8),
    state=st.sampled_from(TaskState),
    frontier=st.none() | BOUNDS,
    last=st.none() | BOUNDS,
    chunks=COUNTS,
    rows=COUNTS,
    superseded=COUNTS,
    estimated=st.none() | COUNTS,
    first_load=st.booleans(),
    ordered_keys=st.booleans(),
    error=st.none() | st.text(max_size=8),
    keys=st.lists(BOUNDS, max_size=3).map(tuple),
    range=st.none() | st.builds(KeyRange, BOUNDS, st.none() | BOUNDS, st.just(True)),
    reconcile=st.booleans(),
    resumed=st.integers(0, 9),
    deleted=COUNTS,
).map(sound_task)
TIMES = st.builds(ClusterTime, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
REQUESTS = st.builds(
    RequestProgress,
    NAMES,
    st.sampled_from(Origin),
    st.lists(TASKS, max_size=3).map(tuple),
    st.integers(-9, 9),
    st.text(max_size=3),
    st.booleans(),
    st.none() | COUNTS,
    st.booleans(),
).map(sound_request)
SUSPENSIONS = st.builds(
    Suspension,
    st.text(max_size=5),
    st.text(max_size=8),
    st.text(max_size=8),
    TIMES,
    st.frozensets(NAMES, max_size=3),
    st.none() | NAMES,
)
MARKS = st.builds(TableMark, st.text(max_size=4), COUNTS, st.text(max_size=4))
COVERAGES = st.builds(Coverage, st.frozensets(NAMESPACES, max_size=2), st.frozensets(NAMESPACES, max_size=2))
REREADS = st.lists(st.tuples(NAMESPACES, BOUNDS), max_size=3).map(
    lambda pairs: reduce(lambda rereads, pair: rereads.adding(pair[0], [pair[1]]), pairs, Rereads())
)
PROGRESS = st.builds(
    Progress,
    batch_id=st.integers(-1, 2**31),
    position=TIMES,
    requests=st.lists(REQUESTS, max_size=3, unique_by=lambda request: request.id).map(tuple),
    rereads=REREADS,
    coverage=st.none() | COVERAGES,
    suspended=st.dictionaries(NAMESPACES, SUSPENSIONS, max_size=3),
    tables=st.dictionaries(NAMESPACES, MARKS, max_size=3),
    shard_keys=st.dictionaries(NAMESPACES, st.lists(NAMES, max_size=2).map(tuple), max_size=2),
    fields=st.text(max_size=8),
).map(sound_progress)


@given(PROGRESS)
def test_progress_survives_json(progress: Progress) -> None:
    """Through the text that is written to storage."""
    assert Progress.from_json(json.loads(json.dumps(progress.to_json()))) == progress
