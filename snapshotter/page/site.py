"""What answers at the page's port: the page and its files, its data as JSON and as server-sent events, and signals.

A signal goes the way of any other: it is parsed as such, put into the inbox, and taken by the engine's control loop, so
that it is durable once it is answered, and its outcome is in the status. Nothing else is changed here, and nothing is
asked of the engine: the page shows the newest status, and the window log.

    GET  /                  the page; /page.css, /page.js
    GET  /api/page          what it shows, as JSON; /api/events the same about once a second, as server-sent events
    GET  /api/status        as `snapshotter status --json`
    GET  /api/recording     the newest minutes, to be replayed
    GET  /api/answers/ID    the answer to a dry run, once it is there
    POST /api/signals       {"type": …, "data": {…}, "id": …}

Invariant: whatever is sent has passed `Access`, but for the three paths that are as at the metrics' port.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import resources
from typing import Any

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signals.actions import Action, ExecuteSnapshot
from signals.errors import DuplicateSignal, SignalError, unnamed
from signals.parsing.signal import parse_signal_text
from snapshotter.configuration.page_config import PageConfig
from snapshotter.metrics.endpoint import Newest, probes
from snapshotter.page.access import Access, Asked
from snapshotter.page.history import History
from snapshotter.page.model import model_of
from snapshotter.page.strip import STRIP_MS, strip_of
from snapshotter.reporting.answers import DryRun
from snapshotter.reporting.status import Status
from snapshotter.reporting.window_log import LandedWindow, OpenWindow
from snapshotter.state.storage import StorageError

BODY_MAX = 65_536
STREAMS_MAX = 32
_TICK_SECONDS, _TICKS = 0.25, 4
FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # without any, browsers would not say where a request comes from
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """What the page shows, and where its signals go: the ``newest`` status, the ``windows`` that have landed, those of
    a run that are ``in_flight``, ``send`` for a signal, which raises SignalError or StorageError, ``ask`` before a dry
    run is sent, and its ``answer``. ``labels`` are those of every series."""

    newest: Newest
    windows: Callable[[], Sequence[LandedWindow]]
    in_flight: Callable[[str | None], Sequence[OpenWindow]]
    send: Callable[[Action], object]
    ask: Callable[[str], object]
    answer: Callable[[str], DryRun | None]
    labels: Mapping[str, str] = field(default_factory=dict)


class PageSite:
    """The page of one engine: ``config`` says where, ``access`` who may, ``shown`` what. ``tell`` is called with the
    port, each time that it has been opened."""

    def __init__(
        self,
        config: PageConfig,
        access: Callable[[], Access],
        shown: Shown,
        tell: Callable[[int], object],
    ) -> None:
        self.config = config
        self.history = History()
        self._access, self._shown, self._tell = access, shown, tell
        self._closing = threading.Event()
        self._streams = 0

    def application(self) -> ASGIApp:
        """As `Site.application`."""
        self._closing.clear()
        reads = [
            *(Route(path, _file(*named)) for path, named in FILES.items()),
            Route("/api/page", self._page),
            Route("/api/events", self._events),
            Route("/api/status", self._status),
            Route("/api/recording", self._recording),
            Route("/api/answers/{id:path}", self._answer),
        ]
        acts = Route("/api/signals", self._signal, methods=["POST"])
        routes = [*probes(self._shown.newest, self._shown.labels), *reads, acts]
        router = Router(routes, redirect_slashes=False, lifespan=self._lifespan)
        return _guarded(router, self._access())

    def opened(self, port: int) -> None:
        """As `Site.opened`."""
        self._tell(port)

    def closing(self) -> None:
        """As `Site.closing`."""
        self._closing.set()

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: object) -> AsyncIterator[None]:
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        """So that there is something to replay whether somebody looks or not."""
        while True:
            self.history.note(self._shown.newest())
            await asyncio.sleep(_TICK_SECONDS * _TICKS / 2)

    # To look

    def _view(self) -> bytes:
        """What the page shows now."""
        now, status = time.time(), self._shown.newest()
        self.history.note(status)
        now_ms = round(1000 * now)
        flying = [] if status is None else self._shown.in_flight(status.run_id)
        view = {
            "at": now_ms,
            "model": None if status is None else model_of(status, datetime.fromtimestamp(now, UTC)),
            "windows": strip_of(self._shown.windows(), flying, now_ms),
            "samples": [sample for sample in self.history.samples if now_ms - sample[0] < STRIP_MS],
        }
        return orjson.dumps(view)

    async def _page(self, _: Request) -> Response:
        return _json(self._view())

    async def _events(self, _: Request) -> Response:
        if self._streams >= STREAMS_MAX:
            return _refused(503, "too many pages are open", "close some of them")

        async def follow() -> AsyncIterator[bytes]:
            self._streams += 1
            try:
                while not self._closing.is_set():
                    yield b"data: " + self._view() + b"\n\n"
                    for _ in range(_TICKS):
                        if not self._closing.is_set():
                            await asyncio.sleep(_TICK_SECONDS)
            finally:
                self._streams -= 1

        return StreamingResponse(follow(), media_type="text/event-stream", headers=_HEADERS)

    async def _status(self, _: Request) -> Response:
        status = self._shown.newest()
        if status is None:
            return _refused(404, "the engine has said nothing yet", "ask again in a moment")
        return _json(status.to_json().encode())

    async def _recording(self, _: Request) -> Response:
        return _json(self.history.recording(self._shown.windows()))

    async def _answer(self, request: Request) -> Response:
        signal_id = request.path_params["id"]
        try:
            answer = await run_in_threadpool(self._shown.answer, signal_id)
        except StorageError as error:
            return _refused(503, str(error), "ask again in a moment")
        if answer is not None:
            return _json(answer.to_json().encode())
        if (why := _why_refused(self._shown.newest(), signal_id)) is not None:
            return _json(orjson.dumps({"id": signal_id, "error": why}))
        return _json(b'{"waits":true}', 202)

    # To act

    async def _signal(self, request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return _refused(415, "a signal comes as application/json", "set the header Content-Type")
        text = await _body(request)
        if text is None:
            return _refused(413, f"a signal has {BODY_MAX:,} bytes at most", "ask for less at once")
        made_up = f"page-{uuid.uuid4().hex[:12]}"
        try:
            with unnamed(made_up):
                action = parse_signal_text(text, default_id=made_up)
                await run_in_threadpool(self._take, action)
        except DuplicateSignal as error:
            return _refused(409, str(error), "give it another id")
        except SignalError as error:
            return _refused(400, str(error), "correct the signal, and send it again")
        except StorageError as error:
            return _refused(503, str(error), "nothing was sent: try again when the state can be reached")
        return _json(orjson.dumps({"id": action.id}), 202)

    def _take(self, action: Action) -> None:
        if isinstance(action, ExecuteSnapshot) and action.dry_run:
            self._shown.ask(action.id)
        self._shown.send(action)


async def _body(request: Request) -> bytes | None:
    """None where it is too large; no more than that is taken."""
    parts: list[bytes] = []
    async for part in request.stream():
        parts.append(part)
        if sum(map(len, parts)) > BODY_MAX:
            return None
    return b"".join(parts)


def _why_refused(status: Status | None, signal_id: str) -> str | None:
    found = None if status is None else status.request(signal_id)
    return None if found is None else found.error


def _file(name: str, kind: str) -> Callable[[Request], Any]:
    content = static(name)

    async def send(_: Request) -> Response:
        return Response(content, media_type=kind)

    return send


def static(name: str) -> bytes:
    """A file of the page."""
    return (resources.files("snapshotter.page") / "static" / name).read_bytes()


def _json(text: bytes, code: int = 200) -> Response:
    return Response(text, code, media_type="application/json")


def _refused(code: int, why: str, next_step: str) -> Response:
    return _json(orjson.dumps({"error": why, "next": next_step}), code)


def _guarded(app: ASGIApp, access: Access) -> ASGIApp:
    """``app`` behind ``access``; whatever it answers tells the browser what the page may do."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        said = (tuple(headers.getlist(name)) for name in ("host", "origin", "authorization"))

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name for name, _ in message["headers"]}
                more = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *(h for h in more if h[0] not in there)]
            await send(message)

        refusal = access.refusal(Asked(scope["method"], scope["path"], *said))
        if refusal is None:
            await app(scope, receive, send_on)
        else:
            answer = _refused(refusal.code, refusal.why, refusal.next_step)
            await answer(scope, receive, send_on)

    return guarded
