"""A proxy at the wire that damages documents on their way from a real server: MongoDB stores none that is damaged, and
a disk or a network that fails is not to be had.

A string in a field called ``damaged`` gets a BSON type that there is not. Lengths stay, so messages can be cut into
documents as ever, and only whoever looks into such a document meets the damage.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pymongo.uri_parser import parse_uri

FIELD = "damaged"
_SOUND, _BROKEN = b"\x02damaged\0", b"\x20damaged\0"
_HEADER = 16


@contextmanager
def damaging(uri: str) -> Iterator[str]:
    """The address of a proxy before the (only) server of a replica set."""
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
                for ends in ((client, server, False), (server, client, True)):
                    threading.Thread(target=_pump, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"mongodb://127.0.0.1:{listener.getsockname()[1]}/?directConnection=true"
    finally:
        for end in open_:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def _pump(source: socket.socket, target: socket.socket, damages: bool) -> None:
    """Hand on whole messages, until one of the two is closed."""
    with suppress(OSError):
        while (header := _exactly(source, _HEADER)) is not None:
            (length,) = struct.unpack_from("<i", header)
            rest = _exactly(source, length - _HEADER)
            if rest is None:
                break
            target.sendall(header + (rest.replace(_SOUND, _BROKEN) if damages else rest))
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _exactly(end: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        more = end.recv(size - len(data))
        if not more:
            return None
        data += more
    return bytes(data)
