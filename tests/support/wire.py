"""A proxy at MongoDB's wire before a real server, for what a server can say and ours never does: each test's stand-in
scripts a little of it, and everything else is the server's own answer.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
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


@contextmanager
def proxy_before(uri: str, serve: Callable[[socket.socket, socket.socket], None]) -> Iterator[int]:
    """The port of a proxy before the (only) server of a replica set. ``serve`` is called with the two ends of each
    connection, the client's and the server's, on a thread of its own; it ends when one of them is closed."""
    upstream = parse_uri(uri)["nodelist"][0]
    listener = socket.create_server(("127.0.0.1", 0))
    open_: list[socket.socket] = [listener]

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(upstream)
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                open_.extend((client, server))
                threading.Thread(target=_served, args=(serve, client, server), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        for end in open_:
            shut(end)
            end.close()


def _served(
    serve: Callable[[socket.socket, socket.socket], None], client: socket.socket, server: socket.socket
) -> None:
    with client, server, suppress(OSError):
        serve(client, server)


def shut(end: socket.socket) -> None:
    """Whoever reads from it, or from the other side of it, meets its end."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


def receive(end: socket.socket) -> bytes | None:
    """The next message; None where the connection has ended."""
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


def forwarded(server: socket.socket, message: bytes) -> bytes | None:
    """What the server replies: nothing where no reply follows, None where the connection has ended."""
    server.sendall(message)
    return b"" if is_silent(message) else receive(server)


def document_of(message: bytes) -> dict[str, Any]:
    """The command, or the reply, that a message is."""
    return bson.decode(_document_at(message, _body_at(message)), _CODEC)


def is_silent(message: bytes) -> bool:
    """Whether no reply follows to this command."""
    return bool(
        _HEADER.unpack_from(message)[3] == _OP_MSG and struct.unpack_from("<I", message, 16)[0] & _NO_REPLY
    )


def answer(message: bytes, document: Mapping[str, Any]) -> bytes:
    """The message that answers this one with a ``document``."""
    body = struct.pack("<IB", 0, 0) + bson.encode(document)
    return _HEADER.pack(_HEADER.size + len(body), 0, _HEADER.unpack_from(message)[1], _OP_MSG) + body


def with_document(message: bytes, document: Mapping[str, Any]) -> bytes:
    """The same message with another command, or reply."""
    at = _body_at(message)
    old = _document_at(message, at)
    _, number, to, kind = _HEADER.unpack_from(message)
    whole = message[_HEADER.size : at] + bson.encode(document) + message[at + len(old) :]
    return _HEADER.pack(_HEADER.size + len(whole), number, to, kind) + whole


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
