"""The server's catalogue within the captured scope: what a request may name, and what an initial load reads.

Always asked of the server, never remembered: a regular expression matches right after a cold start too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from bson import json_util
from bson.errors import BSONError
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from signals.actions import ExecuteSnapshot
from signals.errors import SignalError
from signals.selection import expand, matches_name
from snapshotter.core.requests import Origin, SnapshotRequest, Wanted
from streaming.columns import TablePlan
from streaming.decode import observe
from streaming.mongo_errors import classify
from streaming.namespaces import Namespace

_HIDDEN_DATABASES = ("admin", "local", "config")
_SAMPLE_DOCS = 500


class RequestRefused(SignalError):
    """A signal that is well formed, but asks for what cannot be done; the message says which part."""


def captured_collections(client: MongoClient[Any], captures: Callable[[Namespace], bool]) -> list[Namespace]:
    """Ordinary collections (no views, no time series) in the captured scope, by name."""
    found = []
    for database in client.list_database_names():
        if database in _HIDDEN_DATABASES:
            continue
        for info in client[database].list_collections(filter={"type": "collection"}):
            if not info["name"].startswith("system."):
                namespace = Namespace(database, info["name"])
                if captures(namespace):
                    found.append(namespace)
    return sorted(found)


def resolve(
    action: ExecuteSnapshot, client: MongoClient[Any], captured: Iterable[Namespace]
) -> SnapshotRequest:
    """The request that a signal means. Every filter is tried on the server first.

    Raises RequestRefused; the rest of the message is for whoever sent the signal.
    """
    names = [str(namespace) for namespace in captured]
    chosen = expand(action.data_collections, names)
    unknown = [name for name in chosen if name not in names]
    if unknown or not chosen:
        what = ", ".join(unknown or action.data_collections)
        raise RequestRefused(
            f"signal {action.id!r}: {what} is no captured collection. Captured are: {', '.join(names) or 'none'}. "
            f"Check collection.include.list and the name; nothing was started."
        )
    wanted = [Wanted(Namespace.parse(name), _filter_for(action, name)) for name in chosen]
    for want in wanted:
        _try_filter(action.id, client, want)
    return SnapshotRequest(action.id, tuple(wanted), Origin.SIGNAL)


def _filter_for(action: ExecuteSnapshot, name: str) -> str | None:
    for condition in action.additional_conditions:
        if matches_name(condition.data_collection, name):
            return condition.filter
    return None


def _try_filter(signal_id: str, client: MongoClient[Any], want: Wanted) -> None:
    if want.filter is None:
        return
    try:
        query = json_util.loads(want.filter)
        find = {"find": want.namespace.collection, "filter": query}
        # Explained, not run: a filter that matches nothing in a large collection is no bad filter.
        client[want.namespace.database].command("explain", find, verbosity="queryPlanner")
    except (OperationFailure, BSONError, ValueError, TypeError) as error:
        if classify(error).retriable:
            raise
        raise RequestRefused(
            f"signal {signal_id!r}: the filter {want.filter} for {want.namespace} is refused: {error}"
        ) from error


def sample_plan(client: MongoClient[Any], namespace: Namespace) -> TablePlan:
    """Columns for a table that does not exist yet: what the first and the last documents by ``_id`` show."""
    collection = client[namespace.database][namespace.collection]
    plan = TablePlan()
    for direction in (1, -1):
        cursor = collection.find_raw_batches(sort=[("_id", direction)], limit=_SAMPLE_DOCS)
        for raw in cursor:
            plan = plan.merge(observe(raw))
    return plan
