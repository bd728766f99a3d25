"""Ranges of `_id`: the queries that read them, and the probes that find their bounds.

`IdProber` walks the `_id` index from one bound to the next: it skips, it does not read, so a chunk's bound
costs its index keys and nothing of its documents (4 M ids a second where ids are of one type). Ids come
back as raw BSON, so every type survives. Bounds that are found are of ids alone, as `bound_of` makes them.

**Collations.** A collection's default collation orders the strings in its ids, and `_key` does not follow
it. A bound without a string in it (`collation_proof`) divides such a collection alike in both orders, so an
ObjectId-keyed collection with a case-insensitive collation is chunked like any other. Where the largest id
holds a string there, `can_split` is false: read it as one range, ``KeyRange(None, None)``, which is exact
under any collation.

Reads are of majority-committed data. A session given to a method (causally consistent, advanced to a
cluster time) makes it see at least that time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from bson.raw_bson import DEFAULT_RAW_BSON_OPTIONS, RawBSONDocument
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.read_concern import ReadConcern

from snapshotter.core.values.chunks import Bound, KeyRange
from snapshotter.reading.range_find import (
    FindArguments,
    Style,
    bound_of,
    collation_proof,
    plain,
    range_find,
    rest_of_bracket,
)
from streaming.namespaces import Namespace

__all__ = [
    "FindArguments",
    "IdProber",
    "Probe",
    "Style",
    "bound_of",
    "collation_proof",
    "is_simple_collation",
    "range_find",
]

Filter = Mapping[str, Any] | None
_BY_ID = [("_id", 1)]


@dataclass(frozen=True, slots=True)
class Probe:
    """The upper ends of the next chunks, ascending; `exhausted` when the last of them is the end of the
    range."""

    bounds: list[Bound]
    exhausted: bool


def is_simple_collation(
    client: MongoClient[Any], namespace: Namespace, session: ClientSession | None = None
) -> bool:
    """Whether the collection compares strings by their bytes, as `_key` does (one that is not there does). ``session``:
    ask at its time or later."""
    found = client[namespace.database].list_collections(session, {"name": namespace.collection})
    return all(
        info.get("options", {}).get("collation", {}).get("locale", "simple") == "simple" for info in found
    )


class IdProber:
    """Finds bounds by walking the `_id` index. Holds no state but the client; safe to share between
    threads."""

    def __init__(self, client: MongoClient[Any]) -> None:
        self._client = client

    def max_bound(
        self,
        namespace: Namespace,
        filter: Filter = None,
        session: ClientSession | None = None,
        within: KeyRange | None = None,
    ) -> Bound | None:
        """The largest id in BSON order among the documents of `filter` (and `within` a range), as seen at the time of
        `session` or later; None when there are none."""
        query = range_find(within or KeyRange(None, None), filter=filter).filter
        found = self._collection(namespace).find_one(
            dict(query), {"_id": 1}, sort=[("_id", -1)], hint=_BY_ID, session=session
        )
        return None if found is None else bound_of(bytes(found.raw))

    def can_split(self, namespace: Namespace, upto: Bound, session: ClientSession | None = None) -> bool:
        """Whether the ids up to `upto` can be cut into ranges; false under some collations (see the module's text).
        `session` is that of `is_simple_collation`."""
        return collation_proof(upto) or is_simple_collation(self._client, namespace, session)

    def next_bounds(
        self,
        namespace: Namespace,
        after: Bound | None,
        upto: Bound,
        chunk_docs: int,
        count: int,
        filter: Filter = None,
        session: ClientSession | None = None,
        *,
        closed: bool = False,
    ) -> Probe:
        """The ends of at most `count` chunks of `chunk_docs` documents each, from `after` (None: the first
        id) on; with `closed`, `after` itself is the first of them.

        With a `filter`, only the documents it matches are counted. The last chunk may hold fewer: it ends
        at `upto`, which need not exist any more. Under a collation, a chunk ends at the next place that is
        safe to cut, and may hold more. Each bound costs one query, which sees the time of `session` or later.
        Raises ValueError where `can_split` is false.
        """
        upto, after = plain(upto), None if after is None else plain(after)
        if chunk_docs < 1 or count < 1:
            raise ValueError(f"chunk_docs and count are at least 1, got {chunk_docs} and {count}")
        any_cut = is_simple_collation(self._client, namespace, session)
        if not (any_cut or collation_proof(upto)):
            raise ValueError(
                f"the collation of {namespace} orders ids otherwise than keys: read it as one range"
            )
        bounds: list[Bound] = []
        while len(bounds) < count:
            within = KeyRange(after, upto, closed)
            found = self._bound_at(namespace, within, chunk_docs, filter, session)
            if found is None or found.key >= upto.key:
                return Probe([*bounds, upto], exhausted=True)
            if any_cut or collation_proof(found):
                bounds.append(found)
            after, closed = found, False
        return Probe(bounds, exhausted=False)

    def sub_bounds(
        self,
        namespace: Namespace,
        target: KeyRange,
        parts: int,
        docs: int | None = None,
        filter: Filter = None,
        session: ClientSession | None = None,
    ) -> list[KeyRange]:
        """`target` cut into at most `parts` ranges of about equal numbers of documents, without a gap or an
        overlap.

        `docs` is the number of documents in `target` where it is known; else they are counted. With a
        `filter`, only those that it matches count. `session` is that of `next_bounds`. A range that is open
        above can't be cut, and comes back whole.
        """
        upto = target.upto
        if parts < 2 or upto is None or not self.can_split(namespace, upto, session):
            return [target]
        if docs is None:
            asked = range_find(target, filter=filter).to_find()
            docs = self._collection(namespace).count_documents(asked["filter"], session, hint=asked["hint"])
        if docs < 2:
            return [target]
        probe = self.next_bounds(namespace, target.after, upto, -(-docs // parts), parts - 1, filter, session)
        cuts = [target.after, *probe.bounds]
        if not probe.exhausted:
            cuts.append(upto)
        return [KeyRange(low, high) for low, high in pairwise(cuts)]

    def _bound_at(
        self,
        namespace: Namespace,
        within: KeyRange,
        place: int,
        filter: Filter,
        session: ClientSession | None,
    ) -> Bound | None:
        """The id at `place` (from 1) of the range; None, or one above it, when there are fewer."""
        for query in _queries(within, filter):
            found = self._collection(namespace).find(
                query, {"_id": 1}, sort=_BY_ID, hint=_BY_ID, skip=place - 1, limit=1, session=session
            )
            for document in found:
                return bound_of(bytes(document.raw))
        return None

    def _collection(self, namespace: Namespace) -> Collection[RawBSONDocument]:
        database = self._client[namespace.database]
        return database.get_collection(
            namespace.collection, DEFAULT_RAW_BSON_OPTIONS, read_concern=ReadConcern("majority")
        )


def _queries(within: KeyRange, filter: Filter) -> Iterator[Mapping[str, Any]]:
    """Queries for the ids of the range, the cheap one first; the last is always exact up to its end.

    The cheap ones need the index alone. They may go on above that end (the caller compares), which is why the
    one without any end is not used with a filter: where few documents match it would walk the whole
    collection. The rest of a bracket lies below an `upto` of another bracket; that it is too short proves
    nothing, so the exact one follows.
    """
    after = within.after
    exact = range_find(within, filter=filter)
    if exact.style == "total":
        if after is None and not filter:
            yield {}
            return
        cheap = None if after is None else rest_of_bracket(after, closed=within.closed)
        if cheap is not None:
            yield {"$and": [cheap, filter]} if filter else cheap
    yield exact.filter
