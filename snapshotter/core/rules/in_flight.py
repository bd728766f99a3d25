"""The windows in flight of one run.

Invariant: no id is read by two windows at once. Two chunks of a scan are disjoint, so this is about single
ids that are read again (``KeyList``) beside a range: such an id waits while a range that may hold it is in
flight, and where a scan reaches it first, the window of single ids gives way. Otherwise the older of two
READs could land last.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from snapshotter.core.rules.scan import Planned
from snapshotter.core.values.chunks import Bound, KeyList
from snapshotter.core.values.effects import LandBatch
from snapshotter.core.values.namespace_changes import Truncation, still_needed
from snapshotter.core.values.tasks import TaskProgress
from snapshotter.core.values.window import Window, WindowId, WindowState
from streaming.keys.keys import is_sharded
from streaming.namespaces import Namespace
from streaming.positions import ORIGIN, ClusterTime


@dataclass(slots=True)
class InFlight:
    """``floor`` is the end of the newest batch: what streamed up to there was not kept for windows yet to
    come. ``truncated_at``: when collections that windows read were last truncated."""

    run: str
    in_stream: bool
    windows: dict[WindowId, Window] = field(default_factory=dict)
    floor: ClusterTime = ORIGIN
    truncated_at: dict[Namespace, ClusterTime] = field(default_factory=dict)
    _number: int = 0

    def chunk(self, request_id: str, task: TaskProgress, planned: Planned, *, exact: bool = False) -> Window:
        """Register a window for the chunk ``planned`` in the scan of a ``task`` of the request ``request_id``.
        ``exact``: it is read as of one moment, without watermarks in the stream, as a blocking request is."""
        return self._register(
            Window(
                id=self._next_id(),
                request_id=request_id,
                namespace=task.namespace,
                target=planned.target,
                filter=task.filter,
                order=planned.order,
                tries=planned.tries,
                floor=self.floor,
                in_stream=self.in_stream and not exact,
                ordered_keys=task.ordered_keys,
                reconcile=task.reconcile,
                rewrite=task.rewrite,
                exact=exact,
            )
        )

    def single_ids(self, namespace: Namespace, ids: tuple[Bound, ...]) -> Window:
        """Register a window for ids that are read again one by one. An id that several documents may share is read with
        all of them, and rows that are missing at source are deleted: an update of the shard key leaves the old row
        behind."""
        return self._register(
            Window(
                id=self._next_id(),
                request_id=None,
                namespace=namespace,
                target=KeyList(ids),
                filter=None,
                order=0,
                floor=self.floor,
                in_stream=self.in_stream,
                reconcile=any(is_sharded(bound.key) for bound in ids),
            )
        )

    def note_truncated(self, truncated: Mapping[Namespace, Truncation]) -> None:
        """Note that a batch truncated these collections; forget what no window in flight can ask for."""
        floors = ((window.namespace, window.floor) for window in self.windows.values())
        self.truncated_at = still_needed(self.truncated_at, truncated, floors)

    def not_landing(self, landing: LandBatch | None) -> list[Window]:
        """The windows in flight besides those that are being landed: the next ones are read meanwhile."""
        return [w for w in self.windows.values() if landing is None or not landing.closes(w.id)]

    def worth_waiting(self, landing: LandBatch | None, enough: int) -> bool:
        """Whether a batch should wait: windows are being read, and those that are ready make no commit of
        ``enough`` rows. (A commit costs seconds whatever it carries, and a batch of a few events is one.)"""
        waiting = self.not_landing(landing)
        ready = [window for window in waiting if window.state is WindowState.CLOSING]
        return len(ready) < len(waiting) and sum(window.rows for window in ready) < enough

    def of_task(self, request_id: str, namespace: Namespace) -> list[Window]:
        return [w for w in self.windows.values() if (w.request_id, w.namespace) == (request_id, namespace)]

    def reading_ids(self, namespace: Namespace) -> list[Window]:
        """Windows that read single ids of the collection again; they belong to no request."""
        return [w for w in self.windows.values() if w.namespace == namespace and w.request_id is None]

    def others(self, request_id: str, namespace: Namespace) -> bool:
        """Whether windows of another request are in flight in this collection."""
        mine = (None, request_id)
        return any(w.namespace == namespace and w.request_id not in mine for w in self.windows.values())

    def giving_way(self, namespace: Namespace, taken: Callable[[str], bool]) -> list[Window]:
        """Windows of single ids one of which is now ``taken`` by something else."""
        return [
            w
            for w in self.reading_ids(namespace)
            if isinstance(w.target, KeyList) and any(taken(bound.key) for bound in w.target.ids)
        ]

    def only_of(self, request_id: str) -> bool:
        """Whether no window but this request's is in flight."""
        return all(window.request_id == request_id for window in self.windows.values())

    def free_of(self, namespace: Namespace, bounds: Mapping[str, Bound]) -> Iterator[Bound]:
        """Those of the ids, by their keys, that no window in flight may read."""
        mine = [w for w in self.windows.values() if w.namespace == namespace]
        lists = [w.target.keys for w in mine if isinstance(w.target, KeyList) and w.ordered_keys]
        taken = frozenset[str]().union(*lists)
        others = [w for w in mine if not (isinstance(w.target, KeyList) and w.ordered_keys)]
        for key, bound in bounds.items():
            if key not in taken and not any(window.may_read(key) for window in others):
                yield bound

    def _next_id(self) -> WindowId:
        self._number += 1
        return WindowId(self.run, self._number)

    def _register(self, window: Window) -> Window:
        self.windows[window.id] = window
        return window
