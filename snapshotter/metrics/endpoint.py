"""The HTTP endpoint: ``/metrics`` for Prometheus, ``/healthz`` and ``/readyz`` for whoever runs the process.

It shows the newest status, which the engine has made anyway: a scrape asks the engine for nothing, and two scrapes
within a second get the same. It is read-only, and asks for no token, so it is bound to this machine alone unless
``metrics.host`` says otherwise. A server of its own on a thread of its own answers, whatever the engine is busy with.

Invariant: the port is held from before the engine's lock is taken until after it is given back.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import structlog
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router

from snapshotter.configuration.metrics_config import MetricsConfig
from snapshotter.errors import ConfigurationError
from snapshotter.metrics.exposition import exposed
from snapshotter.metrics.health import Answer, healthy, ready
from snapshotter.reporting.status import Status

_log = structlog.get_logger("snapshotter.metrics")
_CONNECTIONS_MAX = 64
_IDLE_SECONDS = 65
"""Longer than the usual pause between two scrapes, so that a scraper's connection lasts."""


class Endpoint:
    """Opened and closed once. ``newest`` gives the newest status, None before the first. Without a port in ``config``
    nothing is opened."""

    def __init__(self, config: MetricsConfig, newest: Callable[[], Status | None]) -> None:
        self._config = config
        self._newest = newest
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self.port: int | None = None

    def open(self) -> None:
        """Answer from here on. Raises ConfigurationError where the port cannot be had."""
        if self._config.port is None:
            return
        listening = bound(self._config)
        self.port = listening.getsockname()[1]
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._app(),
                log_config=None,
                log_level="warning",
                access_log=False,
                lifespan="off",
                ws="none",
                http="h11",
                loop="asyncio",
                server_header=False,
                limit_concurrency=_CONNECTIONS_MAX,
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=1,
            )
        )
        serve = self._server.run
        self._thread = threading.Thread(target=serve, args=([listening],), name="metrics", daemon=True)
        self._thread.start()
        _log.info("metrics are shown", host=self._config.host, port=self.port)

    def close(self) -> None:
        """Answer nothing from here on; the port is free."""
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join()
        self._server = self._thread = None

    def _app(self) -> Router:
        async def metrics(request: Request) -> Response:
            status = self._newest()
            figures = status.metrics if status is not None else {}
            text, kind = exposed(figures, self._config.labels, request.headers.get("accept", ""))
            return Response(text, headers={"content-type": kind})

        async def healthz(_: Request) -> Response:
            return _response(healthy(self._newest(), time.time()))

        async def readyz(_: Request) -> Response:
            return _response(ready(self._newest(), time.time()))

        pages = Route("/metrics", metrics), Route("/healthz", healthz), Route("/readyz", readyz)
        return Router(pages, redirect_slashes=False)


def _response(answer: Answer) -> Response:
    return PlainTextResponse(f"{answer.text}\n", 200 if answer.good else 503)


def bound(config: MetricsConfig) -> socket.socket:
    """A socket that listens at the endpoint's address. Raises ConfigurationError where there can be none."""
    try:
        family = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((config.host, config.port or 0), family=family)
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigurationError(
            f"metrics.port = {config.port}: nothing can be opened on {config.host} (metrics.host): {why}",
            "choose another metrics.port, or end what has it; metrics.host has to be an address of this machine",
        ) from error


def check_port(config: MetricsConfig) -> None:
    """Raise ConfigurationError where the endpoint's port cannot be had now."""
    if config.port is not None:
        bound(config).close()
