"""Drops and renames of whole collections: what they mean for the tables.

MongoDB sends no deletes for the documents of a collection that is dropped, renamed away, or replaced by a rename, and
no inserts for those that a rename brings. So a change of a namespace stands for them:

- every namespace that it takes documents from is *truncated* at that point of the stream: of its table, whatever came
  before goes, and what follows in the same batch stays;
- a READ of a window whose low watermark lies before that point says nothing any more (`superseded`): it may have been
  taken before or after it, and all that was written after it streams, or is read by the next rule;
- a namespace that a rename fills is *read again*, by a request whose id comes from the stream alone. It is accepted
  with the batch and saved with its progress, so a replay of the batch asks for the same request, which runs once.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from snapshotter.core.values.requests import Origin, SnapshotRequest, Wanted
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime


@dataclass(frozen=True, slots=True)
class NamespaceChange:
    """A drop of ``namespace``, or its rename to ``renamed_to``; ``ord`` is its place in the batch."""

    namespace: Namespace
    time: ClusterTime
    ord: int
    renamed_to: Namespace | None = None


@dataclass(frozen=True, slots=True)
class Truncation:
    """Where in the stream a collection last lost all of its documents at once."""

    time: ClusterTime
    ord: int


@dataclass(frozen=True, slots=True)
class ResolvedChanges:
    """What the changes of a batch come to: the tables to empty, and the collections to read again."""

    truncated: Mapping[Namespace, Truncation] = field(default_factory=dict)
    requests: tuple[SnapshotRequest, ...] = ()


def resolve(changes: Iterable[NamespaceChange], captured: Callable[[Namespace], bool]) -> ResolvedChanges:
    """The last change of each captured namespace counts: one that was filled and then dropped is not read."""
    truncated: dict[Namespace, Truncation] = {}
    filled: dict[Namespace, ClusterTime] = {}
    for change in sorted(changes, key=lambda change: change.ord):
        for namespace in filter(None, (change.namespace, change.renamed_to)):
            if captured(namespace):
                truncated[namespace] = Truncation(change.time, change.ord)
                filled.pop(namespace, None)
        if change.renamed_to is not None and captured(change.renamed_to):
            filled[change.renamed_to] = change.time
    return ResolvedChanges(
        truncated, tuple(_reading(namespace, time) for namespace, time in sorted(filled.items()))
    )


def superseded(low: ClusterTime, truncated_at: ClusterTime | None) -> bool:
    """Whether READs of a window with this effective low watermark may show what went when the collection was truncated.

    At the same time they do not: readers see a state at or after the low watermark.
    """
    return truncated_at is not None and low < truncated_at


def still_needed(
    known: Mapping[Namespace, ClusterTime],
    truncated: Mapping[Namespace, Truncation],
    floors: Iterable[tuple[Namespace, ClusterTime]],
) -> dict[Namespace, ClusterTime]:
    """When collections were last truncated, as far as a window in flight may ask. ``known`` is what this returned for
    the batch before, ``truncated`` is of this batch, and ``floors`` are the windows', each with its collection.

    A window that is registered later has its floor, and so its low watermark, at or after the end of this batch. That
    is also why nothing of this has to survive a restart, which gives up all windows.
    """
    latest = {**known, **{namespace: what.time for namespace, what in truncated.items()}}
    needed = {namespace for namespace, floor in floors if superseded(floor, latest.get(namespace))}
    return {namespace: time for namespace, time in latest.items() if namespace in needed}


def _reading(namespace: Namespace, time: ClusterTime) -> SnapshotRequest:
    return SnapshotRequest(f"renamed/{time.t}.{time.i}/{namespace}", (Wanted(namespace),), Origin.RENAME)
