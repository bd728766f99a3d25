"""How a client's connection fares: whether a server can be read from, how often one was lost, how often the primary
changed.

The driver looks at the servers anyway, and tells its listeners what has changed; a listener asks for nothing. What it
is told comes on a thread of the driver's, one description of the deployment after the other, up to a second late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pymongo.monitoring import (
    TopologyClosedEvent,
    TopologyDescriptionChangedEvent,
    TopologyListener,
    TopologyOpenedEvent,
)
from pymongo.server_type import SERVER_TYPE
from pymongo.topology_description import TopologyDescription


@dataclass(frozen=True, slots=True)
class Connection:
    """``connected``: a server can be read from. ``disconnects``: how often a server that was known was lost.
    ``elections``: how often another primary, or the same one in another term, took over."""

    connected: bool = False
    disconnects: int = 0
    elections: int = 0

    def since(self, before: Connection) -> Connection:
        """What has happened since, and how it stands now."""
        return Connection(
            self.connected, self.disconnects - before.disconnects, self.elections - before.elections
        )


class ConnectionWatch(TopologyListener):
    """Listens to one client from its beginning on. ``seen`` may be read by any thread."""

    def __init__(self) -> None:
        self.seen = Connection()
        self._primary: object = None

    def opened(self, _: TopologyOpenedEvent) -> None:
        """Nothing is known yet."""

    def closed(self, _: TopologyClosedEvent) -> None:
        """A client that is closed has no connection."""
        self.seen = Connection(False, self.seen.disconnects, self.seen.elections)

    def description_changed(self, event: TopologyDescriptionChangedEvent) -> None:
        """As the driver tells it: what it knew before, and what it knows now."""
        before, now = event.previous_description, event.new_description
        known = now.server_descriptions()
        lost = sum(
            server.is_server_type_known and address in known and not known[address].is_server_type_known
            for address, server in before.server_descriptions().items()
        )
        primary = _primary_of(now)
        elected = primary is not None and self._primary is not None and primary != self._primary
        self._primary = primary or self._primary
        self.seen = Connection(
            now.has_readable_server(), self.seen.disconnects + lost, self.seen.elections + elected
        )


def _primary_of(description: TopologyDescription) -> Any:
    """Which server is the primary, and in which term; None where there is none, or a router hides it."""
    primaries = (
        (address, server.election_id)
        for address, server in description.server_descriptions().items()
        if server.server_type == SERVER_TYPE.RSPrimary
    )
    return next(primaries, None)
