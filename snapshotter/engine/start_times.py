"""From where a position is to begin (`snapshotter.position.starts`) to the cluster time behind which the stream begins.

Invariants
- Nothing is lost between what was named and the time that it becomes: a time that is named is read, and what follows a
  resume token is read from the cluster time of the first event behind it, with all that carries this time. (The events
  of one transaction share theirs.)
- A position that the oplog no longer holds, or that lies ahead of it, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymongo import MongoClient

from snapshotter.errors import DefiniteError
from snapshotter.position.starts import Named, Start
from streaming.mongo.deployment import majority_time, oldest_time
from streaming.mongo.errors import PositionLostError
from streaming.positions import ORIGIN, ClusterTime
from streaming.source.change_cursor import ChangeRange, holds
from streaming.source.change_options import ChangeOptions
from streaming.source.server_cursor import token_time

_ELSE = (
    "choose another: --to oldest is the earliest that can be had, and --heal reads what may have been missed"
)


def resolved(start: Start, options: Mapping[str, str], client: MongoClient[Any]) -> ClusterTime:
    """The cluster time behind which all is read where ``start`` says so. ``options`` are those of the source, which say
    what is captured; ``client`` is connected to it. Raises DefiniteError where the oplog does not hold the position,
    and the driver's errors."""
    now = majority_time(client)
    if start.named is Named.NOW:
        return now
    if start.named is Named.OLDEST:
        return oldest_time(client).previous()
    parsed = ChangeOptions.parse(options)
    if start.token is not None:
        position = _behind_token(start.token, parsed, now, sharded=client.is_mongos)
    else:
        assert start.time is not None, "one of the three is set"
        position = start.time.previous() if start.inclusive else start.time
    if position > now:
        raise DefiniteError(
            f"the position {start} lies ahead of the oplog, whose newest entry is of {now}", _ELSE
        )
    if not holds(parsed.uri, parsed.stream.bare(), position):
        raise _lost(start)
    return position


def _behind_token(token: bytes, options: ChangeOptions, now: ClusterTime, *, sharded: bool) -> ClusterTime:
    """The time before the first event behind the token; the present time ``now`` where there is none yet. Through
    mongos (``sharded``) a token may be of another router's or of one shard's stream: its time alone is used."""
    if sharded:
        try:
            return token_time(token).previous()
        except (KeyError, ValueError) as error:
            raise DefiniteError(f"no resume token: {error}", _ELSE) from error
    try:
        for events in ChangeRange(options.uri, options.stream.bare(), ORIGIN, now, after=token):
            return ClusterTime.from_int(events[0][1]).previous()
    except PositionLostError as error:
        raise _lost(Start(token=token)) from error
    return now


def _lost(start: Start) -> DefiniteError:
    return DefiniteError(f"the oplog no longer holds the position {start}", _ELSE)
