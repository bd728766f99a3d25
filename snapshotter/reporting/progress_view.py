"""A status for a person: as a screen for a terminal, and as one line elsewhere.

What is shown of it, and when, is for whoever shows it (`reporting.views`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from rich.console import Console, ConsoleOptions, Group, RenderResult
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

__all__ = ["Screen", "render", "texts", "line", "states_of", "duration"]

_REQUESTS_SHOWN = 5
_PENDING_SHOWN = 20
_WIDTH = 120


class Screen:
    """A status on whatever terminal it is drawn on, at the moment when it is drawn: as high as the terminal at most,
    less ``below`` lines."""

    def __init__(self, status: Status, below: int = 0) -> None:
        self._status = status
        self._below = below

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = console.height - 1 - self._below
        yield from texts(fitting(self._status, options.max_width, height, datetime.now(UTC)))


def texts(lines: Iterable[Line]) -> Iterable[Text]:
    """Lines as a terminal draws them: one that is wider than it goes on below, and is not cut."""
    return (Text(line.text, style=line.style, overflow="fold") for line in lines)


def render(status: Status, width: int = _WIDTH) -> Group:
    """The whole screen of a status, ``width`` columns wide, as of the moment in which it was written."""
    return Group(*texts(screen(status, width, status.updated_at or datetime.now(UTC))))


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
