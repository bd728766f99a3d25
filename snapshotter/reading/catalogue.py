"""The server's catalogue within the captured scope: what a request may name, and what an initial load reads.

Always asked of the server, never remembered: a regular expression matches right after a cold start too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

import structlog
from bson.errors import BSONError
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from signals.actions import Action, ExecuteSnapshot, SnapshotType, Write, to_json
from signals.errors import SignalError
from signals.matching.selection import expand, is_expression, matches_name, named_collection, unmatched
from signals.parsing.filters import EVERYTHING, query_document, refuse_code
from snapshotter.core.values.requests import Origin, SnapshotRequest, Wanted
from snapshotter.reading.document_bounds import bounds_of, key_range
from snapshotter.reading.range_find import any_order, out_of_order
from snapshotter.reading.ranges import is_simple_collation
from streaming.bson.elements import documents_of
from streaming.decode.dead_letters import sort_out
from streaming.fields.document_rules import DocumentRules, document_rules
from streaming.fields.rules import FieldRules
from streaming.fields.server import projection
from streaming.layout import AnyLayout, TablePlan
from streaming.mongo.deployment import average_document_bytes, count_within
from streaming.mongo.errors import classify
from streaming.namespaces import Namespace, listed

_log = structlog.get_logger("snapshotter.catalogue")
_HIDDEN_DATABASES = ("admin", "local", "config")
_SAMPLE_DOCS, _SAMPLE_BYTES = 500, 4 << 20
_NEAR = 3
_SIGNS = frozenset('\\^$()[]{}?*+|"')

Filters = dict[tuple[Namespace, str], str]
"""Filters that were tried, each with the reason why the server refused it; empty where it did not."""


class RequestRefused(SignalError):
    """A signal that is well formed, but asks for what cannot be done; the message says which part."""


class IdReused(RequestRefused):
    """A signal under an id that is remembered, with other content: nobody can say which of the two was meant."""


class ServerAnswers:
    """The server's answers while the signals of one delivery are looked at: each question is asked once. They are not
    kept for longer, since collections come and go."""

    def __init__(self, captured: Callable[[], list[Namespace]]) -> None:
        self._ask = captured
        self._captured: list[Namespace] | None = None
        self.filters: Filters = {}

    @property
    def captured(self) -> list[Namespace]:
        if self._captured is None:
            self._captured = self._ask()
        return self._captured


def captured_collections(client: MongoClient[Any], captures: Callable[[Namespace], bool]) -> list[Namespace]:
    """Ordinary collections (no views, no time series) in the captured scope, by name."""
    return sorted(filter(captures, collections_there(client)))


def collections_there(client: MongoClient[Any]) -> Iterator[Namespace]:
    """All ordinary collections, captured or not. A user who may find needs no other privilege for their names."""
    for database in client.list_database_names():
        if database in _HIDDEN_DATABASES:
            continue
        for info in client[database].list_collections(nameOnly=True, authorizedCollections=True):
            if info["type"] == "collection" and not info["name"].startswith("system."):
                yield Namespace(database, info["name"])


def resolve(
    action: ExecuteSnapshot,
    client: MongoClient[Any],
    captured: Iterable[Namespace],
    *,
    allow_code: bool = False,
    filters: Filters | None = None,
) -> SnapshotRequest:
    """The request that ``action`` means: it reads those of the ``captured`` collections (all that a request may name)
    that the signal selects.

    Every filter is tried on the server first; one that would run code there is refused unless ``allow_code``.
    ``filters`` remembers what the server said. Raises SignalError, mostly RequestRefused: the message is for whoever
    sent the signal.
    """
    names = [str(namespace) for namespace in captured]
    there = frozenset(names)
    chosen = [name for name in _chosen(action, names) if name in there]
    missed = unmatched(action.data_collections, names)
    if not chosen:
        raise RequestRefused(
            f"signal {action.id!r}: {listed(action.data_collections)} is no captured collection. Captured are: "
            f"{listed(names)}. Check collection.include.list and the name; nothing was started."
        )
    if missed:
        _log.warning("patterns match no captured collection", id=action.id, patterns=list(missed))
    wanted = _wanted(action, [Namespace.parse(name) for name in chosen])
    for text in dict.fromkeys(want.filter for want in wanted if want.filter is not None):
        refuse_code(text, allowed=allow_code, where=f"signal {action.id!r}: the filter")
    for want in wanted:
        _try_filter(action.id, client, want, {} if filters is None else filters)
        _try_range(action.id, client, want)
    blocking = action.type is SnapshotType.BLOCKING
    digest = digest_of(action)
    return SnapshotRequest(action.id, wanted, Origin.SIGNAL, action.priority, digest, blocking, missed)


def refuse_wrong_names(patterns: Sequence[str], captured: Iterable[Namespace | str]) -> None:
    """For a sender who can still correct a list, since nothing has been sent. Raises RequestRefused for a list that has
    a plain name of no captured collection (an expression may be about what is still to come), or selects nothing at
    all."""
    names = [str(namespace) for namespace in captured]
    missed = unmatched(patterns, names)
    # What has no sign of an expression was meant for a name, though it may not even be one.
    wrong = [text for text in missed if not is_expression(text)]
    if wrong or len(missed) == len(patterns):
        problems = "; ".join(
            f"{text} is no captured collection{near(text, names)}" for text in wrong or missed
        )
        raise RequestRefused(f"{problems}. Captured are: {listed(names)}")


def near(text: str, names: Sequence[str]) -> str:
    """Those of ``names`` that a misspelt name, or an expression, may have been meant for: in words, or empty."""
    plain = "".join(sign for sign in text if sign not in _SIGNS)
    found = get_close_matches(plain, names, _NEAR)
    return f" (near it: {', '.join(found)})" if found else ""


def _chosen(action: ExecuteSnapshot, names: list[str]) -> tuple[str, ...]:
    """The collections that are named or matched. Ids belong to one collection, which must be named: a pattern will not
    do."""
    if not action.keys and action.range is None:
        return expand(action.data_collections, names)
    named = [named_collection(pattern) for pattern in action.data_collections]
    if len(named) != 1 or named[0] is None:
        raise RequestRefused(
            f"signal {action.id!r}: keys and range have ids of one collection, so data-collections must be the plain "
            f"name of one; got {', '.join(action.data_collections)}"
        )
    return (named[0],)


def _wanted(action: ExecuteSnapshot, namespaces: list[Namespace]) -> tuple[Wanted, ...]:
    where = f"signal {action.id!r}"
    keys = bounds_of(action.keys, where)
    within = key_range(action.range, where) if action.range is not None else None
    try:
        return tuple(
            Wanted(n, _filter_for(action, str(n)), keys, within, action.reconcile, action.write is Write.ALL)
            for n in namespaces
        )
    except ValueError as error:
        raise RequestRefused(f"{where}: {error}") from error


def digest_of(action: Action) -> str:
    """Stands for what a signal says: the same however it came, and whatever collections there are by now."""
    return hashlib.sha256(to_json(action).encode()).hexdigest()[:32]


def _filter_for(action: ExecuteSnapshot, name: str) -> str | None:
    for condition in action.additional_conditions:
        if matches_name(condition.data_collection, name):
            return condition.filter if condition.filter != EVERYTHING else None
    return None


def _try_filter(signal_id: str, client: MongoClient[Any], want: Wanted, filters: Filters) -> None:
    if want.filter is None:
        return
    key = want.namespace, want.filter
    if key not in filters:
        filters[key] = why_refused(client, want.namespace, want.filter)
    if why := filters[key]:
        raise RequestRefused(
            f"signal {signal_id!r}: the filter {want.filter} for {want.namespace} is refused: {why}"
        )


def why_refused(client: MongoClient[Any], namespace: Namespace, text: str) -> str:
    """Why the server refuses the filter ``text`` (Extended JSON); empty where it does not. Raises the driver's error
    where another attempt may succeed."""
    try:
        query = query_document(text)
        find = {"find": namespace.collection, "filter": query}
        # Explained, not run: a filter that matches nothing in a large collection is no bad filter.
        client[namespace.database].command("explain", find, verbosity="queryPlanner")
    except (OperationFailure, BSONError, ValueError, TypeError) as error:
        if classify(error).retriable:
            raise
        message = (error.details or {}).get("errmsg") if isinstance(error, OperationFailure) else None
        return message or str(error) or type(error).__name__
    return ""


def _try_range(signal_id: str, client: MongoClient[Any], want: Wanted) -> None:
    """Refuse a range that ends at a string where a collation orders strings otherwise than tables do: it would miss
    documents."""
    if want.range is None or any_order(want.range) or is_simple_collation(client, want.namespace):
        return
    raise RequestRefused(f"signal {signal_id!r}: {out_of_order(want.namespace)}")


def sample_plan(
    layout: AnyLayout, client: MongoClient[Any], fields: FieldRules, namespace: Namespace
) -> TablePlan:
    """Columns for a table that does not exist yet: what ``layout`` makes of the first and the last documents by
    ``_id`` of the collection ``namespace`` of ``client``, under the rules about its ``fields``. A field that none of
    them has gets its column later."""
    collection = client[namespace.database][namespace.collection]
    plan: TablePlan = layout.least_plan()
    rules = document_rules(fields, namespace)
    # Many, for it takes many values to tell how many digits decimals need; but no more bytes than a worker holds.
    some = count_within(_SAMPLE_DOCS, _SAMPLE_BYTES, average_document_bytes(client, namespace))
    size = {"limit": some, "batch_size": some}
    for direction in (1, -1):
        left_out = None if rules is None else projection(rules.rules)
        cursor = collection.find_raw_batches({}, left_out, sort=[("_id", direction)], **size)
        for raw in cursor:
            for seen in _columns_in(raw, layout, rules):
                plan = plan.joined(seen)
    return plan


def _columns_in(raw: bytes, layout: AnyLayout, rules: DocumentRules | None) -> list[TablePlan]:
    """What documents that lie one behind the other show of columns. Those that cannot be processed show none; who reads
    them says so."""
    documents = documents_of(raw)

    def observed(begin: int, end: int) -> TablePlan:
        some = b"".join(documents[begin:end])
        plan: TablePlan = layout.observe(some if rules is None else rules.documents(some))
        return plan

    return sort_out(len(documents), observed)[0]
