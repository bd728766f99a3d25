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
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import bson

from tests.support.wire import answer, document_of, forwarded, proxy_before, receive, with_document

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
    mongos = Mongos()
    with proxy_before(uri, partial(_serve, mongos)) as port:
        mongos.uri = f"mongodb://127.0.0.1:{port}/"
        yield mongos


def _serve(mongos: Mongos, client: socket.socket, server: socket.socket) -> None:
    while (message := receive(client)) is not None:
        command = document_of(message)
        scripted = _scripted(mongos, command)
        if scripted is not None:
            client.sendall(answer(message, scripted))
            continue
        if (reply := forwarded(server, message)) is None:
            return
        if reply:
            client.sendall(_rewritten(mongos, command, reply))


def _scripted(mongos: Mongos, command: Mapping[str, Any]) -> dict[str, Any] | None:
    if command.get("$db") == "config" and command.get("find") == "collections":
        found = mongos.catalogue(command.get("filter", {}))
        return {"cursor": {"id": bson.Int64(0), "ns": "config.collections", "firstBatch": found}, "ok": 1.0}
    return None


def _rewritten(mongos: Mongos, command: Mapping[str, Any], reply: bytes) -> bytes:
    name = next(iter(command)).lower()
    if name in ("hello", "ismaster"):
        hello = {n: v for n, v in document_of(reply).items() if n not in _OF_REPLICA_SETS}
        return with_document(reply, {**hello, "msg": "isdbgrid"})
    if name not in ("aggregate", "getmore"):
        return reply
    said = document_of(reply)
    cursor = said.get("cursor", {})
    events = [e for e in cursor.get("firstBatch", cursor.get("nextBatch", [])) if "operationType" in e]
    for event in events:
        mongos.rewrite(event)
    return with_document(reply, said) if events else reply
