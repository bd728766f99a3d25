"""What the page says of an engine: its status, cut to what a person looks for, as one JSON value.

Moments are milliseconds since the epoch, so that a browser shows them in its own time zone. Numbers are as the status
has them; words and next steps are the status's own. Lists are cut, and say how many were left out.

Pure: no clock, no server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from snapshotter.page.verdict import Verdict, notes_of, verdict_of, word_of
from snapshotter.reporting.status import (
    CollectionReport,
    EngineState,
    ErrorReport,
    RequestReport,
    RequestState,
    Status,
)

SHOWN_MAX = 100
_PARTS_MAX = 25
Model = dict[str, Any]
_PAUSES = (RequestState.QUEUED, RequestState.RUNNING)
_FIRST = (RequestState.RUNNING, RequestState.SUSPENDED, RequestState.PAUSED, RequestState.QUEUED)


def model_of(status: Status, now: datetime) -> Model:
    """The page's content for a ``status``, as it is looked at ``now``."""
    verdict = verdict_of(status, now)
    requests = sorted(status.requests, key=_order)
    collections = list(_collections(status))
    return {
        "engine": _engine(status, verdict),
        "stream": {
            "lag_seconds": status.lag_seconds,
            "events_total": status.events_total,
            "events_per_second": round(status.events_per_second, 1),
            "position_at": None if status.position is None else 1000 * status.position.t,
            "paused": status.stream_paused,
        },
        "reading": _reading(requests),
        "runway": _runway(status),
        "collections": collections[:SHOWN_MAX],
        "collections_more": max(0, len(collections) - SHOWN_MAX),
        "requests": [_request(request) for request in requests[:SHOWN_MAX]],
        "requests_more": max(0, len(requests) - SHOWN_MAX),
        "error": _error(status.error),
        "last_error": None if status.error else _error(status.last_error),
        "notes": [{"tone": n.tone, "text": n.headline, "next": n.next_step} for n in notes_of(status)],
        "can": list(_can(status)),
    }


def milliseconds(moment: datetime | None) -> int | None:
    """Since the epoch."""
    return None if moment is None else round(1000 * moment.timestamp())


def _engine(status: Status, verdict: Verdict) -> Model:
    return {
        "name": status.name,
        "state": status.state.value,
        "word": word_of(status),
        "health": status.health,
        "tone": verdict.tone,
        "headline": verdict.headline,
        "next": verdict.next_step,
        "updated_at": milliseconds(status.updated_at),
        "batch": status.batch,
        "process": status.pid,
        "host": status.host,
    }


def _reading(requests: Iterable[RequestReport]) -> Model:
    """All that is read now, together."""
    read = [c for r in requests for c in r.collections if c.state is RequestState.RUNNING]
    left = [c.eta_seconds for c in read if c.eta_seconds is not None]
    return {
        "collections": len(read),
        "rows_per_second": round(sum(c.rows_per_second for c in read)),
        "eta_seconds": round(max(left)) if left else None,
    }


def _runway(status: Status) -> Model | None:
    oplog = status.oplog
    if oplog is None:
        return None
    return {
        "hours": oplog.runway_hours,
        "until": milliseconds(oplog.held_until),
        "oplog_hours": oplog.hours,
        "lost": oplog.runway_hours == 0 and oplog.held_until is None,
    }


def _collections(status: Status) -> Iterator[Model]:
    """Each once: as the request that reads it has it, else the newest one that did, else as a table that the stream
    has landed in."""
    found: dict[str, tuple[RequestReport | None, CollectionReport]] = {}
    for request in sorted(
        status.requests, key=_order, reverse=True
    ):  # the first of the order has the last word
        found |= {report.name: (request, report) for report in request.collections}
    for table in status.tables:
        found.setdefault(table.collection, (None, CollectionReport(name=table.collection)))
    suspended = {s.collection for s in status.suspended if s.restored_by is None}
    for name in suspended:
        found.setdefault(name, (None, CollectionReport(name=name)))
    shown = [_collection(request, report, suspended) for request, report in found.values()]
    yield from sorted(shown, key=lambda one: (one["state"] == "streaming", one["name"]))


def _collection(request: RequestReport | None, report: CollectionReport, suspended: set[str]) -> Model:
    done, total = report.rows + report.dropped, report.estimated_total
    completed = report.state is RequestState.COMPLETED
    state = "streaming" if request is None or report.state.ended else report.state.value
    share = 1.0 if completed else min(1.0, done / total) if total else None
    return {
        "name": report.name,
        "state": "suspended" if report.name in suspended else state,
        "request": None if request is None else request.id,
        "share": None if request is None or share is None else round(share, 4),
        **_counts(report),
        "rows_per_second": round(report.rows_per_second),
        "eta_seconds": None if report.eta_seconds is None else round(report.eta_seconds),
    }


def _counts(report: CollectionReport) -> Model:
    return {
        "read": report.rows + report.dropped,
        "total": report.estimated_total,
        "landed": report.rows,
        "superseded": report.dropped,
        "inserted": report.inserted,
        "changed": report.changed,
        "unchanged": report.unchanged,
        "deleted": report.deleted,
        "windows": report.chunks_done,
    }


def _request(request: RequestReport) -> Model:
    took = None
    if request.accepted_at is not None and request.completed_at is not None:
        took = max(0.0, (request.completed_at - request.accepted_at).total_seconds())
    parts = [{"name": c.name, "state": c.state.value, **_counts(c)} for c in request.collections[:_PARTS_MAX]]
    return {
        "id": request.id,
        "type": request.type,
        "state": request.state.value,
        "accepted_at": milliseconds(request.accepted_at),
        "completed_at": milliseconds(request.completed_at),
        "took_seconds": None if took is None else round(took, 1),
        "priority": request.priority,
        "collections": parts,
        "collections_more": max(0, len(request.collections) - _PARTS_MAX),
        "unknown": list(request.unknown),
        "error": request.error,
        "next": request.next_step,
        "can": list(_can_with(request)),
    }


def _can_with(request: RequestReport) -> Iterator[str]:
    """What may be decided about a request."""
    if request.state in _PAUSES:
        yield "pause-snapshot"
    if request.state in (RequestState.PAUSED, RequestState.FAILED):
        yield "resume-snapshot"
    if not request.state.ended:
        yield "stop-snapshot"


def _can(status: Status) -> Iterator[str]:
    """What may be decided about the engine."""
    if status.state in (EngineState.STOPPING, EngineState.STOPPED):
        return
    yield "execute-snapshot"
    yield "resume-stream" if status.stream_paused else "pause-stream"
    yield "restart"


def _error(error: ErrorReport | None) -> Model | None:
    if error is None:
        return None
    return {
        "message": error.message,
        "class": error.failure,
        "condition": error.condition,
        "next": error.next_step,
        "at": milliseconds(error.at),
    }


def _order(request: RequestReport) -> tuple[int, float]:
    """Those under way first, then the newest."""
    at = request.completed_at or request.accepted_at
    newest = 0.0 if at is None else -at.timestamp()
    return (_FIRST.index(request.state) if request.state in _FIRST else len(_FIRST)), newest
