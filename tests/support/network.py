"""A network between the nodes of a replica set and everybody else, each other included, that can be cut and slowed.

Each node is known to the set, and so to every client, by the address of a proxy of its own. Cut, the proxy ends its
connections and takes no new one; slowed, each piece of data waits before it is passed on.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from pymongo import MongoClient

from snapshotter.testing.mongod_node import MongoNode
from snapshotter.testing.mongodb import MongoDeployment
from snapshotter.testing.processes import wait_until

_PIECE = 1 << 16


@dataclass(slots=True)
class Link:
    """The proxy before one node. ``delay`` is in seconds."""

    node: MongoNode
    delay: float = 0.0
    _cut: bool = False
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    _ends: set[socket.socket] = field(default_factory=set)
    _waits: threading.Event = field(default_factory=threading.Event)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def start(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._cut = True
        for end in list(self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._cut = False

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    if self._cut:
                        raise ConnectionRefusedError
                    server = socket.create_connection(("127.0.0.1", self.node.port))
                except OSError:
                    client.close()
                    continue
                for end, other in ((client, server), (server, client)):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._ends.add(end)
                    threading.Thread(target=self._pass_on, args=(end, other), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(_PIECE):
                if self.delay:
                    self._waits.wait(self.delay)
                target.sendall(piece)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._ends.discard(source)
        source.close()


@dataclass(slots=True)
class Network:
    """All links. ``uri`` leads through them."""

    links: list[Link]
    uri: str

    def of(self, address: str) -> Link:
        """The link that has this address."""
        return next(link for link in self.links if link.address == address)

    def cut(self) -> None:
        """Nobody reaches any node, and no node another one."""
        for link in self.links:
            link.cut()

    def mend(self) -> None:
        for link in self.links:
            link.mend()

    def slow(self, seconds: float) -> None:
        """Let each piece of data wait so long, in each direction."""
        for link in self.links:
            link.delay = seconds


@contextmanager
def network_of(deployment: MongoDeployment, election_ms: int = 3_000) -> Iterator[Network]:
    """Put proxies before the nodes of a replica set, which has its address changed for good. Whoever does not hear of
    the primary for ``election_ms`` wants to be it."""
    links = [Link(node) for node in deployment.nodes]
    for link in links:
        link.start()
    try:
        with closing(MongoClient[dict[str, Any]](deployment.uri)) as client:
            wait_until(lambda: client.primary, "a primary")
            config = client.admin.command("replSetGetConfig")["config"]
            for member, link in zip(config["members"], links, strict=True):
                member["host"] = link.address
            config["version"] += 1
            config["settings"]["electionTimeoutMillis"] = election_ms
            config["settings"]["heartbeatIntervalMillis"] = election_ms // 3
            client.admin.command("replSetReconfig", config, force=True)
        name = config["_id"]
        deployment.uri = f"mongodb://{','.join(link.address for link in links)}/?replicaSet={name}"
        deployment.primary_address()
        yield Network(links, deployment.uri)
    finally:
        for link in links:
            link.close()
