"""A change of shard key: what it means for a table.

Rows are keyed by the shard key that their collection had when they were read (`streaming.keys.keys`), so after a change
(a collection is sharded, resharded, its shard key refined) a document may have two keys, and its old row is nobody's.
Such a collection is read again with reconcile: what is read has the new keys, and rows under keys of before go. A
table of a version that keyed READs and events apart is one of these, for its state knows no shard key.

By which shard keys the tables are keyed is saved with the progress of a batch, in the same file as the request that
the batch made because of it: neither is there without the other.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping

from snapshotter.core.values.requests import Origin, SnapshotRequest, Wanted
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

ShardKeys = Mapping[Namespace, tuple[str, ...]]
"""The fields besides ``_id`` in the shard key of each collection that has such, sorted."""


def rekeyed(before: ShardKeys, now: ShardKeys) -> frozenset[Namespace]:
    """The collections whose documents have other keys now."""
    return frozenset(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def reading(namespace: Namespace, time: ClusterTime) -> SnapshotRequest:
    """The request that brings a table to new keys; ``time`` is the end of the batch that found them new."""
    wanted = Wanted(namespace, reconcile=True)
    return SnapshotRequest(f"resharded/{time.t}.{time.i}/{namespace}", (wanted,), Origin.RESHARD)
