"""What identifies a document in a sharded collection: the fields of its shard key besides `_id`.

`_id` is unique on each shard, not over all of them, unless it is the shard key itself. So the server's documentKey
has the fields of the shard key as well, and so has our key (`streaming.keys.keys.sharded_key`). A shard key is here the
names of these fields, sorted; () where `_id` is all there is, which is every collection of a replica set.

They are asked of `config.collections`, through mongos; a replica set is not asked at all. Whoever reads documents asks
anew each time: a shard key may change (reshardCollection, refineCollectionShardKey), and a collection may be sharded
at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pymongo import MongoClient
from pymongo.read_concern import ReadConcern

from streaming.bson.raw_fields import elements, string_bytes
from streaming.namespaces import Namespace

ShardKey = tuple[str, ...]
CATALOGUE = Namespace("config", "collections")
_ID = "_id"


def shard_keys(client: MongoClient[Any]) -> dict[Namespace, ShardKey]:
    """The collections with more than `_id` in their shard key. Raises the driver's errors."""
    return _found(client, {}) if _through_mongos(client) else {}


def shard_key_of(client: MongoClient[Any], namespace: Namespace) -> ShardKey:
    """The fields of this collection's shard key besides `_id`. Raises the driver's errors."""
    if not _through_mongos(client):
        return ()
    return _found(client, {_ID: str(namespace)}).get(namespace, ())


def _through_mongos(client: MongoClient[Any]) -> bool:
    """Of a replica set that is known it is not asked anew: the question selects a primary, which may be away."""
    known: str = client.topology_description.topology_type_name
    return not known.startswith("ReplicaSet") and client.is_mongos


def _found(client: MongoClient[Any], which: Mapping[str, Any]) -> dict[Namespace, ShardKey]:
    catalogue = client[CATALOGUE.database].get_collection(
        CATALOGUE.collection, read_concern=ReadConcern("majority")
    )
    found = {}
    for entry in catalogue.find({**which, "dropped": {"$ne": True}}, {"key": 1}):
        key = tuple(sorted(name for name in entry.get("key", {}) if name != _ID))
        if key:
            found[Namespace.parse(entry[_ID])] = key
    return found


def touches(update: bytes, names: Iterable[bytes]) -> bool:
    """Whether an event's updateDescription changes one of these fields, or a part of it, or what it is a part of."""
    changed: list[bytes] = []
    for _, field, payload in elements(update):
        if field == b"updatedFields":
            changed += [name for _, name, _ in elements(payload)]
        elif field == b"removedFields":
            changed += [string_bytes(text) for _, _, text in elements(payload)]
    return any(_overlap(path, name) for path in changed for name in names)


def _overlap(path: bytes, name: bytes) -> bool:
    return path == name or path.startswith(name + b".") or name.startswith(path + b".")
