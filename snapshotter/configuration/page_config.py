"""Where an engine's page is shown, and who may act there, free of how it was configured."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import ClassVar

from snapshotter.configuration.metrics_config import LOCAL

NAMES = "engine.http.names"
LOOPBACK = frozenset({"localhost", LOCAL, "::1"})
"""The names by which a browser on this machine reaches the page."""


@dataclass(frozen=True, slots=True)
class PageConfig:
    """The page's address (port 0: any that is free; None: there is no page). ``token``: what a browser has to know to
    act; None: one is made up. ``names``: further names by which browsers reach the page."""

    host: str = LOCAL
    port: int | None = None
    token: str | None = field(default=None, repr=False)
    names: tuple[str, ...] = ()
    option: ClassVar[str] = "engine.http"

    @property
    def local(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether this address is the machine's own, which no other one reaches."""
    return host.lower() in LOOPBACK or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def is_address(text: str) -> bool:
    """Whether this is an IP address, and no name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
