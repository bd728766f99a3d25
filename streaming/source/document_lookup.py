"""Looking up the full documents of updates, many at a time.

The server's own lookup (``fullDocument: updateLookup``) is one query an event, which costs it more than the
rest of the change stream. Here the events come without documents, and one query for the ids of a few hundred
updates brings them. What is promised is the same: each document as it is at some majority-committed time at or
after its event, and none where it is gone, or its collection is.

- The query reads at or after the end of the range of events, so a node that lags behind is waited for.
- A document is matched by its key, not by the bytes of its id: 1 may have come back as 1.0.
- Bounded memory: how many are asked for at a time follows the size of those that came. Where they prove too large
  together, they are asked for again in smaller parts.

Through mongos an id may stand for several documents, one a shard; there the server looks up.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import stamina
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from streaming.bson.elements import documents_of
from streaming.bson.raw_fields import Element, document_of
from streaming.decode.keys import key_at
from streaming.keys.keys import key_of_document
from streaming.mongo.deployment import connect
from streaming.mongo.errors import classify
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from streaming.source.raw_events import Event, fields_of, string_of

FIRST_IDS = 16
IDS_MAX = 2_000
BYTES_AIM = 8 << 20
BYTES_MAX = 3 * BYTES_AIM
_ATTEMPTS = 7

_ARRAY = 0x04


@dataclass(slots=True)
class _Wanted:
    """Documents to look for: the ids of each collection by key, and which of the events want them."""

    documents: int = 0
    ids: dict[Namespace, dict[str, bytes]] = field(default_factory=dict)
    places: list[tuple[int, Namespace, str]] = field(default_factory=list)

    def add(self, at: int, namespace: Namespace, key: str, document_key: bytes) -> None:
        ids = self.ids.setdefault(namespace, {})
        self.documents += key not in ids
        ids[key] = document_key
        self.places.append((at, namespace, key))


class DocumentLookup:
    """Fills events of ``(.., end]`` with the documents that they lack, read at ``uri``, which must not be a mongos.

    Nothing is asked about collections that ``captures`` refuses, nor for the fields of a collection that
    ``projection`` leaves out. Raises the driver's errors, after some attempts where another may help.
    """

    def __init__(
        self,
        uri: str,
        end: ClusterTime,
        captures: Callable[[Namespace], bool],
        projection: Callable[[Namespace], Mapping[str, int] | None] = lambda _: None,
    ) -> None:
        self._client = connect(uri)
        self._end = Timestamp(end.t, end.i)
        self._captures = captures
        self._projection = projection
        self._places: dict[bytes, Namespace | None] = {}
        self._ids = FIRST_IDS

    def filled(self, events: Sequence[Event]) -> Iterator[list[Event]]:
        """The same events in their order, in lists that each took one query a collection."""
        begun = 0
        wanted = _Wanted()
        for at, event in enumerate(events):
            asked = self._asked(event)
            if asked is not None:
                wanted.add(at - begun, *asked)
            if wanted.documents >= self._ids:
                yield from self._fill(events[begun : at + 1], wanted)
                begun, wanted = at + 1, _Wanted()
        if begun < len(events):
            yield from self._fill(events[begun:], wanted)

    def _asked(self, event: Event) -> tuple[Namespace, str, bytes] | None:
        """Where and by which id to look: for an update that came without its document."""
        operation, _, _, fields = event
        if operation != b"update" or b"fullDocument" in fields:
            return None
        place, document_key = fields[b"ns"], fields[b"documentKey"]
        if place not in self._places:
            names = fields_of(place)
            namespace = Namespace(string_of(names[b"db"]), string_of(names[b"coll"]))
            self._places[place] = namespace if self._captures(namespace) else None
        captured = self._places[place]
        return None if captured is None else (captured, key_of_document(document_key), document_key)

    def _fill(self, events: Sequence[Event], wanted: _Wanted) -> Iterator[list[Event]]:
        found = self._found(wanted)
        if found is None:
            yield from self.filled(events)  # by fewer at a time
            return
        filled = list(events)
        for at, namespace, key in wanted.places:
            document = found[namespace].get(key)
            if document is not None:
                operation, time, size, fields = events[at]
                whole = {**fields, b"fullDocument": document}
                filled[at] = operation, time, size + len(document), whole
        yield filled

    def _found(self, wanted: _Wanted) -> dict[Namespace, dict[str, bytes]] | None:
        """The documents of each collection by key; None if there would be too many bytes of them."""
        found: dict[Namespace, dict[str, bytes]] = {}
        most = BYTES_MAX if wanted.documents > 1 else None
        for namespace, ids in wanted.ids.items():
            for attempt in stamina.retry_context(
                on=lambda error: isinstance(error, PyMongoError) and not classify(error).kind.definite,
                attempts=_ATTEMPTS,
                timeout=None,
            ):
                with attempt:
                    found[namespace] = self._some(namespace, list(ids.values()), most)
            # How many ids the next query may have, by what these were like.
            sizes = [len(document) for documents in found.values() for document in documents.values()]
            if sizes:
                self._ids = max(1, min(BYTES_AIM * len(sizes) // sum(sizes), IDS_MAX))
            if most is not None and sum(sizes) > BYTES_MAX:
                return None
        return found

    def _some(self, namespace: Namespace, ids: Sequence[bytes], most: int | None) -> dict[str, bytes]:
        """Those of these ids; where they have more than ``most`` bytes, not all of them."""
        found: dict[str, bytes] = {}
        size = 0
        with closing(self._documents(namespace, ids)) as documents:
            for key, document in documents:
                found[key] = document
                size += len(document)
                if most is not None and size > most:
                    break
        return found

    def _documents(
        self, namespace: Namespace, ids: Sequence[bytes]
    ) -> Generator[tuple[str, bytes], None, None]:
        collection = self._client[namespace.database].get_collection(
            namespace.collection, read_concern=ReadConcern("majority")
        )
        with self._client.start_session(causal_consistency=True) as session:
            session.advance_operation_time(self._end)
            query = {"_id": _one_of(ids)}
            asked = query, self._projection(namespace)
            with collection.find_raw_batches(*asked, batch_size=len(ids) + 1, session=session) as cursor:
                batches: Iterator[Any] = iter(cursor)
                for batch in batches:
                    yield from _keyed(batch)


def _one_of(document_keys: Sequence[bytes]) -> RawBSONDocument:
    """``{"$in": [...]}`` of the ids in ``{"_id": ...}`` documents, as the bytes they came as."""
    ids = document_of(Element(key[4], b"%d" % at, key[9:-1]) for at, key in enumerate(document_keys))
    return RawBSONDocument(document_of([Element(_ARRAY, b"$in", ids)]))


def _keyed(batch: bytes) -> Iterator[tuple[str, bytes]]:
    """Documents that lie one behind the other, each with the key of its id."""
    return ((key_at(document, 0), document) for document in documents_of(batch))
