"""Progress for a person: a live display on a terminal, a line now and then where there is none.

A view is fed the engine's status and shows it; it keeps no state of the engine's. On a terminal one screen
(`reporting.status_screen`) is redrawn in place, as high as the terminal at most. Elsewhere (a log file, a
service) the same facts come as one line, at most every few seconds, and at once when a request begins or
ends.

    with open_view() as view:
        view.update(status)
        view.message("signal sent")
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.text import Text

from signals.texts import duration
from snapshotter.reporting.status import RequestReport, RequestState, Status
from snapshotter.reporting.status_screen import Line, fitting, screen
from snapshotter.reporting.status_texts import (
    channel_texts,
    dead_texts,
    error_text,
    gap_texts,
    health_text,
    stream_text,
    suspended_texts,
)

__all__ = [
    "View",
    "LiveView",
    "LineView",
    "SilentView",
    "open_view",
    "render",
    "texts",
    "line",
    "states_of",
    "duration",
    "LINE_SECONDS",
]

LINE_SECONDS = 5.0
_REQUESTS_SHOWN = 5
_PENDING_SHOWN = 20
_WIDTH = 120


class View(Protocol):
    """Shows progress. Use as a context manager; ``update`` and ``message`` only inside."""

    def update(self, status: Status) -> None:
        """Show the newest status."""

    def message(self, text: str) -> None:
        """Say one line that stays."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_view(stream: TextIO | None = None) -> View:
    """The view that fits a stream (standard error by default): live on a terminal, lines elsewhere."""
    console = Console(file=stream or sys.stderr)
    return LiveView(console) if console.is_terminal else LineView(console)


class _Screen:
    """A status on whatever terminal it is drawn on, at the moment when it is drawn."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = fitting(self._status, options.max_width, console.height - 1, datetime.now(UTC))
        yield from texts(lines)


def texts(lines: Iterable[Line]) -> Iterable[Text]:
    """Lines as a terminal draws them: one that is wider than it goes on below, and is not cut."""
    return (Text(line.text, style=line.style, overflow="fold") for line in lines)


def render(status: Status, width: int = _WIDTH) -> Group:
    """The whole screen of a status, ``width`` columns wide, as of the moment in which it was written."""
    return Group(*texts(screen(status, width, status.updated_at or datetime.now(UTC))))


class LiveView:
    """Redraws one screen in place. The last one stays when the view is left."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=False)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def update(self, status: Status) -> None:
        self._live.update(_Screen(status))

    def message(self, text: str) -> None:
        self._console.print(Text(text))


class LineView:
    """One line on ``console`` now and then: at most one in ``every_seconds``, and at once when the state of the engine
    or of a request changes. ``now`` gives seconds, from any origin."""

    def __init__(
        self, console: Console, every_seconds: float = LINE_SECONDS, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._every = every_seconds
        self._now = now
        self._said_at: float | None = None
        self._said_states: object = None
        self._held_back: Status | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._held_back is not None:
            self._say(self._held_back)

    def update(self, status: Status) -> None:
        states = states_of(status)
        due = self._said_at is None or self._now() - self._said_at >= self._every
        self._held_back = status
        if due or states != self._said_states:
            self._said_states = states
            self._say(status)

    def message(self, text: str) -> None:
        self._print(text)

    def _say(self, status: Status) -> None:
        self._said_at = self._now()
        self._held_back = None
        self._print(line(status))

    def _print(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


class SilentView:
    """Shows nothing: for programs that embed an engine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def update(self, status: Status) -> None:
        """Nothing."""

    def message(self, text: str) -> None:
        """Nothing."""


def states_of(status: Status) -> object:
    """What is worth a line at once when it has changed."""
    return status.state, status.health, tuple((r.id, r.state) for r in status.requests)


def line(status: Status) -> str:
    """A status in one line: the stream, then each collection that is being read or whose request just
    ended.
    """
    parts = [health_text(status), stream_text(status)]
    for request in _shown_requests(status):
        for c in request.collections:
            total = f"/{c.estimated_total}" if c.estimated_total is not None else ""
            text = f"{c.name} {c.state} rows={c.rows}{total} chunks={c.chunks_done} dropped={c.dropped}"
            counts = {"deleted": c.deleted, "changed": c.changed, "unchanged": c.unchanged}
            text += "".join(f" {what}={count}" for what, count in counts.items() if count)
            if c.state is RequestState.RUNNING:
                text += f" rows/s={c.rows_per_second:.0f} eta={duration(c.eta_seconds)}"
            parts.append(text)
        if request.error:
            verb = "is rejected" if request.state is RequestState.REJECTED else "failed"
            parts.append(f"request {request.id} {verb}: {request.error}")
        elif request.state in (RequestState.PAUSED, RequestState.SUSPENDED, RequestState.STOPPED):
            parts.append(f"request {request.id} is {request.state}")
    parts += [*_more(status), *suspended_texts(status), *gap_texts(status), *dead_texts(status)]
    parts += channel_texts(status)
    if error := error_text(status):
        parts.append(error)
    return " | ".join(parts)


def _more(status: Status) -> list[str]:
    """How many requests there was no room for."""
    pending = sum(not r.state.ended for r in status.requests)
    return [f"and {pending - _PENDING_SHOWN} more requests wait"] if pending > _PENDING_SHOWN else []


def _shown_requests(status: Status) -> list[RequestReport]:
    """The requests to show, in the status's order: the first that have not ended, running ones before queued ones; and
    the newest that have ended, as far as there is room."""
    pending = [r for r in status.requests if not r.state.ended]
    pending.sort(key=lambda r: r.state is RequestState.QUEUED)
    pending = pending[:_PENDING_SHOWN]
    ended = [r for r in status.requests if r.state.ended]
    room = max(0, _REQUESTS_SHOWN - len(pending))
    chosen = {r.id for r in [*(ended[-room:] if room else []), *pending]}
    return [r for r in status.requests if r.id in chosen]
