"""The engine's HTTP server, put together: the metrics' three paths, and the page with what it shows and where its
signals go."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from snapshotter.metrics.endpoint import Endpoint
from snapshotter.page.access import Access
from snapshotter.page.site import PageSite, Shown
from snapshotter.page.tokens import Token, token_of
from snapshotter.reporting.answers import answer_file, read_answer
from snapshotter.state.storage import LocalStorage, Storage

if TYPE_CHECKING:
    from snapshotter.engine.engine import Engine

_log = structlog.get_logger("snapshotter.page")


def endpoint_of(engine: Engine) -> Endpoint:
    """The server of an ``engine``, which has not been opened; there need not be anything that it opens."""
    config = engine.config
    newest = lambda: engine.status.newest  # noqa: E731 - it is asked each time
    site = None if config.page.port is None else page_of(engine)
    return Endpoint(config.metrics, newest, site)


def page_of(engine: Engine) -> PageSite:
    """The page of an ``engine``. Its token is looked for when it is first opened, for that may write to the state."""
    config, storage, found = engine.config.page, engine.storage, list[Token]()

    def access() -> Access:
        found[:] = found or [token_of(config.token, _folder(storage))]
        return Access.of(config, found[0].text)

    def tell(port: int) -> None:
        told.tell(port, found[0], engine.say)

    told = Told(config.host)
    shown = Shown(
        lambda: engine.status.newest,
        engine.windows.listed,
        engine.windows.in_flight,
        engine.inbox.send,
        lambda signal_id: storage.delete(answer_file(signal_id)),
        partial(read_answer, storage),
        engine.config.metrics.labels,
    )
    return PageSite(config, access, shown, tell)


def _folder(storage: Storage) -> Path | None:
    return Path(storage.location) if isinstance(storage, LocalStorage) else None


class Told:
    """The page's address at ``host``, told once: with the token to a terminal, never to a log."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._said = False

    def tell(self, port: int, token: Token, say: Callable[[str], None] | None) -> None:
        """It is open at this ``port``, and asks for this ``token``; ``say`` shows a line to a person, if there is
        one."""
        _log.info("the page is shown", host=self._host, port=port, token=_where(token))
        if self._said or say is None:
            return
        self._said = True
        name = "127.0.0.1" if self._host in ("0.0.0.0", "::") else self._host
        address = f"http://{f'[{name}]' if ':' in name else name}:{port}/"
        if token.made_up and sys.stderr.isatty():
            say(f"page: {address}#token={token.text}")
        else:
            say(f"page: {address} ({_where(token)})")


def _where(token: Token) -> str:
    """Where one finds the token, never what it is."""
    if token.file is not None:
        return f"its token is in {token.file}"
    return "to act there, set engine.http.token" if token.made_up else "its token is engine.http.token"
