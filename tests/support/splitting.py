"""A server that splits large events, as MongoDB does from 6.0.9 on: a proxy at the wire, before one that does not.

It says that it is of that version, takes the stage ``$changeStreamSplitLargeEvent`` out of pipelines, and sends every
event of such a stream in fragments of two fields each, the batch in two replies: the first ends within an event. Tokens
of fragments but the last lead nowhere, so a reader that went on behind one would fail.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from streaming.source.split_events import SPLITS_FROM
from tests.support.wire import answer, document_of, forwarded, proxy_before, receive, with_document

_STAGE = "$changeStreamSplitLargeEvent"


@dataclass(slots=True)
class _Splitting:
    """By the cursor: what of a batch has not been sent, and the token behind it."""

    rest: dict[int, tuple[list[dict[str, Any]], Any]] = field(default_factory=dict)
    cursors: set[int] = field(default_factory=set)
    fragments: int = 0


@contextmanager
def splitting(uri: str) -> Iterator[tuple[str, _Splitting]]:
    """The address of the proxy before the (only) server of a replica set; and what it has done."""
    state = _Splitting()
    with proxy_before(uri, partial(_serve, state)) as port:
        yield f"mongodb://127.0.0.1:{port}/?directConnection=true", state


def _serve(state: _Splitting, client: socket.socket, server: socket.socket) -> None:
    while (message := receive(client)) is not None:
        command = document_of(message)
        if (kept := state.rest.pop(command.get("getMore", 0), None)) is not None:
            client.sendall(answer(message, _batch(command["getMore"], *kept)))
            continue
        splits = any(_STAGE in stage for stage in command.get("pipeline", []))
        if splits:
            command["pipeline"] = [stage for stage in command["pipeline"] if _STAGE not in stage]
            message = with_document(message, command)
        if (reply := forwarded(server, message)) is None:
            return
        if reply:
            client.sendall(_rewritten(state, command, reply, splits=splits))


def _batch(cursor: int, events: list[dict[str, Any]], token: Any) -> dict[str, Any]:
    found = {"id": cursor, "ns": "admin.$cmd.aggregate", "nextBatch": events, "postBatchResumeToken": token}
    return {"cursor": found, "ok": 1.0}


def _rewritten(state: _Splitting, command: dict[str, Any], reply: bytes, *, splits: bool) -> bytes:
    name = next(iter(command))
    if name.lower() not in ("buildinfo", "aggregate", "getmore"):
        return reply
    said = document_of(reply)
    if name.lower() == "buildinfo":
        return with_document(reply, {**said, "versionArray": [*SPLITS_FROM, 0]})
    cursor = said.get("cursor", {})
    if splits:
        state.cursors.add(cursor["id"])
    batch = "firstBatch" if "firstBatch" in cursor else "nextBatch"
    if (cursor.get("id") or command.get("getMore")) not in state.cursors or not cursor.get(batch):
        return reply
    parts = [part for event in cursor[batch] for part in _fragments(event)]
    state.fragments += len(parts)
    now, later = parts[: len(parts) // 2], parts[len(parts) // 2 :]
    state.rest[cursor["id"]] = later, cursor["postBatchResumeToken"]
    cursor[batch], cursor["postBatchResumeToken"] = now, now[-1]["_id"]
    return with_document(reply, said)


def _fragments(event: dict[str, Any]) -> list[dict[str, Any]]:
    names = [name for name in event if name != "_id"]
    parts = [names[begin : begin + 2] for begin in range(0, len(names), 2)]
    last = len(parts)
    return [
        {
            "_id": event["_id"] if place == last else {"_data": "within an event"},
            "splitEvent": {"fragment": place, "of": last},
            **{name: event[name] for name in part},
        }
        for place, part in enumerate(parts, 1)
    ]
