"""What a micro-batch does to the windows: which it shows, which it closes, which streamed events need not land.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from snapshotter.core.chunks import Bound, KeyList, KeyRange
from snapshotter.core.effects import Closing, LandBatch, Unreached
from snapshotter.core.inputs import BatchArrived
from snapshotter.core.limits import Limits
from snapshotter.core.progress import TaskProgress
from snapshotter.core.scan import Scan
from snapshotter.core.window import Sighting, WatermarkHidden, Window, WindowError, WindowId
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime


class Failure(NamedTuple):
    """A window that a batch proved unusable; ``definite``: another attempt would meet the same."""

    window: Window
    error: str
    definite: bool


def sight(
    windows: Mapping[WindowId, Window], sightings: Iterable[Sighting], end: ClusterTime
) -> tuple[dict[WindowId, Window], list[Failure]]:
    """Note the watermarks that a batch up to ``end`` showed, and find the windows it proves unusable.

    Watermarks of other runs, and of windows given up, are orphans: they are passed over.
    """
    seen = dict(windows)
    failures: dict[WindowId, Failure] = {}
    for sighting in sightings:
        window = seen.get(sighting.window)
        if window is None or window.id in failures:
            continue
        try:
            seen[window.id] = window.sighted(sighting)
        except WindowError as error:
            failures[window.id] = Failure(window, str(error), definite=False)
    for window in seen.values():
        if window.id in failures or not window.in_stream:
            continue
        try:
            window.check_passed(end)
            window.closes_by(end)
        except WatermarkHidden as error:
            failures[window.id] = Failure(window, str(error), definite=True)
        except WindowError as error:
            failures[window.id] = Failure(window, str(error), definite=False)
    return seen, list(failures.values())


def closings(
    windows: Mapping[WindowId, Window],
    scans: Mapping[tuple[str, Namespace], Scan],
    arrived: BatchArrived,
    limits: Limits,
) -> list[Window]:
    """The windows that this batch closes: of each scan an unbroken run from the next chunk to land on.

    A collection whose table already carries this batch takes no more rows in it. READs of single ids never close
    beside those of a range of the same collection, so that no key has two READs in one commit.
    """
    ranged: set[Namespace] = set()
    chosen: list[Window] = []
    rows = 0
    for (request_id, namespace), scan in scans.items():
        in_order = {
            w.order: w for w in windows.values() if (w.request_id, w.namespace) == (request_id, namespace)
        }
        order = scan.next_close
        while namespace not in arrived.recorded and (window := in_order.get(order)) is not None:
            if not window.closes_by(arrived.end) or (
                chosen and rows + window.rows > limits.commit_rows_target
            ):
                break
            chosen.append(window)
            ranged.add(namespace)
            rows += window.rows
            order += 1
    for window in windows.values():
        free = window.namespace not in ranged and window.namespace not in arrived.recorded
        if isinstance(window.target, KeyList) and free and window.closes_by(arrived.end):
            chosen.append(window)
    return chosen


def plan_landing(
    windows: Mapping[WindowId, Window],
    scans: Mapping[tuple[str, Namespace], Scan],
    tasks: Iterable[TaskProgress],
    arrived: BatchArrived,
    limits: Limits,
    *,
    suspects: frozenset[WindowId],
    landed_upto: Mapping[Namespace, str],
    reached: Mapping[Namespace, Bound | None],
) -> LandBatch:
    """Decide what batch ``arrived`` lands. ``tasks`` are the active ones; ``reached`` tells of each first load how far
    windows have been registered; ``suspects`` are windows into whose range an id may have landed already."""
    first_loads = {t.namespace: t for t in tasks if t.first_load and not t.ended}
    unreached = {}
    for namespace, task in first_loads.items():
        upto = reached.get(namespace)
        if task.last is not None and (upto is None or upto.key < task.last.key):
            unreached[namespace] = Unreached(upto.key if upto else None, task.last.key)
    return LandBatch(
        batch_id=arrived.batch_id,
        start=arrived.start,
        end=arrived.end,
        closings=tuple(
            Closing(w, w.low, _proven_new(w, first_loads, suspects, landed_upto))
            for w in closings(windows, scans, arrived, limits)
        ),
        keep=frozenset(w.namespace for w in windows.values()),
        unreached=unreached,
    )


def _proven_new(
    window: Window,
    first_loads: Mapping[Namespace, TaskProgress],
    suspects: frozenset[WindowId],
    landed_upto: Mapping[Namespace, str],
) -> bool:
    """In a first load, events beyond the registered windows do not land, so a chunk read at the first attempt meets
    an empty range, unless an earlier run of the engine had reached further (``landed_upto``)."""
    if window.namespace not in first_loads or window.attempt > 1 or window.id in suspects:
        return False
    if not isinstance(window.target, KeyRange):
        return False
    highest = landed_upto.get(window.namespace)
    after = window.target.after
    return highest is None or (after is not None and highest <= after.key)


def suspected_by(
    windows: Iterable[Window], incomplete: Mapping[Namespace, tuple[Bound, ...]]
) -> set[WindowId]:
    """Windows whose range holds an id that will be read, and may land, by itself."""
    return {
        w.id for w in windows if any(w.target.holds(bound.key) for bound in incomplete.get(w.namespace, ()))
    }


def reached_only(bounds: tuple[Bound, ...], unreached: Unreached | None) -> tuple[Bound, ...]:
    """Ids to read again, less those that a window of a first load will read anyway."""
    if unreached is None:
        return bounds
    return tuple(
        b for b in bounds if b.key > unreached.upto or (unreached.after and b.key <= unreached.after)
    )
