"""The HTTP server: ``/metrics`` for Prometheus, ``/healthz`` and ``/readyz`` for whoever runs it, and the page.

It shows the newest status, which the engine has made anyway: a scrape asks the engine for nothing, and two scrapes
within a second get the same. The three paths are read-only, and ask for no token, so their port is bound to this
machine alone unless ``metrics.host`` says otherwise. Each port has a server of its own (`snapshotter.metrics.server`),
which answers whatever the engine is busy with; what the page's port shows, and to whom, is its `Site`'s.

Invariant: the ports are held from before the engine's lock is taken until after it is given back.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from snapshotter.configuration.metrics_config import MetricsConfig
from snapshotter.configuration.page_config import PageConfig
from snapshotter.errors import ConfigurationError
from snapshotter.metrics.exposition import exposed
from snapshotter.metrics.health import Answer, healthy, ready
from snapshotter.metrics.server import Server
from snapshotter.reporting.status import Status

_log = structlog.get_logger("snapshotter.metrics")
Newest = Callable[[], Status | None]
"""Gives the newest status, None before the first."""


class Site(Protocol):
    """What is shown at the page's port."""

    config: PageConfig

    def application(self) -> ASGIApp:
        """What answers there; with ASGI's lifespan."""

    def opened(self, port: int) -> None:
        """It is reached at this port from now on."""

    def closing(self) -> None:
        """Answers that are under way have to end."""


class Endpoint:
    """Opened and closed, as often as the engine starts. ``newest`` gives the newest status. Without a port in
    ``config`` the three paths have none of their own, and without one in that of the ``site`` there is no page."""

    def __init__(self, config: MetricsConfig, newest: Newest, site: Site | None = None) -> None:
        self._config = config
        self._newest = newest
        self._site = site
        self._servers: list[Server] = []
        self.port: int | None = None
        self.page_port: int | None = None

    def open(self) -> None:
        """Answer from here on. Raises ConfigurationError where a port cannot be had."""
        listening = self._bound()
        if not listening:
            return
        try:
            answering = self._answering()
        except BaseException:
            _close(listening)
            raise
        for one, (port, application) in zip(listening, answering.items(), strict=True):
            self._servers.append(Server(one, application, lifespan=port == self.page_port))
        if self.port is not None:
            _log.info("metrics are shown", host=self._config.host, port=self.port)
        if self._site is not None and self.page_port is not None:
            self._site.opened(self.page_port)

    def close(self) -> None:
        """Answer nothing from here on; the ports are free."""
        if not self._servers:
            return
        if self._site is not None:
            self._site.closing()
        for server in self._servers:
            server.close()
        while self._servers:
            self._servers.pop().join()

    def _bound(self) -> list[socket.socket]:
        """Sockets that listen. Both ports may be one."""
        page = None if self._site is None else self._site.config
        listening: list[socket.socket] = []
        try:
            if self._config.port is not None:
                listening.append(bound(self._config))
                self.port = listening[0].getsockname()[1]
            if page is None or page.port is None:
                return listening
            if page.port != self._config.port or page.port == 0:
                listening.append(bound(page))
            self.page_port = listening[-1].getsockname()[1]
        except BaseException:
            _close(listening)
            raise
        return listening

    def _answering(self) -> dict[int, ASGIApp]:
        """What answers at which port, in the order of the sockets; at one that is both the page does, which has the
        three paths too."""
        answering: dict[int, ASGIApp] = {}
        if self.port is not None:
            answering[self.port] = Router(probes(self._newest, self._config.labels), redirect_slashes=False)
        if self._site is not None and self.page_port is not None:
            answering[self.page_port] = self._site.application()
        return answering


def _close(listening: Iterable[socket.socket]) -> None:
    for one in listening:
        one.close()


def probes(newest: Newest, labels: Mapping[str, str]) -> list[Route]:
    """The three paths that ask for no token, about the ``newest`` status; ``labels`` of every series."""

    async def metrics(request: Request) -> Response:
        status = newest()
        figures = status.metrics if status is not None else {}
        text, kind = exposed(figures, labels, request.headers.get("accept", ""))
        return Response(text, headers={"content-type": kind})

    async def healthz(_: Request) -> Response:
        return _response(healthy(newest(), time.time()))

    async def readyz(_: Request) -> Response:
        return _response(ready(newest(), time.time()))

    return [Route("/metrics", metrics), Route("/healthz", healthz), Route("/readyz", readyz)]


def _response(answer: Answer) -> Response:
    return PlainTextResponse(f"{answer.text}\n", 200 if answer.good else 503)


def bound(config: MetricsConfig | PageConfig) -> socket.socket:
    """A socket that listens at this address. Raises ConfigurationError where there can be none."""
    port, host = f"{config.option}.port", f"{config.option}.host"
    try:
        family = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((config.host, config.port or 0), family=family)
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigurationError(
            f"{port} = {config.port}: nothing can be opened on {config.host} ({host}): {why}",
            f"choose another {port}, or end what has it; {host} has to be an address of this machine",
        ) from error


def check_port(config: MetricsConfig | PageConfig) -> None:
    """Raise ConfigurationError where a port cannot be had now."""
    if config.port is not None:
        bound(config).close()
