"""Names that a command is given, checked where they are given: of collections, of requests, and ids of documents.

The engine would pass over a wrong one and do the rest, and its answer comes when nobody looks any more. A name that is
wrong is an error, and nothing is sent; ``--force`` sends it all the same. An id that no document has may be meant (its
row may have to go), so that is a warning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from snapshotter.cli.common import read_status, say
from snapshotter.errors import ConfigurationError, cause_of

if TYPE_CHECKING:
    from pymongo import MongoClient

    from signals.actions import Action
    from snapshotter.configuration.settings import Settings
    from snapshotter.state.storage import Storage
    from streaming.namespaces import Namespace

NOTHING_SENT = ("nothing was sent", "correct the list, or send it with --force")
_LOOK_MS = 5_000
_SHOWN = 10


def check_names(
    settings: Settings,
    patterns: Sequence[str],
    wrong: tuple[str, str],
    also: Collection[str] = (),
    keys: Sequence[str] = (),
) -> None:
    """Check names of collections in ``patterns``. ``also`` are names that are good although nothing of that name is
    captured now. ``keys`` (Extended JSON) are of the one collection that is named: which of them no document has is
    said. Raises ConfigurationError, which says what did not happen and what to do (``wrong``); without a connection, or
    for a user who may not see what is captured, it only warns that nobody looked."""
    from snapshotter.reading.catalogue import RequestRefused, refuse_wrong_names

    with _looking(settings) as found:
        if found is None:
            return
        client, names = found
        try:
            refuse_wrong_names(patterns, sorted({*map(str, names), *also}))
        except RequestRefused as error:
            raise ConfigurationError(f"{error}; {wrong[0]}", wrong[1]) from error
        _warn_of_keys(client, names, patterns, keys)


@contextmanager
def _looking(settings: Settings) -> Iterator[tuple[MongoClient[Any], list[Namespace]] | None]:
    """A client, and what is captured; None where nobody can look, which is said."""
    from pymongo.errors import PyMongoError

    from snapshotter.engine.privileges import lacking, needed_to_read
    from snapshotter.reading.catalogue import captured_collections
    from streaming.mongo.deployment import check_deployment, new_client
    from streaming.mongo.errors import AccessDeniedError, TransientError
    from streaming.scope.scope import CaptureScope

    scope = CaptureScope.parse(settings.source_options())
    wait = min(settings.mongodb.server_selection_timeout_ms, _LOOK_MS)
    with new_client(settings.connection_uri(), serverSelectionTimeoutMS=wait) as client:
        found, why = None, ""
        try:
            check_deployment(client)
            user, missing = lacking(client, needed_to_read(scope, stream=False))
            if missing:
                why = f"{user} lacks {'; '.join(map(str, missing))}"
            else:
                there = captured_collections(client, scope.captures)
                found = [name for name in there if str(name) != settings.signal_collection]
        except (PyMongoError, TransientError, AccessDeniedError) as error:
            why = cause_of(error)[:200]
        if found is None:
            say(f"warning: nobody looked whether there are such collections: {why}")
        yield None if found is None else (client, found)


def _warn_of_keys(
    client: MongoClient[Any], names: Sequence[Namespace], patterns: Sequence[str], keys: Sequence[str]
) -> None:
    from pymongo.errors import PyMongoError

    from signals.matching.selection import named_collection
    from snapshotter.reading.missing_keys import missing_keys

    named = [n for n in names if str(n) in map(named_collection, patterns)]
    if not keys or len(named) != 1:
        return
    try:
        if text := missing_keys(client, named[0], keys):
            say(f"warning: {text}")
    except PyMongoError as error:
        say(f"warning: nobody looked whether there are such ids: {cause_of(error)[:200]}")


def check_requests(settings: Settings, state: Storage, requests: Sequence[str]) -> None:
    """Check ids of requests against those that the engine knows, and those that wait for it. Raises ConfigurationError
    with the ones that there are."""
    status = read_status(state)
    known = [request.id for request in status.newest_first()] if status is not None else []
    waiting = [] if set(requests) <= {*known} else _sent(settings, state, requests)
    missing = [request for request in dict.fromkeys(requests) if request not in {*known, *waiting}]
    if not missing:
        return
    near = [name for text in missing for name in get_close_matches(text, known, 2)]
    shown = list(dict.fromkeys([*near, *waiting, *known]))
    more = f" and {len(shown) - _SHOWN:,} more" if len(shown) > _SHOWN else ""
    there = f"there are {', '.join(shown[:_SHOWN])}{more}" if shown else "there is none"
    raise ConfigurationError(
        f"there is no request {', '.join(missing)}; {there}; {NOTHING_SENT[0]}", NOTHING_SENT[1]
    )


def check_id(state: Storage, action: Action) -> bool:
    """Whether the engine has handled this very signal, which is said: it would not do so again. Raises
    ConfigurationError where one of its id said something else, for the engine would refuse this one."""
    from snapshotter.reading.catalogue import digest_of
    from snapshotter.state.journal import Journal

    known = Journal(state).digest_of(action.id)
    if known is not None and known != digest_of(action):
        raise ConfigurationError(
            f"another signal with the id {action.id} was handled, and this one says something else; nothing was sent",
            "give it another --id",
        )
    if known is not None:
        say(f"signal {action.id} was handled before, and is carried out once: nothing was sent")
    return known is not None


def _sent(settings: Settings, state: Storage, requests: Sequence[str]) -> list[str]:
    """Ids that the status does not have yet: of signals in the inbox, of requests that were accepted, and those of
    ``requests`` that are in the signal collection."""
    from signals.channels.inbox_channel import InboxChannel
    from snapshotter.state.journal import Journal
    from snapshotter.state.progress_store import ProgressStore

    found = [received.id for received in InboxChannel(state).poll()]
    # In this order: what is taken from the inbox is in the journal by then.
    found += [request.id for request in Journal(state).requests]
    progress = ProgressStore(state).newest()
    found += [request.id for request in progress.requests] if progress is not None else []
    if not (settings.signals_reach_stream and settings.signal_collection):
        return found
    from pymongo.errors import PyMongoError

    from streaming.mongo.deployment import new_client

    database, _, name = settings.signal_collection.partition(".")
    wait = min(settings.mongodb.server_selection_timeout_ms, _LOOK_MS)
    with new_client(settings.connection_uri(), serverSelectionTimeoutMS=wait) as client:
        try:
            there = client[database][name].find({"_id": {"$in": list(requests)}}, {"_id": 1})
            return [*found, *(document["_id"] for document in there)]
        except PyMongoError as error:
            say(f"warning: nobody looked whether the signal collection has them: {cause_of(error)[:200]}")
            return [*found, *requests]
