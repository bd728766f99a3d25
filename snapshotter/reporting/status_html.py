"""A status as a notebook shows it: whether the engine lives, what is wrong, and the requests, collection by collection.

Pure: a function of the document and the moment.
"""

from __future__ import annotations

from datetime import datetime

from signals.texts import duration, html_table, moment
from snapshotter.reporting.status import CollectionReport, RequestReport, Status
from snapshotter.reporting.status_screen import kind_of, state_line, took_seconds, what_of
from snapshotter.reporting.status_texts import error_text, stream_text

_SHOWN = 20
_HEADINGS = (
    *("request", "type", "state", "started", "took"),
    *("collection", "state", "rows", "of about", "dropped", "left", "error"),
)


def html_of(status: Status, now: datetime) -> str:
    """At the moment ``now``: the requests that have not ended, and the newest of the others."""
    shown = status.newest_first()[:_SHOWN]
    rows = [row for request in shown for row in _rows(request, now)]
    error = error_text(status)
    more = f" · {len(status.requests) - _SHOWN} more requests" if len(status.requests) > _SHOWN else ""
    facts = [state_line(status, now), stream_text(status), *([error] if error else [])]
    return html_table(" · ".join(facts) + more, _HEADINGS if rows else (), rows)


def html_of_request(request: RequestReport, now: datetime) -> str:
    """A ``request`` at the moment ``now``: what it is, and its collections."""
    return html_table(what_of(request, now), _HEADINGS, _rows(request, now))


def _rows(request: RequestReport, now: datetime) -> list[tuple[object, ...]]:
    whole = (
        *(request.id, kind_of(request), request.state, moment(request.started_at, now)),
        duration(took_seconds(request, now)),
    )
    if not request.collections:
        return [(*whole, "", "", "", "", "", "", request.error or "")]
    return [(*whole, *_cells(c), request.error or "") for c in request.collections]


def _cells(c: CollectionReport) -> tuple[object, ...]:
    about = "" if c.estimated_total is None else f"{c.estimated_total:,}"
    left = "" if c.eta_seconds is None else duration(c.eta_seconds)
    return c.name, c.state, f"{c.rows:,}", about, f"{c.dropped:,}", left
