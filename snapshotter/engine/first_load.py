"""The initial load: whether a start of the engine reads everything captured, and as which request.

It is a request like any other. So one that was cut short goes on by itself, and only a mode that wants another one
gets another one (`snapshot_modes`). After a position was lost it also reconciles: what was deleted while nobody
looked has no event any more, and its row goes because the source has no document for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count

import structlog

from snapshotter.core.progress import Progress
from snapshotter.core.requests import Origin, SnapshotRequest, Wanted
from snapshotter.engine_config import EngineConfig
from snapshotter.state.generation import Generation
from snapshotter.state.journal import Journal
from streaming.namespaces import Namespace

_log = structlog.get_logger("snapshotter.initial")
NAME = "initial"


@dataclass(slots=True)
class FirstLoad:
    """Asked at the beginning of each run of one start of the engine. ``tables``: the collections that have a table;
    ``skipped`` is called where a start reads nothing."""

    config: EngineConfig
    journal: Journal
    captured: Callable[[], list[Namespace]]
    tables: Callable[[], list[Namespace]]
    skipped: Callable[[], None]
    _asked: bool = False

    def requests(self, progress: Progress, generation: Generation) -> list[SnapshotRequest]:
        """The load that begins here, if one does. Durable when this returns, or (where no batch has been saved yet)
        asked for again by the next start."""
        fresh = progress.batch_id < 0
        if self._asked and not fresh:
            return []
        self._asked = True
        if not self.wanted(progress, generation):
            if not self._loading(progress):
                self.skipped()
            return []
        load = self._load(progress, lost=_lost(progress, generation))
        if load is None:
            return []
        if not fresh:
            self.journal.add(load)
        return [load]

    def wanted(self, progress: Progress, generation: Generation) -> bool:
        """Whether this start reads, and does not only go on reading."""
        exists, loading = progress.batch_id >= 0, self._loading(progress)
        return _lost(progress, generation) or self.config.policy.should_snapshot_data(exists, loading)

    def _loading(self, progress: Progress) -> bool:
        return any(r.origin is Origin.INITIAL and not r.ended for r in self.journal.existing(progress))

    def _load(self, progress: Progress, *, lost: bool) -> SnapshotRequest | None:
        there = self.captured()
        gone = [n for n in self.tables() if n not in there] if lost else []
        wanted = tuple(self._collections([*there, *gone], lost=lost))
        return SnapshotRequest(self._id(progress), wanted, Origin.INITIAL) if wanted else None

    def _collections(self, namespaces: Iterable[Namespace], *, lost: bool) -> Iterable[Wanted]:
        for namespace in namespaces:
            if self.config.loads_initially(namespace):
                query = self.config.initial_filters.get(str(namespace))
                if lost and query is not None:
                    _log.warning(
                        "a filter leaves documents out, so rows that were deleted meanwhile cannot be told and stay",
                        collection=str(namespace),
                    )
                yield Wanted(namespace, query, reconcile=lost and query is None)

    def _id(self, progress: Progress) -> str:
        """One that no request has, nor a signal that is remembered."""
        known = {r.id for r in self.journal.existing(progress)}
        names = (NAME if n == 1 else f"{NAME}-{n}" for n in count(1))
        return next(name for name in names if name not in known and self.journal.digest_of(name) is None)


def _lost(progress: Progress, generation: Generation) -> bool:
    """The position was lost, and nothing has been streamed from the new one yet: all is read, whatever the mode says of
    a start."""
    return generation.number > 1 and progress.batch_id < 0
