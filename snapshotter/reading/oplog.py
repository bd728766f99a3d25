"""A look at the oplog: how far back it reaches, and how large it is and may be (`snapshotter.position.runway`).

What a user may not ask stays unknown: sizes need ``collStats`` on ``local.oplog.rs``, the least retention
``serverStatus``. A router has no oplog, so there only the times are known.
"""

from __future__ import annotations

from typing import Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure

from snapshotter.position.runway import Oplog
from streaming.mongo.deployment import majority_time, oldest_time
from streaming.mongo.errors import classify
from streaming.mongo.server_codes import Kind


def look(client: MongoClient[Any]) -> Oplog:
    """The oplog now. Raises the driver's errors, also where this user may neither read it nor open a change stream on
    the deployment."""
    oldest, newest = oldest_time(client), majority_time(client)
    if client.is_mongos:
        return Oplog(oldest, newest)
    stats = _asked(client, "local", {"collStats": "oplog.rs"})
    status = _asked(
        client, "admin", {"serverStatus": 1, "repl": 0, "metrics": 0, "wiredTiger": 0, "locks": 0}
    )
    kept = status.get("oplogTruncation", {}).get("oplogMinRetentionHours", 0)
    return Oplog(oldest, newest, _number(stats, "size"), _number(stats, "maxSize"), float(kept))


def _asked(client: MongoClient[Any], database: str, command: dict[str, Any]) -> dict[str, Any]:
    """The answer; empty where this user may not ask."""
    try:
        return dict(client[database].command(command))
    except OperationFailure as error:
        if classify(error).kind is not Kind.PERMISSION:
            raise
        return {}


def _number(answer: dict[str, Any], name: str) -> int | None:
    return int(answer[name]) if name in answer else None
