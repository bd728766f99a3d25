"""What there is at MongoDB that a configuration may capture, with what of each collection matters to an engine.

One question for each database, and a few for each collection: two ids, how many documents, how large they are on
average. No document is read. What this user may not ask stays unknown, and is told by the privilege that it takes
(`Seen.refused`): the rest is looked at all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from bson.raw_bson import DEFAULT_RAW_BSON_OPTIONS
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from snapshotter.doctor.facts import CollectionFacts, Ids, Kind
from snapshotter.engine.privileges import Privilege
from snapshotter.reading.ranges import bound_of, collation_proof
from snapshotter.reading.stored_images import OPTION as IMAGES
from snapshotter.reading.stored_images import command_for
from streaming.bson import elements
from streaming.keys.keys import UnkeyableId
from streaming.mongo.deployment import average_document_bytes
from streaming.mongo.errors import classify
from streaming.mongo.server_codes import Kind as ErrorKind
from streaming.namespaces import Namespace
from streaming.scope.scope import INTERNAL_DATABASES, CaptureScope

_T = TypeVar("_T")
_TYPE_AT = 4
_OTHER = "another type"
_TYPES = {
    elements.DOUBLE: "number",
    elements.STRING: "string",
    elements.DOCUMENT: "object",
    elements.BINARY: "binData",
    elements.OBJECT_ID: "objectId",
    elements.BOOL: "bool",
    elements.DATE: "date",
    elements.NULL: "null",
    elements.SYMBOL: "string",
    elements.INT32: "number",
    elements.TIMESTAMP: "timestamp",
    elements.INT64: "number",
    elements.DECIMAL: "number",
    elements.MAX_KEY: "maxKey",
    elements.MIN_KEY: "minKey",
}
"""By BSON's tags. Numbers are of one type to an order of ids, and so are strings and symbols."""


@dataclass(slots=True)
class Seen:
    """The ``collections`` that were found, and the privileges that were wanting (``refused``)."""

    collections: list[CollectionFacts] = field(default_factory=list)
    refused: list[Privilege] = field(default_factory=list)

    def ask(self, privilege: Privilege, question: Callable[[], _T]) -> _T | None:
        """The answer to a ``question``; None where the server refuses it for want of the ``privilege``. Raises the
        driver's other errors."""
        try:
            return question()
        except OperationFailure as error:
            if classify(error).kind is not ErrorKind.PERMISSION:
                raise
            self.refused.append(privilege)
            return None


def look(client: MongoClient[Any], scope: CaptureScope, *, within: bool = True) -> Seen:
    """What the ``scope`` captures, by name, and the views and time-series collections that it would; ids and sizes only
    of collections, and only ``within``. The signal collection is no data, and left out. Raises the driver's errors."""
    seen, named = Seen(), _named(scope)
    for database in client.list_database_names():
        if database in INTERNAL_DATABASES or not _may_watch(scope, database):
            continue
        for info in _listed(client, database, seen):
            namespace = Namespace(database, info["name"])
            if namespace == scope.signals or not scope.captures(namespace):
                continue
            facts = _facts(namespace, info, listed=str(namespace) in named)
            if within and facts.kind is Kind.COLLECTION:
                facts = _measured(client, facts, seen)
            seen.collections.append(facts)
    seen.collections.sort(key=lambda one: one.namespace)
    return seen


def _named(scope: CaptureScope) -> set[str]:
    """The entries of an include list, read as names: a dot of a name is mostly written with a backslash before it."""
    entries = scope.collections.entries if scope.collections and not scope.collections.excludes else ()
    return {entry.replace("\\", "") for entry in entries}


def _may_watch(scope: CaptureScope, database: str) -> bool:
    return scope.database in (None, database)


def _listed(client: MongoClient[Any], database: str, seen: Seen) -> Iterator[Mapping[str, Any]]:
    """What is in a database, with its options; by name and kind alone where this user may not see more."""
    wanted = Privilege("listCollections", database, "", "looking at the collections of a database")
    found = seen.ask(wanted, lambda: list(client[database].list_collections()))
    if found is None:
        found = list(client[database].list_collections(nameOnly=True, authorizedCollections=True))
    yield from found


def _facts(namespace: Namespace, info: Mapping[str, Any], *, listed: bool) -> CollectionFacts:
    options: Mapping[str, Any] = info.get("options", {})
    based = options.get("viewOn")
    return CollectionFacts(
        namespace,
        Kind(info["type"]),
        listed,
        capped=bool(options.get("capped")),
        clustered=bool(options.get("clusteredIndex")),
        collation=_collation(options.get("collation", {})),
        images=bool(options.get(IMAGES, {}).get("enabled", False)),
        switch_on=command_for(namespace),
        based_on=str(Namespace(namespace.database, based)) if based else None,
    )


def _collation(options: Mapping[str, Any]) -> str | None:
    locale = options.get("locale", "simple")
    return None if locale == "simple" else f"{locale} (strength {options.get('strength', 3)})"


def _measured(client: MongoClient[Any], facts: CollectionFacts, seen: Seen) -> CollectionFacts:
    namespace = facts.namespace
    wanted = Privilege("find", namespace.database, namespace.collection, "looking at the ids of a collection")
    found = seen.ask(wanted, lambda: (_count(client, namespace), _ids(client, facts)))
    if found is None:
        return facts
    documents, ids = found
    average = average_document_bytes(client, namespace)
    known = documents * average if average or not documents else None
    return replace(facts, ids=ids, documents=documents, bytes=known)


def _count(client: MongoClient[Any], namespace: Namespace) -> int:
    return int(client[namespace.database][namespace.collection].estimated_document_count())


def _ids(client: MongoClient[Any], facts: CollectionFacts) -> Ids | None:
    """Of its first and last document; None where there is none, or their bytes are damaged."""
    namespace = facts.namespace
    collection = client[namespace.database].get_collection(namespace.collection, DEFAULT_RAW_BSON_OPTIONS)
    ends = [
        collection.find_one({}, {"_id": 1}, sort=[("_id", order)], hint=[("_id", 1)]) for order in (1, -1)
    ]
    raws = [bytes(end.raw) for end in ends if end is not None]
    if not raws:
        return None
    first, last = (_TYPES.get(raw[_TYPE_AT], _OTHER) for raw in (raws[0], raws[-1]))
    try:
        splits = facts.collation is None or collation_proof(bound_of(raws[-1]))
    except UnkeyableId:
        return None
    return Ids(first, last, splits)
