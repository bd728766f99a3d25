"""What a micro-batch does to the windows: which it shows, which it closes, which streamed events need not
land.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from snapshotter.core.rules.scan import Scan
from snapshotter.core.values.chunks import Bound, KeyRange
from snapshotter.core.values.effects import Closing, LandBatch, Unreached
from snapshotter.core.values.inputs import BatchArrived
from snapshotter.core.values.limits import Limits
from snapshotter.core.values.namespace_changes import superseded
from snapshotter.core.values.tasks import TaskProgress
from snapshotter.core.values.window import (
    WatermarkHidden,
    WatermarkObservation,
    Window,
    WindowError,
    WindowId,
)
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime


class Failure(NamedTuple):
    """A window that a batch proved unusable; ``definite``: another attempt would meet the same."""

    window: Window
    error: str
    definite: bool


def observe(
    windows: Mapping[WindowId, Window], observations: Iterable[WatermarkObservation], end: ClusterTime
) -> tuple[dict[WindowId, Window], list[Failure]]:
    """Note the watermarks that a batch up to ``end`` showed, and find the windows it proves unusable.

    ``observations`` come in the order of the stream: a high watermark before its low one makes a window unusable.
    Watermarks of other runs, and of windows given up, are orphans: they are passed over. Returns all ``windows`` as
    they are now, those that failed too, and the failures.
    """
    seen = dict(windows)
    failures: dict[WindowId, Failure] = {}
    for observation in observations:
        window = seen.get(observation.window)
        if window is None or window.id in failures:
            continue
        try:
            seen[window.id] = window.observed(observation)
        except WindowError as error:
            failures[window.id] = Failure(window, str(error), definite=False)
    for window in seen.values():
        if window.id in failures or not window.in_stream:
            continue
        try:
            window.check_passed(end)
        except WatermarkHidden as error:
            failures[window.id] = Failure(window, str(error), definite=True)
        except WindowError as error:
            failures[window.id] = Failure(window, str(error), definite=False)
    return seen, list(failures.values())


def closable(
    windows: Mapping[WindowId, Window],
    scans: Mapping[tuple[str, Namespace], Scan],
    end: ClusterTime,
    limits: Limits,
) -> list[Window]:
    """The windows that a batch up to ``end`` may close. In each of the ``scans`` (by request and collection) these are
    an unbroken run from the next chunk to land, up to the rows that ``limits`` allow a commit, but at least one if it
    is ready. Every window of single ids that are read again closes as well."""
    chosen: list[Window] = []
    for (request_id, namespace), scan in scans.items():
        in_order = {
            w.order: w for w in windows.values() if (w.request_id, w.namespace) == (request_id, namespace)
        }
        order, rows = scan.next_close, 0
        while (window := in_order.get(order)) is not None and window.closes_by(end):
            rows += window.rows
            if order > scan.next_close and rows > limits.commit_rows_target:
                break
            chosen.append(window)
            order += 1
    chosen += [w for w in windows.values() if w.request_id is None and w.closes_by(end)]
    return chosen


def unreached(
    tasks: Iterable[TaskProgress],
    reached: Mapping[Namespace, Bound | None],
    landed_upto: Mapping[Namespace, str],
) -> dict[Namespace, Unreached]:
    """The keys of each first load among ``tasks`` whose events need not land, because a window still to be registered
    will read them. ``reached``: how far windows have been registered in this run. ``landed_upto``: up to which key the
    table held rows when the run began; these must follow the stream."""
    found = {}
    for task in tasks:
        if not task.first_load or task.last is None:
            continue
        bound = reached.get(task.namespace)
        passed = [bound.key] if bound is not None else []
        passed += [landed_upto[task.namespace]] if task.namespace in landed_upto else []
        after = max(passed, default=None)
        if after is None or after < task.last.key:
            found[task.namespace] = Unreached(after, task.last.key)
    return found


def plan_landing(
    arrived: BatchArrived,
    windows: Mapping[WindowId, Window],
    closing: Iterable[Window],
    unreached: Mapping[Namespace, Unreached],
    first_loads: Iterable[Namespace],
    landed_upto: Mapping[Namespace, str],
    truncated_at: Mapping[Namespace, ClusterTime],
    suspended: Iterable[Namespace] = (),
) -> LandBatch:
    """Decide what the batch that ``arrived`` lands. ``windows`` are all in flight: for their collections streamed keys
    are kept. ``closing`` and ``unreached`` come from the functions of these names (`closable`, `unreached`);
    ``first_loads`` are the collections with a running one, and ``landed_upto`` is as in `unreached`.
    ``truncated_at``: when collections that windows in flight read were last truncated, in this batch or before.
    Nothing of ``suspended`` collections lands.

    A table that carries the batch already takes no more rows in it (Delta would skip the commit silently), so none of
    its windows close."""
    loading, left_out = frozenset(first_loads), frozenset(suspended)
    return LandBatch(
        batch_id=arrived.batch_id,
        start=arrived.start,
        end=arrived.end,
        closings=tuple(
            Closing(
                w,
                w.low,
                proven_new=w.namespace in loading and _proven_new(w, landed_upto.get(w.namespace)),
                superseded=superseded(w.low, truncated_at.get(w.namespace)),
                reconcile=w.reconcile,
                rewrite=w.rewrite,
            )
            for w in closing
            if w.namespace not in arrived.recorded
        ),
        keep=frozenset(w.namespace for w in windows.values()),
        unreached=dict(unreached),
        truncated={
            namespace: what for namespace, what in arrived.truncated.items() if namespace not in left_out
        },
        left_out=left_out,
    )


def _proven_new(window: Window, landed_upto: str | None) -> bool:
    """In a first load neither events beyond the registered windows land, nor single READs. So a chunk that is read at
    the first attempt meets an empty range, unless an earlier run had reached further (``landed_upto``)."""
    if not window.tries.first or not isinstance(window.target, KeyRange):
        return False
    after = window.target.after
    return landed_upto is None or (after is not None and landed_upto <= after.key)


def without(landing: LandBatch, lost: frozenset[WindowId]) -> LandBatch:
    """The same landing without the windows that were lost, and without those that stood behind one of them in
    a scan.

    Everything else stays as it was, and no window joins: some tables may be committed already. (Nor may the
    unreached ranges shrink: windows registered since have their floor at the end of this very batch.)
    """
    broken: dict[tuple[str, Namespace], int] = {}
    for window in (c.window for c in landing.closings if c.window.id in lost):
        if window.request_id is not None:
            scan = window.request_id, window.namespace
            broken[scan] = min(window.order, broken.get(scan, window.order))
    rest = []
    for closing in landing.closings:
        window = closing.window
        first_broken = broken.get((window.request_id or "", window.namespace))
        if window.id not in lost and (first_broken is None or window.order < first_broken):
            rest.append(closing)
    return replace(landing, closings=tuple(rest))


def leaving_out(landing: LandBatch, namespace: Namespace) -> LandBatch:
    """The same landing without a collection that turned out to be suspended."""
    return replace(
        landing,
        closings=tuple(c for c in landing.closings if c.window.namespace != namespace),
        truncated={name: what for name, what in landing.truncated.items() if name != namespace},
        left_out=landing.left_out | {namespace},
    )


def reached_only(bounds: tuple[Bound, ...], unreached: Unreached | None) -> tuple[Bound, ...]:
    """Ids to read again, less those that a window of a first load will read anyway."""
    return bounds if unreached is None else tuple(b for b in bounds if not unreached.holds(b.key))
