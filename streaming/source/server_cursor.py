"""One cursor of one change stream on one server, in raw bytes.

The driver's own change stream decodes every event once to find its token, and drains at two thirds of the
speed. This one sends plain ``aggregate`` and ``getMore`` commands, whose replies stay bytes. It does not
resume and does not interpret; `change_cursor` does.

A cursor lives on one server. Commands to the primary find it again by themselves; where several servers
could answer (several mongos, or a read preference other than primary) a client of its own is pinned to the
first one selected.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.errors import PyMongoError
from pymongo.read_preferences import ReadPreference
from pymongo.server_description import ServerDescription

from streaming.mongo.deployment import connect, new_client
from streaming.positions import ClusterTime

_RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)


@dataclass(frozen=True, slots=True)
class Reply:
    """``token`` is the raw post-batch resume token; a cursor that is not ``alive`` has no more replies."""

    events: list[bytes]
    token: bytes | None
    alive: bool


class ServerCursor:
    """``open`` once, then ``more`` until not alive; ``close`` in the end. Raises the driver's errors.

    ``database`` None watches all of the deployment at ``uri``, and ``collection`` None all of the database.
    """

    def __init__(self, uri: str, database: str | None, collection: str | None) -> None:
        shared = connect(uri)
        # Asked of the shared client: the question itself selects a server, and would pin the other to it.
        self.is_sharded = shared.is_mongos
        self._owned = self.is_sharded or shared.read_preference != ReadPreference.PRIMARY
        self._pin = _Pin()
        self._client = new_client(uri, server_selector=self._pin) if self._owned else shared
        self._database = self._client[database or "admin"]
        self._target: str | int = collection or 1
        self._session = self._client.start_session(causal_consistency=False)
        self._id = 0
        self._collection = ""

    def open(
        self, pipeline: Sequence[Mapping[str, Any]], read_concern: Mapping[str, Any], batch_size: int
    ) -> Reply:
        """Make the cursor, and give its first reply of at most ``batch_size`` events. ``pipeline`` begins with
        ``$changeStream``; ``read_concern`` is a document as the server takes it."""
        cursor = self._command(
            {
                "aggregate": self._target,
                "pipeline": list(pipeline),
                "cursor": {"batchSize": batch_size},
                "readConcern": read_concern,
            }
        )
        self._collection = cursor["ns"].partition(".")[2]
        return self._reply(cursor, cursor["firstBatch"])

    def more(self, batch_size: int, await_ms: int) -> Reply:
        """The next reply, of at most ``batch_size`` events. If there are none now, it waits for ``await_ms`` at
        most."""
        cursor = self._command(
            {
                "getMore": self._id,
                "collection": self._collection,
                "batchSize": batch_size,
                "maxTimeMS": await_ms,
            }
        )
        return self._reply(cursor, cursor["nextBatch"])

    def close(self) -> None:
        """Gives everything back. Errors are of no consequence: the server drops idle cursors by itself."""
        with contextlib.suppress(PyMongoError):
            if self._id:
                self._command({"killCursors": self._collection, "cursors": [self._id]}, key=None)
        with contextlib.suppress(PyMongoError):
            self._session.end_session()
        if self._owned:
            self._pin.release()  # closing ends the sessions at the primary, which has to be selected
            self._client.close()

    def _command(self, command: dict[str, Any], key: str | None = "cursor") -> Any:
        reply = self._database.command(
            command,
            codec_options=_RAW,
            session=self._session,
            read_preference=self._client.read_preference,
        )
        return reply[key] if key else reply

    def _reply(self, cursor: Any, events: list[RawBSONDocument]) -> Reply:
        self._id = int(cursor["id"])
        token = cursor.get("postBatchResumeToken")
        # The driver gives bytes or a view of them; bytes() copies only the latter.
        raw_events = [bytes(event.raw) for event in events]
        return Reply(raw_events, None if token is None else bytes(token.raw), self._id != 0)


def token_time(token: bytes) -> ClusterTime:
    """The time that leads a raw resume token. Only for tokens of the running cursor: see `change_cursor`.

    A token's ``_data`` is hex of a sort key that begins with the type byte of a timestamp (0x82) and its
    eight bytes.
    """
    data = bytes.fromhex(RawBSONDocument(token)["_data"][:18])
    if len(data) != 9 or data[0] != 0x82:
        raise ValueError(f"a resume token that does not begin with a timestamp: {data.hex()}")
    return ClusterTime(*struct.unpack(">II", data[1:]))


class _Pin:
    """A server selector that stays with the server it selected first."""

    def __init__(self) -> None:
        self._address: tuple[str, int | None] | None = None
        self._armed = True

    def __call__(self, servers: list[ServerDescription]) -> list[ServerDescription]:
        if self._armed and self._address is None and servers:
            nearest = min(servers, key=lambda server: server.round_trip_time or 0.0)
            self._address = nearest.address
        return [server for server in servers if self._address in (None, server.address)]

    def release(self) -> None:
        self._address, self._armed = None, False
