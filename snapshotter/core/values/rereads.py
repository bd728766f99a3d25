"""Ids to be read again by themselves: those whose full document the stream could not give.

They are kept by collection and key, for there may be tens of thousands: whether one is known, or is being read, must
not take a look at each of the others. Windows of single ids read them (`core.scheduler`). Where they are too many for
that (``Limits.rereads_max``) the collection is read, by a request like any other (``reading``): it opens the collection
at or after the end of the batch that asks for it, so it meets every document that was to be read. Only an operator's
stop does not reach it, for nobody else would know these ids any more.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from snapshotter.core.values.chunks import Bound
from snapshotter.core.values.requests import Origin, SnapshotRequest, Wanted
from streaming.keys.keys import is_sharded
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

_NOTHING: Mapping[str, Bound] = {}


@dataclass(frozen=True, slots=True)
class Rereads:
    """Iterates over pairs of collection and id; of each collection in the order in which they came."""

    by_collection: Mapping[Namespace, Mapping[str, Bound]] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self.by_collection.values()))

    def __iter__(self) -> Iterator[tuple[Namespace, Bound]]:
        for namespace, bounds in self.by_collection.items():
            for bound in bounds.values():
                yield namespace, bound

    def of(self, namespace: Namespace) -> Mapping[str, Bound]:
        """The ids of one collection, by their keys."""
        return self.by_collection.get(namespace, _NOTHING)

    def adding(self, namespace: Namespace, bounds: Iterable[Bound]) -> Rereads:
        """With these, each once."""
        known = dict(self.of(namespace))
        for bound in bounds:
            known.setdefault(bound.key, bound)
        return self._with(namespace, known)

    def without(self, namespace: Namespace, keys: frozenset[str]) -> Rereads:
        """Without those of these keys."""
        known = self.of(namespace)
        if known.keys().isdisjoint(keys):
            return self
        return self._with(namespace, {key: bound for key, bound in known.items() if key not in keys})

    def leaving_out(self, namespaces: Container[Namespace]) -> Rereads:
        """Without those of these collections."""
        return Rereads({name: known for name, known in self.by_collection.items() if name not in namespaces})

    def _with(self, namespace: Namespace, bounds: Mapping[str, Bound]) -> Rereads:
        others = {name: known for name, known in self.by_collection.items() if name != namespace}
        return Rereads({**self.by_collection, namespace: bounds} if bounds else others)

    def to_json(self) -> list[dict[str, Any]]:
        return [{"namespace": str(namespace), "bound": bound.to_json()} for namespace, bound in self]

    @classmethod
    def from_json(cls, value: Iterable[Mapping[str, Any]]) -> Rereads:
        found: dict[Namespace, dict[str, Bound]] = {}
        for entry in value:
            bound = Bound.from_json(entry["bound"])
            found.setdefault(Namespace.parse(entry["namespace"]), {})[bound.key] = bound
        return cls(found)


def reading(namespace: Namespace, ids: Iterable[str], time: ClusterTime) -> SnapshotRequest:
    """The request for the whole collection that takes the place of these ``ids``, which are given as keys. ``time`` is
    the end of the batch that makes it: its id comes from that, so a replayed batch makes the same request."""
    wanted = Wanted(namespace, reconcile=any(map(is_sharded, ids)))
    return SnapshotRequest(f"reread/{time.t}.{time.i}/{namespace}", (wanted,), Origin.REREAD)
