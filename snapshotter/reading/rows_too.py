"""The documents of rows that a table has, read beside those that a filter matches.

A filter proves nothing of what it leaves out: a row of before may stand for a document that is gone, or that has
changed and is not matched (any more). So the ids of the whole range are gone through, by the index; those that have a
row, and were not read already, are asked for. A key that is not among the ids has no document.

All of it is read within the same window, so what changes between the two passes has an event that supersedes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from snapshotter.core.values.chunks import Bound, KeyList
from snapshotter.reading.range_find import bound_of
from streaming.bson.elements import documents_of
from streaming.bson.raw_fields import document_of, elements
from streaming.decode.dead_letters import key_in
from streaming.keys.shard_keys import ShardKey

IDS_MAX = 1_000
BYTES_MAX = 1 << 20
"""How many ids, and how many bytes of them, one query asks for."""


def identity(shard_key: ShardKey) -> dict[str, int]:
    """The projection to what the key of a document is made of."""
    return dict.fromkeys(("_id", *shard_key), 1)


def keys_of(raw: bytes, shard_key: ShardKey) -> Iterator[str]:
    """The keys of documents that lie one behind the other in ``raw``, as far as they are known."""
    return (key for _, key in _with_keys(raw, shard_key) if key is not None)


def lists_of(batches: Iterable[bytes], keys: Set[str], shard_key: ShardKey) -> Iterator[KeyList]:
    """The ids of those documents in ``batches`` that have one of the ``keys``, under this ``shard_key``; in lists that
    a query has room for."""
    ids: list[Bound] = []
    size = 0
    for raw in batches:
        for document, key in _with_keys(raw, shard_key):
            if key not in keys:
                continue
            bound = _by_id(document)
            if ids and (len(ids) == IDS_MAX or size + len(bound.id) > BYTES_MAX):
                yield KeyList(tuple(ids))
                ids, size = [], 0
            ids.append(bound)
            size += len(bound.id)
    if ids:
        yield KeyList(tuple(ids))


def only(raw: bytes, keys: Set[str], shard_key: ShardKey) -> bytes:
    """Those of the documents in ``raw`` that have one of the ``keys``, under this ``shard_key``: several documents of a
    sharded collection may share an id."""
    return b"".join(document for document, key in _with_keys(raw, shard_key) if key in keys)


def _with_keys(raw: bytes, shard_key: ShardKey) -> Iterator[tuple[bytes, str | None]]:
    return ((document, key_in(document, shard_key)) for document in documents_of(raw))


def _by_id(document: bytes) -> Bound:
    return bound_of(document_of(element for element in elements(document) if element.name == b"_id"))
