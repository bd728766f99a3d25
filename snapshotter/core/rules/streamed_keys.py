"""Keys of streamed events, kept by batch while a window may ask for them.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

Keys = TypeVar("Keys")


@dataclass(slots=True)
class StreamedKeys(Generic[Keys]):
    """What is kept for a batch is opaque here (the engine keeps Arrow tables of key and time). The memory held grows
    with the events streamed while windows are open, never with the collection."""

    _batches: dict[Namespace, dict[int, tuple[ClusterTime, Keys]]] = field(default_factory=dict)

    def keep(self, namespace: Namespace, batch_id: int, end: ClusterTime, keys: Keys) -> None:
        """Keep the ``keys`` of what a batch up to ``end`` streamed of a collection. A batch that is repeated replaces
        what it kept before, by its ``batch_id``."""
        self._batches.setdefault(namespace, {})[batch_id] = (end, keys)

    def truncated(self, namespaces: Iterable[Namespace]) -> None:
        """These collections were truncated: what is kept of them is of rows that are gone. Where READs are appended,
        whatever is kept supersedes them."""
        for namespace in namespaces:
            self._batches.pop(namespace, None)

    def of(self, namespace: Namespace) -> list[Keys]:
        """Everything kept of the collection; the caller compares the times."""
        return [keys for _, keys in self._batches.get(namespace, {}).values()]

    def forget(self, needed: Mapping[Namespace, ClusterTime]) -> None:
        """Drop what no open window can ask for: ``needed`` holds, for each collection with windows, the lowest of their
        floors."""
        for namespace in list(self._batches):
            if namespace not in needed:
                del self._batches[namespace]
                continue
            kept = self._batches[namespace]
            self._batches[namespace] = {
                b: (end, k) for b, (end, k) in kept.items() if end > needed[namespace]
            }
