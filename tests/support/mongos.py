"""A replica set that says it is a sharded cluster: a proxy that speaks MongoDB's wire protocol, before a real server.

No package brings a ``mongos``. What a client can tell of one, this proxy scripts, and everything else is the server's
own answer:

- ``hello`` says ``msg: "isdbgrid"``, and nothing of a replica set;
- ``find`` on ``config.collections`` gives the shard keys that a test has set (`Mongos.shard`);
- the documentKey of a change event has the fields of the shard key before the ``_id``, as the server has them of the
  document *after* the event (a delete: before it), so what the proxy has seen of each document it remembers.

What it cannot show is in docs/ARCHITECTURE.md (Known limits).
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import bson
from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo.uri_parser import parse_uri

_HEADER = struct.Struct("<iiii")
_REPLY = struct.Struct("<iqii")
_OP_REPLY, _OP_QUERY, _OP_MSG = 1, 2004, 2013
_NO_REPLY = 2
_CODEC: CodecOptions[dict[str, Any]] = CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_MS, tz_aware=True
)
_OF_REPLICA_SETS = (
    *("hosts", "passives", "arbiters", "setName", "setVersion", "secondary", "primary", "me", "electionId"),
    *("lastWrite", "topologyVersion", "isreplicaset"),
)


@dataclass(slots=True)
class Mongos:
    """``uri`` is the proxy's. Shard keys are by full names of collections; they may change at any time."""

    uri: str = ""
    _keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _known: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def shard(self, collection: str, *fields: str) -> None:
        """From now on the collection is sharded by these fields (paths with dots)."""
        with self._lock:
            self._keys[collection] = fields

    def catalogue(self, filter_: Mapping[str, Any]) -> list[dict[str, Any]]:
        with self._lock:
            asked = filter_.get("_id")
            return [
                {"_id": name, "key": dict.fromkeys(fields, 1)}
                for name, fields in sorted(self._keys.items())
                if asked in (None, name)
            ]

    def learn(self, name: str, documents: Iterable[Mapping[str, Any]]) -> None:
        """These are there already: no event will show them before it changes them."""
        with self._lock:
            for document in documents:
                self._known.setdefault((name, repr(document["_id"])), dict(document))

    def rewrite(self, event: dict[str, Any]) -> None:
        """Give an event the documentKey that it would have."""
        if "documentKey" not in event or "ns" not in event:
            return
        name = f"{event['ns']['db']}.{event['ns']['coll']}"
        identity = event["documentKey"]["_id"]
        known = (name, repr(identity))
        with self._lock:
            document = self._known.setdefault(known, {"_id": identity})
            if event["operationType"] in ("insert", "replace"):
                document = self._known[known] = dict(event["fullDocument"])
            update = event.get("updateDescription") or {}
            for path, value in update.get("updatedFields", {}).items():
                _set(document, path, value)
            key = {}
            for path in self._keys.get(name, ()):
                if path != "_id" and (value := _at(document, path)) is not None:
                    key[path] = value
        event["documentKey"] = {**key, "_id": identity}


def _at(document: Any, path: str) -> Any:
    for part in path.split("."):
        document = document.get(part) if isinstance(document, dict) else None
    return document


def _set(document: dict[str, Any], path: str, value: Any) -> None:
    *above, last = path.split(".")
    for part in above:
        document = document.setdefault(part, {})
    document[last] = value


@contextmanager
def mongos_before(uri: str) -> Iterator[Mongos]:
    """The proxy before the (only) server of a replica set."""
    upstream = parse_uri(uri)["nodelist"][0]
    mongos = Mongos()
    listener = socket.create_server(("127.0.0.1", 0))
    mongos.uri = f"mongodb://127.0.0.1:{listener.getsockname()[1]}/"
    open_: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(upstream)
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                open_.extend((client, server))
                threading.Thread(target=_serve, args=(mongos, client, server), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield mongos
    finally:
        listener.close()
        for end in open_:
            end.close()


def _serve(mongos: Mongos, client: socket.socket, server: socket.socket) -> None:
    with client, server, suppress(OSError):
        while (message := _receive(client)) is not None:
            command = _command_of(message)
            scripted = _scripted(mongos, command)
            if scripted is not None:
                client.sendall(_answer(message, scripted))
                continue
            server.sendall(message)
            if _silent(message):
                continue
            reply = _receive(server)
            if reply is None:
                return
            client.sendall(_rewritten(mongos, command, reply))


def _receive(end: socket.socket) -> bytes | None:
    header = _exactly(end, _HEADER.size)
    if header is None:
        return None
    rest = _exactly(end, _HEADER.unpack(header)[0] - _HEADER.size)
    return None if rest is None else header + rest


def _exactly(end: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        more = end.recv(size - len(data))
        if not more:
            return None
        data += more
    return bytes(data)


def _body_at(message: bytes) -> int:
    """Where the one document of a message begins that is a command or a reply."""
    kind = _HEADER.unpack_from(message)[3]
    if kind == _OP_MSG:
        assert message[20] == 0, "the driver puts the command first"
        return 21
    if kind == _OP_QUERY:
        return message.index(b"\0", 20) + 1 + 8
    assert kind == _OP_REPLY, f"opcode {kind}"
    return _HEADER.size + _REPLY.size


def _document_at(message: bytes, at: int) -> bytes:
    return message[at : at + struct.unpack_from("<i", message, at)[0]]


def _command_of(message: bytes) -> dict[str, Any]:
    return bson.decode(_document_at(message, _body_at(message)), _CODEC)


def _silent(message: bytes) -> bool:
    return bool(
        _HEADER.unpack_from(message)[3] == _OP_MSG and struct.unpack_from("<I", message, 16)[0] & _NO_REPLY
    )


def _scripted(mongos: Mongos, command: Mapping[str, Any]) -> dict[str, Any] | None:
    if command.get("$db") == "config" and command.get("find") == "collections":
        found = mongos.catalogue(command.get("filter", {}))
        return {"cursor": {"id": bson.Int64(0), "ns": "config.collections", "firstBatch": found}, "ok": 1.0}
    return None


def _answer(message: bytes, document: Mapping[str, Any]) -> bytes:
    body = struct.pack("<IB", 0, 0) + bson.encode(document)
    return _HEADER.pack(_HEADER.size + len(body), 0, _HEADER.unpack_from(message)[1], _OP_MSG) + body


def _rewritten(mongos: Mongos, command: Mapping[str, Any], reply: bytes) -> bytes:
    name = next(iter(command)).lower()
    if name in ("hello", "ismaster"):
        hello = {n: v for n, v in _command_of(reply).items() if n not in _OF_REPLICA_SETS}
        return _with_body(reply, {**hello, "msg": "isdbgrid"})
    if name not in ("aggregate", "getmore"):
        return reply
    answer = _command_of(reply)
    cursor = answer.get("cursor", {})
    events = [e for e in cursor.get("firstBatch", cursor.get("nextBatch", [])) if "operationType" in e]
    for event in events:
        mongos.rewrite(event)
    return _with_body(reply, answer) if events else reply


def _with_body(reply: bytes, document: Mapping[str, Any]) -> bytes:
    at = _body_at(reply)
    old = _document_at(reply, at)
    _, number, to, kind = _HEADER.unpack_from(reply)
    whole = reply[_HEADER.size : at] + bson.encode(document) + reply[at + len(old) :]
    return _HEADER.pack(_HEADER.size + len(whole), number, to, kind) + whole
