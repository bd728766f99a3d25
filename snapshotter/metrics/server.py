"""The server of one port, on a thread of its own.

Connections are few (`CONNECTIONS_MAX`), and whoever says nothing takes no place from others:

- A request has to be there within `PATIENCE_SECONDS` of the connection, or of its first byte where one came before; an
  answer has to be taken by its reader at that pace, too. Between two requests a connection may rest for longer.
- Where all places are taken, a new connection has that of the one which has said nothing for longest; else it is
  answered 503.

Each port has its own places and its own thread: what goes on at the page's leaves the probes alone.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

CONNECTIONS_MAX = 64
PATIENCE_SECONDS = 10.0
_REST_SECONDS = 65
"""Longer than the usual pause between two scrapes, so that a scraper's connection lasts."""


class Server:
    """Answers at ``listening`` by the application ``answering``, from when it is made until it is closed. ``lifespan``:
    the application has ASGI's."""

    def __init__(self, listening: socket.socket, answering: ASGIApp, *, lifespan: bool = False) -> None:
        self._server = uvicorn.Server(
            uvicorn.Config(
                answering,
                log_config=None,
                log_level="warning",
                access_log=False,
                lifespan="on" if lifespan else "off",
                ws="none",
                http=_Connection,
                loop="asyncio",
                server_header=False,
                limit_concurrency=CONNECTIONS_MAX,
                timeout_keep_alive=_REST_SECONDS,
                timeout_graceful_shutdown=1,
            )
        )
        name = f"http-{listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.run, args=([listening],), name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer nothing more; `join` waits until the port is free."""
        self._server.should_exit = True

    def join(self) -> None:
        self._thread.join()


class _Connection(H11Protocol):
    """One that has to say something. ``_spoke``: whether a request has come, and when that, or the answer, was."""

    _spoke = False, 0.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._spoke = False, time.monotonic()
        self._have_a_place()
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._silent:
            self._set_deadline(None)
        elif self._deadline is None:
            self._watch()

    def on_response_complete(self) -> None:
        self._spoke = True, time.monotonic()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._set_deadline(None)

    def timeout_keep_alive_handler(self) -> None:
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_deadline(None)
        super().connection_lost(exc)

    @property
    def _silent(self) -> bool:
        """No request is being answered here."""
        cycle: RequestResponseCycle | None = self.cycle  # none before the first, whatever its type says
        return cycle is None or cycle.response_complete

    def _have_a_place(self) -> None:
        others = [c for c in self.connections if isinstance(c, _Connection) and not c.transport.is_closing()]
        silent = [c for c in others if c._silent and c is not self]
        if len(others) >= CONNECTIONS_MAX and silent:
            min(silent, key=lambda c: c._spoke)._end()

    def _watch(self) -> None:
        self._set_deadline(self.loop.call_later(PATIENCE_SECONDS, self._end))

    def _set_deadline(self, deadline: asyncio.TimerHandle | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = deadline

    def _end(self) -> None:
        """At once: what a peer has not read would be waited for."""
        self.transport.abort()
