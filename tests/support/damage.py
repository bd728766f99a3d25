"""A proxy at the wire that damages documents on their way from a real server: MongoDB stores none that is damaged, and
a disk or a network that fails is not to be had.

A string in a field called ``damaged`` gets a BSON type that there is not. Lengths stay, so messages can be cut into
documents as ever, and only whoever looks into such a document meets the damage.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.support.wire import proxy_before, receive, shut

FIELD = "damaged"
_SOUND, _BROKEN = b"\x02damaged\0", b"\x20damaged\0"


@contextmanager
def damaging(uri: str) -> Iterator[str]:
    """The address of a proxy before the (only) server of a replica set."""
    with proxy_before(uri, _serve) as port:
        yield f"mongodb://127.0.0.1:{port}/?directConnection=true"


def _serve(client: socket.socket, server: socket.socket) -> None:
    threading.Thread(target=_pump, args=(client, server, False), daemon=True).start()
    _pump(server, client, damages=True)


def _pump(source: socket.socket, target: socket.socket, damages: bool) -> None:
    """Hand on whole messages, until one of the two is closed."""
    with suppress(OSError):
        while (message := receive(source)) is not None:
            target.sendall(message.replace(_SOUND, _BROKEN) if damages else message)
    for end in (source, target):
        shut(end)
