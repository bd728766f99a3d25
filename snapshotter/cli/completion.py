"""What a shell may complete: names of collections, and ids of requests, of the engine that the line names so far.

A shell waits for this at every press of a key, so it is quick and quiet: it reads what the engine last said, asks
MongoDB for a second at most, and where anything is in the way it completes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from snapshotter.configuration.settings import Settings
    from snapshotter.reporting.status import Status

_WAIT_MS = 1_000


def collection_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of collections that are captured, or that a request has read."""
    return _complete(ctx, incomplete, _collections)


def request_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of requests that the engine knows: those that have not ended before the others, the newest first."""
    return _complete(ctx, incomplete, _requests)


def _complete(
    ctx: typer.Context, incomplete: str, found: Callable[[Settings, Status | None], list[str]]
) -> list[str]:
    from snapshotter.cli.common import load_settings, open_state, read_status

    given = ctx.params.get("config") or os.environ.get("SNAPSHOTTER_CONFIG")
    if not given:
        return []
    try:
        settings = load_settings(Path(given), warn=False)
        names = found(settings, read_status(open_state(settings)))
    except Exception:  # noqa: BLE001 - a message would stand in the middle of what is being typed
        return []
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def _requests(_: Settings, status: Status | None) -> list[str]:
    return [request.id for request in status.newest_first()] if status is not None else []


def _collections(settings: Settings, status: Status | None) -> list[str]:
    from pymongo.errors import PyMongoError

    from snapshotter.reading.catalogue import captured_collections
    from streaming.mongo.deployment import new_client
    from streaming.scope.scope import CaptureScope

    scope = CaptureScope.parse(settings.source_options())
    known = [c.name for r in (status.requests if status is not None else ()) for c in r.collections]
    with new_client(settings.connection_uri(), serverSelectionTimeoutMS=_WAIT_MS) as client:
        try:
            there = map(str, captured_collections(client, scope.captures))
            return sorted({*there, *known} - {str(settings.signal_collection)})
        except PyMongoError:
            return sorted(known)
