"""Collections that are suspended: something is wrong with their tables, so nothing of them lands, and all others go on.

    SUSPENDED --a read of all of it, with reconcile, begins--> RESTORING --it is done--> not suspended
        ^---------------------it fails, or is stopped----------------'

A suspension is part of progress, so it is durable with the first batch whose events it leaves out. Whatever restores
the collection was asked for afterwards: somebody has to look first, and a plain read would leave rows of deleted
documents behind. Events land again from the batch in which the restoring read begins, and what was left out before is
in the read. All other requests wait until it is done.

Pure: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from snapshotter.core.values.requests import Origin, SnapshotRequest, Wanted
from snapshotter.core.values.tasks import TaskProgress
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

_REPAIR = "repair"
_OF_REPAIR = re.compile(rf"{_REPAIR}/(\d+)\.(\d+)/")


@dataclass(frozen=True, slots=True)
class Suspension:
    """Why, what to do about it, and ``since`` which position nothing lands. ``waiting``: the requests that were there
    already. ``restored_by``: the request whose read of the collection has begun."""

    cause: str
    error: str
    next_step: str
    since: ClusterTime
    waiting: frozenset[str] = frozenset()
    restored_by: str | None = None

    @property
    def lands(self) -> bool:
        """Whether events land again."""
        return self.restored_by is not None

    def restores(self, request_id: str, task: TaskProgress) -> bool:
        """Whether this request's task may go on: it is what restores the collection, or may become that."""
        if self.restored_by is not None:
            return request_id == self.restored_by
        return task.restores and request_id not in self.waiting

    def given_up(self, at: ClusterTime) -> Suspension:
        """The read that was to restore the collection has not come to its end."""
        waiting = self.waiting if self.restored_by is None else self.waiting | {self.restored_by}
        return replace(self, since=at, waiting=waiting, restored_by=None)

    def to_json(self) -> dict[str, Any]:
        return {
            "cause": self.cause,
            "error": self.error,
            "next_step": self.next_step,
            "since": self.since.to_json(),
            "waiting": sorted(self.waiting),
            "restored_by": self.restored_by,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Suspension:
        fields = dict(value)
        fields["since"] = ClusterTime.from_json(value["since"])
        fields["waiting"] = frozenset(value["waiting"])
        return cls(**fields)


class TableUnusable(Exception):
    """A collection's table cannot be landed in, and trying again would not help: the collection is suspended.

    ``cause`` is a name for programs; ``error`` and ``next_step`` are sentences for operators, the first without the
    collection's name. ``repairable``: the table was altered, and reading the collection again cures it.
    """

    def __init__(
        self, namespace: Namespace, cause: str, error: str, next_step: str, *, repairable: bool = False
    ) -> None:
        super().__init__(f"{namespace}: {error}")
        self.namespace = namespace
        self.cause = cause
        self.error = error
        self.next_step = next_step
        self.repairable = repairable


def repairing(namespace: Namespace, at: ClusterTime, known: Container[str]) -> SnapshotRequest:
    """The request that restores a collection without an operator. Its id comes from progress alone (``at`` is the
    position there, ``known`` are the ids of its requests), so a replayed batch asks for the same one."""
    ids = (f"{_REPAIR}/{at.t}.{at.i}/{namespace}" + (f"/{n}" if n > 1 else "") for n in count(1))
    wanted = Wanted(namespace, reconcile=True)
    return SnapshotRequest(next(i for i in ids if i not in known), (wanted,), Origin.REPAIR)


def may_be_made(request_id: str, since: ClusterTime) -> bool:
    """Whether a batch behind the position ``since`` may make the request of this id: one of `repairing`, of that
    position or a later one."""
    found = _OF_REPAIR.match(request_id)
    return found is not None and ClusterTime(int(found[1]), int(found[2])) >= since
