"""What the commits of a batch say of where it began, so that a position can be found again from tables alone.

Batches land one after the other, each in all of its tables before the next. So at the start of the newest batch that
any table records, every table held all up to there: but those of collections that were *unsettled*, because something
of them had still to be read, or did not land.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from snapshotter.core.values.progress import Progress
from snapshotter.core.values.tasks import TaskState
from streaming.namespaces import Namespace
from streaming.positions import ORIGIN, ClusterTime
from streaming.scope.scope import OPTIONS as SCOPE_OPTIONS

NAMES_MAX = 1_000
"""So many unsettled collections are named at most; with more of them a commit says nothing of any."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A batch's ``start``, the number of the ``generation`` that counts it, a digest of what was captured (``scope``),
    and the ``unsettled`` collections; None where these were too many, or the batch began before any position."""

    start: ClusterTime
    generation: int
    scope: str
    unsettled: frozenset[Namespace] | None

    def to_json(self) -> dict[str, Any]:
        """What goes into a commit."""
        names = None if self.unsettled is None else sorted(map(str, self.unsettled))
        return {
            "start": self.start.to_json(),
            "generation": self.generation,
            "scope": self.scope,
            "unsettled": names,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Origin | None:
        """What a commit says; None where it says nothing of this, as those of earlier versions do."""
        if not {"start", "generation", "scope", "unsettled"} <= value.keys():
            return None
        names = value["unsettled"]
        unsettled = None if names is None else frozenset(map(Namespace.parse, names))
        return cls(ClusterTime.from_json(value["start"]), value["generation"], value["scope"], unsettled)


def origin_of(progress: Progress, start: ClusterTime, generation: int, scope: str) -> Origin:
    """The origin of the batch that begins at ``start`` from the state ``progress``. ``generation`` and ``scope`` as in
    `Origin`."""
    unsettled = unsettled_in(progress)
    told = start > ORIGIN and len(unsettled) <= NAMES_MAX
    return Origin(start, generation, scope, unsettled if told else None)


def unsettled_in(progress: Progress) -> frozenset[Namespace]:
    """The collections of which something has still to be read, or does not land."""
    left = {
        task.namespace
        for request in progress.requests
        for task in request.tasks
        if not task.ended or task.state is TaskState.FAILED
    }
    ids = {namespace for namespace, _ in progress.rereads}
    unread = progress.coverage.unread if progress.coverage is not None else frozenset()
    return frozenset(left | ids | unread | progress.suspended.keys())


def scope_digest(options: Mapping[str, str]) -> str:
    """Of what is captured, by the options of the source."""
    given = {name: options[name] for name in sorted(SCOPE_OPTIONS) if name in options}
    return hashlib.sha256(json.dumps(given).encode()).hexdigest()[:16]
